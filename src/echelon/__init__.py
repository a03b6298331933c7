"""Echelon: progressive rollouts for fleets of Kubernetes clusters."""

__version__ = "0.1.0"
