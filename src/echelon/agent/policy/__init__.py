"""Policies on the side of the cluster: copies, the objects of templates, and what the hub is told of them."""
