"""`echelon cluster cordon` and `uncordon`: keep new work away from a cluster, as kubectl does with nodes.

A cordon is a taint, which every placement looks at unless it tolerates it. With the effect NoSelectIfNew a placement
that has the cluster keeps it, and no other takes it; with NoSelect those that have it give it up, too.
"""

import asyncio
from collections.abc import Sequence

from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER, ManagedCluster, Taint
from echelon.cli.cluster_names import cluster_of
from echelon.cli.connection import Connection
from echelon.cli.terminal import echo
from echelon.kube.client import Client, MergePatch
from echelon.kube.errors import Conflict

CORDONED = "echelon.dev/cordoned"
_TRIES = 8


def cordon(connection: Connection, names: Sequence[str], *, evict: bool, reason: str) -> None:
    """Keep new work away from clusters."""
    taint: JSONObject = {"key": CORDONED, "effect": "NoSelect" if evict else "NoSelectIfNew"}
    asyncio.run(_change(connection, names, taint | ({"value": reason} if reason else {})))


def uncordon(connection: Connection, names: Sequence[str]) -> None:
    """Let clusters have new work again."""
    asyncio.run(_change(connection, names, None))


async def _change(connection: Connection, names: Sequence[str], taint: JSONObject | None) -> None:
    async with connection.open() as client:
        seen = [await cluster_of(client, name) for name in dict.fromkeys(names)]  # all of them, before any is changed
        for each in seen:
            echo(await _changed(client, each, taint))


async def _changed(client: Client, seen: ManagedCluster, taint: JSONObject | None) -> str:
    name = seen.metadata.name
    for attempt in range(_TRIES):
        present = next((each for each in seen.spec.taints if each.key == CORDONED), None)
        if _is_same(present, taint):
            return f"cluster {name} {'is not cordoned' if taint is None else 'is cordoned already'}"
        try:
            await client.patch(MANAGED_CLUSTER, name, MergePatch(_with(seen, taint)))
        except Conflict:
            if attempt == _TRIES - 1:
                raise
            seen = await client.get(MANAGED_CLUSTER, name)
            continue
        break
    if taint is None:
        return f"cluster {name} uncordoned"
    kept = "placements give it up" if taint["effect"] == "NoSelect" else "what it has stays"
    return f"cluster {name} cordoned: no placement takes it anew, and {kept}"


def _is_same(present: Taint | None, wanted: JSONObject | None) -> bool:
    if present is None or wanted is None:
        return present is None and wanted is None
    return (present.effect, present.value) == (wanted["effect"], wanted.get("value", ""))


def _with(seen: ManagedCluster, taint: JSONObject | None) -> JSONObject:
    """Return the change; a merge patch replaces the list, so its version keeps anybody else's taint from being lost."""
    kept = [_wire(each) for each in seen.spec.taints if each.key != CORDONED]
    meta = {"uid": seen.metadata.uid, "resourceVersion": seen.metadata.resource_version}
    return {"metadata": meta, "spec": {"taints": [*kept, *([taint] if taint is not None else [])] or None}}


def _wire(taint: Taint) -> JSONObject:
    said = {"key": taint.key, "value": taint.value, "effect": taint.effect, "timeAdded": taint.time_added}
    return {name: value for name, value in said.items() if value}
