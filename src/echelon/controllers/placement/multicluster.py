"""Publishes the decisions of placements once more, in the form of SIG Multicluster.

This follows the decisions that are there and decides nothing, so it may run beside any scheduler that writes them. What
it writes belongs to the placement and goes with it. A placement without decisions is one that nobody has scheduled yet,
or that is about to be gone; neither is a reason to take back what was published.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.multicluster import (
    DECISION_INDEX_LABEL,
    DECISION_KEY_LABEL,
    MULTICLUSTER_DECISION,
    PLACEMENT_KEY_LABEL,
)
from echelon.api.multicluster import PlacementDecision as MulticlusterDecision
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION, Placement, PlacementDecision
from echelon.controllers.context import ControllerContext
from echelon.controllers.placement.removals import LOOK_AGAIN, RemovalBarrier, RemovalPlan
from echelon.controllers.placement.sources import decisions_informer
from echelon.engine.placement.compiled import MAX_NAME
from echelon.engine.placement.mirror import DeleteMirrored, MirroredDecision, MirroredWrite, mirror, mirrored_decisions
from echelon.engine.placement.slices import read_slice, readable_index
from echelon.engine.plan import NOTHING, Action, Create, Delete, Patch, Plan
from echelon.kube.controller import Controller
from echelon.kube.informer import Informer

KINDS: tuple[Kind[Any], ...] = (PLACEMENT, PLACEMENT_DECISION, MULTICLUSTER_DECISION)
SCHEDULER = "echelon"
WORKERS = 4


class MulticlusterReconciler:
    """Plans what mirrors a placement's decisions."""

    def __init__(
        self,
        placements: Informer[Placement],
        decisions: Informer[PlacementDecision],
        published: Informer[MulticlusterDecision],
        removals: RemovalBarrier[MulticlusterDecision],
    ) -> None:
        self._placements = placements
        self._decisions = decisions
        self._published = published
        self._removals = removals

    def plan(self, key: Key, now: datetime) -> Plan:
        """Plan one placement."""
        placement = self._placements.get(key)
        if placement is None or placement.metadata.deletion_timestamp or len(key.name) > MAX_NAME:
            return NOTHING
        uid = placement.metadata.uid
        decisions = [one for one in self._decisions.by_index("owner", uid) if not one.metadata.deletion_timestamp]
        there = {one.metadata.name: one for one in self._published.by_index("owner", uid)}
        desired = mirrored_decisions(map(read_slice, decisions))
        if not desired:
            return NOTHING
        writes = mirror([_mirrored(one) for one in there.values()], desired)
        wanted = {cluster for one in desired for cluster in one.clusters}
        verdict = self._removals.judge(key, there.values(), wanted, now) if writes else None
        if verdict is not None and verdict.must_wait:
            return RemovalPlan(look_again_after=LOOK_AGAIN, verdict=verdict)
        return RemovalPlan(tuple(_action(placement, there, write) for write in writes), verdict=verdict)

    def begin(self, key: Key, plan: Plan) -> None:
        """Hear that a plan begins to be carried out."""
        self._removals.begin(key, plan.verdict if isinstance(plan, RemovalPlan) else None)


def multicluster_controller(context: ControllerContext) -> Controller:
    """Return a controller that publishes decisions for SIG Multicluster."""
    placements, decisions = context.informer(PLACEMENT), decisions_informer(context)
    published = context.informer(MULTICLUSTER_DECISION, indexers={"owner": _owners_of})
    removals = RemovalBarrier(MULTICLUSTER_DECISION, _clusters_of, [placements, decisions])
    reconciler = MulticlusterReconciler(placements, decisions, published, removals)
    controller = context.controller(
        "multicluster", reconciler, workers=WORKERS, on_plan=reconciler.begin, on_written=removals.wrote
    )
    published.on_change(lambda delta: removals.gone(delta.object) if delta.new is None else None)
    controller.watch(placements, when=lambda delta: delta.old is None or delta.new is None)
    controller.watch(decisions, keys=_placements_of)
    controller.watch(published, keys=_placements_of)
    return controller


def _placements_of(decision: PlacementDecision | MulticlusterDecision) -> Iterator[Key]:
    meta = decision.metadata
    return (Key(meta.namespace, owner.name) for owner in meta.owner_references if owner.kind == PLACEMENT.kind)


def _owners_of(decision: MulticlusterDecision) -> Iterator[str]:
    return (owner.uid for owner in decision.metadata.owner_references if owner.kind == PLACEMENT.kind)


def _clusters_of(decision: MulticlusterDecision) -> Iterator[str]:
    return (entry.cluster_profile_ref.name for entry in decision.decisions)


def _mirrored(decision: MulticlusterDecision) -> MirroredDecision:
    """Read what was published. Labels that are not ours, or wrong, make it different from anything that is wanted."""
    labels = decision.metadata.labels
    index = labels.get(DECISION_INDEX_LABEL, "")
    owner = next((key.name for key in _placements_of(decision)), "")
    right = readable_index(index) and {labels.get(DECISION_KEY_LABEL), labels.get(PLACEMENT_KEY_LABEL)} == {owner}
    return MirroredDecision(decision.metadata.name, int(index) if right else -1, tuple(_clusters_of(decision)))


def _action(placement: Placement, there: dict[str, MulticlusterDecision], write: MirroredWrite) -> Action:
    namespace = placement.metadata.namespace
    if isinstance(write, DeleteMirrored):
        # One that this plan made has no version yet, and gets it from the write.
        meta = there[write.name].metadata if write.name in there else None
        return Delete(
            MULTICLUSTER_DECISION,
            write.name,
            namespace,
            uid=meta.uid if meta else "",
            resource_version=meta.resource_version if meta else "",
        )
    body = _body(placement, write.decision)
    if write.decision.name not in there:
        return Create(MULTICLUSTER_DECISION, body, namespace)
    changed = {"metadata": {"labels": body["metadata"]["labels"]}, "decisions": body["decisions"]}
    return Patch.of(MULTICLUSTER_DECISION, there[write.decision.name].metadata, changed)


def _body(placement: Placement, decision: MirroredDecision) -> JSONObject:
    meta = placement.metadata
    owner = {**PLACEMENT.owner_reference(meta.name, meta.uid), "controller": True, "blockOwnerDeletion": True}
    labels = {
        DECISION_KEY_LABEL: meta.name,
        DECISION_INDEX_LABEL: str(decision.index),
        PLACEMENT_KEY_LABEL: meta.name,
    }
    return {
        **MULTICLUSTER_DECISION.type_meta,
        "metadata": {"name": decision.name, "namespace": meta.namespace, "labels": labels, "ownerReferences": [owner]},
        "decisions": [{"clusterProfileRef": {"name": cluster}} for cluster in decision.clusters],
        "schedulerName": SCHEDULER,
    }
