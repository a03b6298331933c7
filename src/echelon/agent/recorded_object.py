"""Objects as records list them: how they are asked for, and how to know that one is gone."""

from typing import Any

from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.api.work import AppliedResource
from echelon.engine.plan import Patch
from echelon.kube.client import Client, DeleteOptions, Preconditions
from echelon.kube.errors import Conflict, NotFound


def kind_of(resource: AppliedResource) -> Kind[Any]:
    """Return the kind under which a recorded object is asked for."""
    return Kind(
        resource.group,
        resource.version,
        "",
        resource.resource,
        dict[str, Any],
        namespaced=bool(resource.namespace),
    )


def metadata_patch(kind: Kind[Any], live: JSONObject, metadata: JSONObject) -> Patch:
    """Return what changes the metadata of an object that is still as it was seen."""
    meta = live["metadata"]
    body = {"metadata": metadata}
    return Patch(kind, meta["name"], body, meta.get("namespace", ""), meta["uid"], meta["resourceVersion"])


async def is_gone(member: Client, resource: AppliedResource) -> bool:
    """Make sure that an object is gone: a read may be of the past, an attempt to write is not."""
    how = DeleteOptions(Preconditions(uid=resource.uid), dry_run=True)
    try:
        await member.delete(kind_of(resource), resource.name, resource.namespace, options=how)
    except NotFound:
        return True
    except Conflict:
        return False  # there is something; the next look will show what
    return False
