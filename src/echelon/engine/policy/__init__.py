"""Policies: which clusters have a replica, with which content, enforced or not yet, and what became of it."""
