"""The program that holds a pod back until the cliques that it starts after are up.

It is the first thing that runs in such a pod, in a container of its own, and ends when the pod may start. It speaks to
the API server with a token that may only look at pods, and outlives whatever that server does: a pod that waits too
long can be seen and told, one that starts too early breaks what it belongs to.
"""
