"""What people call an object of a work."""

from echelon.api.work import ManifestResourceMeta


def described(meta: ManifestResourceMeta) -> str:
    """Return what people call an object."""
    name = "/".join(filter(None, (meta.namespace, meta.name)))
    return f"{meta.kind} {name}" if meta.kind and name else f"manifest {meta.ordinal}"
