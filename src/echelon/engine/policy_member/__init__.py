"""Policies on a cluster: the copy of a replica, the objects of its templates, and what the hub is told of them."""
