"""Placement: which clusters are chosen, in which groups they are, and how that is published.

Importing this package imports nothing else: take what you need from its modules.
"""
