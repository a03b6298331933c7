"""Resource versions, compared.

Kubernetes promises that those of one resource, and of all resources of one store, are numbers that only grow. A server
that gives out something else can still be asked whether two of its versions differ.
"""


def newer(version: str, than: str) -> bool:
    """Whether a resource version is newer than another. Where they are no numbers, any other one counts as newer."""
    if version.isdigit() and than.isdigit():
        return int(version) > int(than)
    return version != than
