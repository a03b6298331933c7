"""Which rollouts a change concerns, what each of them is now, and what it would do.

An object of a file is one; so is every rollout that follows a placement which would decide otherwise, or that a binding
brings elsewhere, though no file has it. Both times it is read with the functions by which `echelon rollout` reads it,
once from the hub and once from the hub with the change laid over it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.grove import POD_CLIQUE_SET
from echelon.api.karmada import RESOURCE_BINDING
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.cli.plan_fleet import FleetPlan
from echelon.engine.forecast.course import forecast
from echelon.engine.forecast.membership import MembershipChange, membership_change
from echelon.engine.forecast.model import ALL_WELL, Assumptions, Forecast
from echelon.engine.forecast.obstacles import Obstacle, longest, obstacles
from echelon.engine.placement.decisions import DecisionGroups
from echelon.engine.rollout.subject import Subject
from echelon.kube.client import Reader
from echelon.kube.errors import Forbidden, NotFound
from echelon.rollouts.kinds import ROLLOUT_KINDS, RolloutKind, readable
from echelon.rollouts.on_demand import on_demand
from echelon.rollouts.reading import Found

_foresee_workload = on_demand("echelon.cli.plan_workloads", "foresee_workload")  # few plans have one
_foresee_set = on_demand("echelon.cli.plan_clique_sets", "foresee_set")
_set_obstacles = on_demand("echelon.engine.forecast.clique_obstacles", "set_obstacles")
_BY_BUDGET = "a wave has the clusters that may begin; when each does is for the budget of pods that all of them share"


@dataclass(frozen=True)
class RolloutPlan:
    """A rollout, as it is and as it would be."""

    kind: Kind[Any]
    name: str
    namespace: str
    before: Subject | None
    after: Subject
    forecast: Forecast
    membership: MembershipChange
    obstacles: tuple[Obstacle, ...] = ()
    longest: timedelta | None = None
    contents: tuple["ContentChange", ...] = ()
    note: str = ""
    caused: bool = True  # by the change; else it is what the rollout does anyhow

    @property
    def differs(self) -> bool:
        """Whether anything comes of the change."""
        return self.caused and (self.forecast.changes or bool(self.membership) or self.is_stopped)

    @property
    def is_stopped(self) -> bool:
        """Whether something is in its way already."""
        return any(each.stops_now for each in self.obstacles)

    @property
    def title(self) -> str:
        """What people call it."""
        return f"{self.kind.singular} {self.namespace}/{self.name}"


@dataclass(frozen=True)
class ContentChange:
    """Clusters that have one content, and get another."""

    clusters: tuple[str, ...]
    revision: str  # that they have; empty for nothing
    before: JSONObject | None  # None where that is nothing, or is not known any more
    after: JSONObject
    known: bool = True


@dataclass(frozen=True)
class Concern:
    """What a change is about."""

    changed: Mapping[str, Collection[Key]] = field(default_factory=dict)  # by resource
    placements: frozenset[Key] = frozenset()  # that would decide otherwise
    namespaces: frozenset[str] = frozenset()  # in which bindings change

    def of(self, kind: Kind[Any], key: Key) -> bool:
        """Whether an object is in the files."""
        return key in self.changed.get(kind.resource, ())


class RolloutPlans:
    """Reads rollouts twice, and compares."""

    def __init__(
        self,
        now_: Reader,
        then: Reader,
        fleet: FleetPlan,
        now: datetime,
        *,
        assumed: Assumptions = ALL_WELL,
    ) -> None:
        """`now_` sees what is, `then` what would be."""
        self._now_, self._then = now_, then
        self._fleet = fleet
        self._now = now
        self._assumed = assumed

    async def concerned(self, concern: Concern) -> list[RolloutPlan]:
        """Return the rollouts that a change is about."""
        spaces = {key.namespace for keys in concern.changed.values() for key in keys}
        spaces |= {key.namespace for key in concern.placements} | concern.namespaces
        found: list[RolloutPlan] = []
        for namespace in sorted(spaces - {""}):
            for entry in ROLLOUT_KINDS:
                found += await self._of_kind(entry, namespace, concern)
        return found

    async def _of_kind(self, entry: RolloutKind, namespace: str, concern: Concern) -> list[RolloutPlan]:
        try:
            documents = (await self._then.list(entry.kind.untyped(), namespace, labels=entry.labels)).items
        except (NotFound, Forbidden):
            return []
        found = []
        for document in documents:
            if not entry.copy_of(document) and _may_concern(entry, document, concern):
                plan = await self._plan(entry, document, concern)
                if plan is not None:
                    found.append(plan)
        return found

    async def _plan(self, entry: RolloutKind, document: JSONObject, concern: Concern) -> RolloutPlan | None:
        meta = document["metadata"]
        key = Key(meta["namespace"], meta["name"])
        with readable(entry.kind, document):
            after = await entry.read(self._then, document, self._now)
        before, was = await self._before(entry, key)
        if entry.kind == POD_CLIQUE_SET:
            return await self._set_plan(document, was, before, after) if concern.of(entry.kind, key) else None
        subject = self._informed(after.subject, before.subject if before is not None else None)
        foreseen = await self._foreseen(entry, document, subject)
        change = membership_change(groups_of(before.subject if before is not None else None), groups_of(subject))
        asked = concern.of(entry.kind, key) or (
            after.template is not None and concern.of(after.kind, Key(key.namespace, after.name))
        )
        caused = bool(change) or _differs(before, after) or _is_resized(entry, was, document)
        if not asked and not caused:
            return None
        return RolloutPlan(
            after.kind,
            after.name,
            key.namespace,
            before.subject if before is not None else None,
            subject,
            foreseen,
            change,
            obstacles(subject, self._now, foreseen.pods),
            longest(subject, self._now, foreseen),
            contents_of(before.subject if before is not None else None, subject, foreseen),
            after.note or (_BY_BUDGET if _is_coarse(entry, foreseen) else ""),
            caused,
        )

    async def _set_plan(
        self, document: JSONObject, was: JSONObject, before: Found | None, after: Found
    ) -> RolloutPlan | None:
        """Return what a PodCliqueSet would do with its pods, which are all in one cluster."""
        note = after.note
        try:
            foreseen: Forecast = await _foresee_set(self._then, document, self._now, self._assumed)
        except Forbidden as error:
            note, foreseen = f"which pods are replaced cannot be told: {error}", Forecast(after.subject.revision)
        old = before.subject if before is not None else None
        template, content = (each.get("spec", {}).get("template") for each in (was, document))
        contents = () if template == content else (ContentChange((), old.revision if old else "", template, content),)
        meta = document["metadata"]
        return RolloutPlan(
            POD_CLIQUE_SET,
            meta["name"],
            meta["namespace"],
            old,
            after.subject,
            foreseen,
            membership_change(groups_of(None), groups_of(None)),
            _set_obstacles(document),
            contents=contents,
            note=note,
            caused=was.get("spec") != document["spec"],
        )

    async def _foreseen(self, entry: RolloutKind, document: JSONObject, subject: Subject) -> Forecast:
        if entry.kind == RESOURCE_BINDING:
            found: Forecast | None = await _foresee_workload(self._then, document, subject, self._fleet, self._assumed)
            if found is not None:
                return found
        return forecast(subject, self._now, self._assumed)

    async def _before(self, entry: RolloutKind, key: Key) -> tuple[Found | None, JSONObject]:
        try:
            document = await self._now_.get(entry.kind.untyped(), key.name, key.namespace)
        except NotFound:
            return None, {}
        with readable(entry.kind, document):
            return await entry.read(self._now_, document, self._now), document

    def _informed(self, subject: Subject, before: Subject | None) -> Subject:
        """Return a subject with what the controller knows of its clusters, as far as that can be seen.

        Where the controller has said nothing of clusters that are in no bound set, it does not ask for sets.
        """
        fleet = self._fleet
        subject = replace(subject, max_removals=fleet.told.max_removals)
        if fleet.unseen:
            return subject
        having = frozenset(subject.holdings)
        listed = groups_of(subject).clusters
        strange = (listed | having) - fleet.bound(subject.namespace)
        unbound = frozenset(each for each in strange if each in listed or each in fleet.clusters)
        trusted = before is not None and before.reported is not None and not before.unbound and unbound & having
        return replace(
            subject,
            unbound=frozenset() if fleet.told.trust_decisions else subject.unbound if trusted else unbound,
            leaving=fleet.leaving(listed),
            spared=fleet.spared(having - listed),
        )


def groups_of(subject: Subject | None) -> DecisionGroups:
    """Return the groups of all references, each with the name of its placement where there are several."""
    if subject is None:
        return DecisionGroups({})
    several = len(subject.references) > 1
    return DecisionGroups(
        {
            replace(key, placement=key.placement or (ref.name if several else "")): clusters
            for ref in subject.references
            if ref.placement is not None
            for key, clusters in ref.placement.groups.groups.items()
        }
    )


def contents_of(before: Subject | None, after: Subject, foreseen: Forecast) -> tuple[ContentChange, ...]:
    """Return which clusters get which content instead of which."""
    known: dict[str, JSONObject] = {each.revision: each.content for each in after.revisions if each.content is not None}
    if before is not None:
        known[before.revision] = before.content
    wanted = known.get(foreseen.revision, after.content) if foreseen.revision != after.revision else after.content
    by_revision: dict[str, list[str]] = {}
    for cluster in sorted(foreseen.starting | {*foreseen.inspected}):
        holding = after.holdings.get(cluster)
        by_revision.setdefault(holding.revision if holding is not None else "", []).append(cluster)
    return tuple(
        ContentChange(tuple(clusters), revision, known.get(revision), wanted, not revision or revision in known)
        for revision, clusters in sorted(by_revision.items(), key=lambda pair: -len(pair[1]))
    )


def _may_concern(entry: RolloutKind, document: JSONObject, concern: Concern) -> bool:
    """Whether a change may be about a rollout; reading one costs what its clusters cost."""
    meta = document["metadata"]
    key = Key(meta["namespace"], meta["name"])
    if concern.of(entry.kind, key) or key.namespace in concern.namespaces:
        return True
    if any(concern.of(kind, Key(key.namespace, name)) for kind, name in _templates(entry, document)):
        return True
    placements = {each.name for each in concern.placements if each.namespace == key.namespace}
    if entry.kind == MANIFEST_WORK_REPLICA_SET:
        refs = (document.get("spec") or {}).get("placementRefs") or ()
        return not placements.isdisjoint(each.get("name") for each in refs if isinstance(each, dict))
    return bool(placements)


def _templates(entry: RolloutKind, document: JSONObject) -> Iterable[tuple[Kind[Any], str]]:
    resource = (document.get("spec") or {}).get("resource") or {}
    return [(kind, str(resource.get("name"))) for kind in entry.templates if kind.kind == resource.get("kind")]


def _is_coarse(entry: RolloutKind, foreseen: Forecast) -> bool:
    """Whether only the order is told in which clusters may begin, and not what their budget lets them do."""
    return entry.kind == RESOURCE_BINDING and foreseen.pods is None and bool(foreseen.starting)


def _is_resized(entry: RolloutKind, before: JSONObject, after: JSONObject) -> bool:
    """Whether clusters are to have other numbers of pods."""
    return entry.kind == RESOURCE_BINDING and before.get("spec", {}).get("clusters") != after["spec"].get("clusters")


def _differs(before: Found | None, after: Found) -> bool:
    """Whether a rollout would be about something else."""
    if before is None:
        return True
    was, is_ = before.subject, after.subject
    if (was.revision, was.references, was.problem) != (is_.revision, is_.references, is_.problem):
        return True
    return was.metadata.annotations != is_.metadata.annotations  # by which people steer it
