"""Federated workloads on the side of the cluster: what works bring, and what is told of it."""
