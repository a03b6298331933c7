"""What `echelon fleet capture` reads: whatever a plan looks at."""

import asyncio
from datetime import UTC, datetime
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.cluster import (
    ADD_ON_PLACEMENT_SCORE,
    MANAGED_CLUSTER,
    MANAGED_CLUSTER_SET,
    MANAGED_CLUSTER_SET_BINDING,
)
from echelon.api.controller_revisions import CONTROLLER_REVISION
from echelon.api.core import POD
from echelon.api.grove import POD_CLIQUE, POD_CLIQUE_SCALING_GROUP, POD_CLIQUE_SET
from echelon.api.karmada import RESOURCE_BINDING, WORK
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.override import CLUSTER_OVERRIDE_POLICY, OVERRIDE_POLICY
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.api.placement_rule import PLACEMENT_RULE
from echelon.api.policy import POLICY
from echelon.api.policy_binding import PLACEMENT_BINDING, POLICY_SET
from echelon.api.propagation import CLUSTER_PROPAGATION_POLICY, PROPAGATION_POLICY
from echelon.api.rollout_ledger import ROLLOUT_LEDGER
from echelon.api.work import MANIFEST_WORK
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.cli.connection import Connection
from echelon.engine.pod_clique.names import PART_OF
from echelon.fleet.capture import Capture, captured
from echelon.kube.client import Reader
from echelon.kube.errors import Forbidden, NotFound
from echelon.rollouts.templates import TEMPLATES

# Whatever a plan looks at. Where a label stands beside a kind, only such objects are of interest.
CAPTURED: tuple[tuple[Kind[Any], str], ...] = (
    (NAMESPACE, ""),
    (MANAGED_CLUSTER, ""),
    (MANAGED_CLUSTER_SET, ""),
    (MANAGED_CLUSTER_SET_BINDING, ""),
    (ADD_ON_PLACEMENT_SCORE, ""),
    (PLACEMENT, ""),
    (PLACEMENT_DECISION, ""),
    (PLACEMENT_RULE, ""),
    (MANIFEST_WORK_REPLICA_SET, ""),
    (MANIFEST_WORK, ""),
    (POLICY, ""),
    (POLICY_SET, ""),
    (PLACEMENT_BINDING, ""),
    (PROPAGATION_POLICY, ""),
    (CLUSTER_PROPAGATION_POLICY, ""),
    (OVERRIDE_POLICY, ""),
    (CLUSTER_OVERRIDE_POLICY, ""),
    (RESOURCE_BINDING, ""),
    (ROLLOUT_LEDGER, ""),
    (WORK, ""),
    (POD_CLIQUE_SET, ""),
    (POD_CLIQUE, ""),
    (POD_CLIQUE_SCALING_GROUP, ""),
    (POD, PART_OF),
    (CONTROLLER_REVISION, ""),
)
_PAGE = 1000


def captured_now(connection: Connection) -> Capture:
    """Return what there is to see on a hub."""
    return asyncio.run(_captured(connection))


async def _captured(connection: Connection) -> Capture:
    async with connection.open() as client:
        return await capture_fleet(client, datetime.now(UTC))


async def capture_fleet(client: Reader, now: datetime) -> Capture:
    """Return all of a fleet that may be seen."""
    objects: list[JSONObject] = []
    unseen: dict[str, str] = {}
    for kind, label in CAPTURED:
        try:
            objects += await _listed(client, kind, label)
        except Forbidden as error:
            unseen[kind.resource] = str(error)
        except NotFound:  # the hub does not serve it
            continue
    objects += await _templates(client, objects, unseen)
    return captured(now, objects, unseen)


async def _listed(client: Reader, kind: Kind[Any], label: str = "", namespace: str = "") -> list[JSONObject]:
    """Return all objects of a kind, page by page."""
    found: list[JSONObject] = []
    after = ""
    while True:
        page = await client.list(kind.untyped(), namespace, labels=label, limit=_PAGE, continue_=after)
        found += [{**kind.type_meta, **each} for each in page.items]
        if not page.continue_:
            return found
        after = page.continue_


async def _templates(client: Reader, objects: list[JSONObject], unseen: dict[str, str]) -> list[JSONObject]:
    """Return the workloads of namespaces in which some are propagated: others are none of the fleet's."""
    kinds = (PROPAGATION_POLICY.kind, RESOURCE_BINDING.kind)
    spaces = {each["metadata"]["namespace"] for each in objects if each["kind"] in kinds}
    everywhere = any(each["kind"] == CLUSTER_PROPAGATION_POLICY.kind for each in objects)
    found: list[JSONObject] = []
    for kind in TEMPLATES:
        for namespace in [""] if everywhere else sorted(spaces):
            try:
                found += await _listed(client, kind, namespace=namespace)
            except Forbidden as error:
                unseen[kind.resource] = str(error)
            except NotFound:
                continue
    return found
