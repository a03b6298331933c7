"""Talking to a Kubernetes API: what controllers stand on, whichever hub they run against."""
