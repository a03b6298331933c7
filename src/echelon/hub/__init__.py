"""The embedded hub: a Kubernetes-compatible API server that needs nothing else installed."""
