"""Makes one write of a plan, with its preconditions."""

from typing import Any

from echelon.api.base import JSONObject
from echelon.engine.plan import Create, Delete, Patch, Write
from echelon.kube.client import ApplyPatch, DeleteOptions, MergePatch, Preconditions, WriteOptions, Writer


async def write(action: Write, client: Writer, options: WriteOptions) -> Any:
    """Make a write and return the object that it led to, of its kind's type; None for a deletion."""
    kind, namespace = action.kind, action.namespace
    if isinstance(action, Delete):
        expected = Preconditions(action.uid, action.resource_version)
        how = DeleteOptions(preconditions=expected, propagation=action.propagation)
        await client.delete(kind, action.name, namespace, options=how)
        return None
    if isinstance(action, Create):
        return await client.create(kind, action.body, namespace, options=options)
    if isinstance(action, Patch):
        patch: MergePatch | ApplyPatch = MergePatch(_with_preconditions(action))
    else:
        patch = ApplyPatch(action.body, options.field_manager, action.force)
    return await client.patch(kind, action.name, patch, namespace, subresource=action.subresource, options=options)


def _with_preconditions(action: Patch) -> JSONObject:
    """Say in the patch which object, in which state, it is meant for."""
    expected = {"uid": action.uid, "resourceVersion": action.resource_version}
    said = {name: value for name, value in expected.items() if value}
    if not said:
        return action.body
    return {**action.body, "metadata": {**action.body.get("metadata", {}), **said}}
