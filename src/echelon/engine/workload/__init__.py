"""Federated workloads: what each cluster is sent of a workload, so that its budgets hold over all clusters together."""
