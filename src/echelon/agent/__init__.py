"""Reconcilers on the side of a member cluster: registration, and the works that the hub asks for."""
