"""What became of a manifest, and what the next attempt has to know about it.

Nearly everything that an agent remembers is here, manifest by manifest, and goes with the work that it is about. What
must outlive the agent is read back from what was reported.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from echelon.agent.applying import FieldConflict, reason
from echelon.agent.executor import RETRY_SECONDS, NotAllowed
from echelon.agent.sights import Spot
from echelon.api.base import JSONObject
from echelon.api.manifest_config import ManifestUpdateStrategy
from echelon.api.work import AppliedResource, ManifestCondition, ManifestResourceMeta, ManifestWork
from echelon.engine.conditions import find_condition
from echelon.engine.work.cleaning import Place, place_of
from echelon.engine.work.discretion import without_secrets
from echelon.engine.work.drift import NO_REPAIR, Repair, count_of, drifted
from echelon.engine.work.ignoring import IgnoreFieldError
from echelon.engine.work.order import readable
from echelon.engine.work.reporting import Apply, Found, NotApplied, Outcome, Sight, Unreached, Unreadable
from echelon.engine.work.updating import Memory, Wanted
from echelon.kube.errors import ApiError

SOON = 0.0  # as soon as the growing pause between tries allows
UNTIL_CHANGED = math.inf
# Request timeout, conflict, too many requests; and that nobody knows the agent, which is not about a manifest either.
_PASSING = frozenset({401, 408, 409, 429})


@dataclass(frozen=True)
class Held:
    """To what an object is held once it was applied."""

    wanted: Wanted
    strategy: ManifestUpdateStrategy


@dataclass(frozen=True)
class Handled:
    """What became of a manifest. `resource` is what to record; `again` is when to try again, None if all is well.

    `passing`: nothing was learned about the manifest, for the server is in trouble. `held` is missing if the object is
    left alone; `differs`: somebody has changed what it is held to. `memory` is what the server made of the manifest.
    """

    outcome: Outcome
    spot: Spot | None = None
    resource: AppliedResource | None = None
    again: float | None = None
    passing: bool = False
    held: Held | None = None
    memory: Memory | None = None
    differs: bool = False
    repair: Repair = NO_REPAIR

    @property
    def repair_due(self) -> float:
        """When the object is to be put back; what failed at that is tried again like any other failure."""
        return self.repair.due if self.differs and self.held is not None else math.inf

    def seeing(self, seen: Sight) -> "Handled":
        """Return it with what the object has become since."""
        outcome, held, differs = replace(self.outcome, seen=seen), self.held, self.differs
        if held is not None and not isinstance(seen, Unreadable):
            live = seen.object if isinstance(seen, Found) else None
            differs = drifted(held.wanted, held.strategy, live, self.memory)
        return replace(self, outcome=outcome, differs=differs)


@dataclass(frozen=True)
class Known:
    """What is known of a work's objects before an attempt, by their places.

    `before` is what became of them the last time, `told` what the hub knows, `recorded` what the record lists.
    """

    work: ManifestWork
    before: Mapping[Place, Handled]
    told: Mapping[Place, ManifestCondition]
    recorded: Mapping[Place, AppliedResource]

    @classmethod
    def of(cls, work: ManifestWork, before: Sequence[Handled], recorded: Sequence[AppliedResource] = ()) -> "Known":
        """Return what is known of a work."""
        return cls(
            work,
            {each.spot.place: each for each in before if each.spot is not None},
            {place_of(each.resource_meta): each for each in work.status.resource_status.manifests},
            {place_of(each): each for each in recorded},
        )

    def is_complete(self, spot: Spot) -> bool:
        """Whether an object is complete, and therefore left alone."""
        return self._is_true(spot, "Complete", None)

    def was_applied(self, spot: Spot) -> bool:
        """Whether the present manifest was applied before, so that a difference is somebody else's doing."""
        return self._is_true(spot, "Applied", self.work.metadata.generation)

    def repair(self, spot: Spot) -> Repair:
        """Return what is known of attempts to put an object back, by us or by our predecessor."""
        before, told = self.before.get(spot.place), self.told.get(spot.place)
        repair = before.repair if before is not None else NO_REPAIR
        count = count_of(told.conditions, self.work.metadata.generation) if told is not None else 0
        return replace(repair, count=max(repair.count, count))

    def untried(self, ordinal: int, error: Exception) -> Handled:
        """Return what becomes of a manifest that could not even be tried; its object is what it was."""
        why, again = failure(error, self.work.spec.workload.manifests[ordinal])
        meta = self._meta(ordinal)
        before = self.before.get(place_of(meta)) if meta.resource else None
        if before is None:
            return Handled(Outcome(meta, why, Unreadable(reason(error))), again=again, passing=is_passing(error))
        outcome = replace(before.outcome, meta=meta, applied=why)
        return replace(before, outcome=outcome, again=again, passing=is_passing(error), held=None)

    def _meta(self, ordinal: int) -> ManifestResourceMeta:
        """Return the identity of an object; while the cluster cannot say its resource, the one that it once said."""
        said = meta_of(ordinal, self.work.spec.workload.manifests[ordinal])
        for each in self.work.status.resource_status.manifests:
            known = each.resource_meta
            if msgspec.structs.replace(known, ordinal=ordinal, resource="", namespace=said.namespace) == said:
                return msgspec.structs.replace(known, ordinal=ordinal)
        return said

    def _is_true(self, spot: Spot, kind: str, generation: int | None) -> bool:
        told = self.told.get(spot.place)
        said = find_condition(told.conditions, kind) if told is not None else None
        return said is not None and said.status == "True" and generation in (None, said.observed_generation)


def is_passing(error: Exception) -> bool:
    """Whether a server was away, busy, restarting, or overtaken: nothing that is said about the manifest."""
    if not isinstance(error, ApiError):
        return False
    return error.status_code in _PASSING or error.status_code >= 500


def is_ending(error: Exception) -> bool:
    """Whether a namespace takes nothing in because it is being deleted."""
    causes = error.details.get("causes") or () if isinstance(error, ApiError) else ()
    return any(isinstance(each, dict) and each.get("reason") == "NamespaceTerminating" for each in causes)


def failure(error: Exception, manifest: JSONObject) -> tuple[Apply, float]:
    """Return what a failure says of a manifest, and when to try again."""
    text = without_secrets(reason(error), manifest)
    if is_passing(error):
        return Unreached(text), SOON
    if isinstance(error, IgnoreFieldError):
        return NotApplied(text, ignored_fields=True), UNTIL_CHANGED
    if isinstance(error, NotAllowed):
        return NotApplied(text), RETRY_SECONDS
    return NotApplied(text), UNTIL_CHANGED if isinstance(error, FieldConflict) else SOON


def meta_of(
    ordinal: int, manifest: JSONObject, *, resource: str = "", namespace: str | None = None
) -> ManifestResourceMeta:
    """Return the identity of a manifest's object, as far as it is known."""
    if not readable(manifest):
        return ManifestResourceMeta(ordinal=ordinal)
    group, _, version = manifest["apiVersion"].rpartition("/")
    said = manifest["metadata"].get("namespace") or ""
    return ManifestResourceMeta(
        ordinal=ordinal,
        group=group,
        version=version,
        kind=manifest["kind"],
        resource=resource,
        name=manifest["metadata"]["name"],
        namespace=said if namespace is None else namespace,
    )
