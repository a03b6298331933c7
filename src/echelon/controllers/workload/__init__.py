"""Federated workloads: from a template and a policy to a binding, its ledger, its works, and what is told of them."""
