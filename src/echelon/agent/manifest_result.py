"""What became of a manifest, and what the next attempt has to know about it.

Nearly everything that an agent remembers is here, manifest by manifest, and goes with the work that it is about. What
must outlive the agent is read back from what was reported.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from echelon.agent.executor import RETRY_SECONDS, NotAllowed
from echelon.agent.object_applier import FieldConflict, message_of
from echelon.agent.object_watches import ObjectRef
from echelon.api.base import JSONObject
from echelon.api.manifest_config import ManifestUpdateStrategy
from echelon.api.work import AppliedResource, ManifestCondition, ManifestResourceMeta, ManifestWork
from echelon.engine.conditions import find_condition
from echelon.engine.work.drift import NO_REPAIR, Repair, count_of, drifted
from echelon.engine.work.ignoring import IgnoreFieldError
from echelon.engine.work.limits import Unrecordable
from echelon.engine.work.order import is_readable
from echelon.engine.work.redaction import redact_secrets
from echelon.engine.work.removal import ResourceKey, resource_key_of
from echelon.engine.work.reporting import (
    ApplyResult,
    LiveState,
    NotApplied,
    ObservedManifest,
    Present,
    Unreached,
    Unreadable,
)
from echelon.engine.work.updating import DesiredObject, ForeignObjectError, LastApplied
from echelon.kube.errors import ApiError

SOON = 0.0  # as soon as the growing pause between tries allows
UNTIL_CHANGED = math.inf
# Request timeout, conflict, too many requests; and that nobody knows the agent, which is not about a manifest either.
_TRANSIENT = frozenset({401, 408, 409, 429})


class EnforcedManifest(msgspec.Struct, frozen=True):
    """A manifest that was applied, and that the object is put back to when somebody changes it."""

    desired: DesiredObject
    strategy: ManifestUpdateStrategy


class ManifestResult(msgspec.Struct, frozen=True):
    """What became of a manifest. `resource` is what to record; `retry_after` is when to try again, None if all is well.

    `transient`: nothing was learned about the manifest, for the server is in trouble. `enforced` is missing if the
    object is left alone; `differs`: somebody has changed it since. `last_applied` is what the server made of the
    manifest.
    """

    observed: ObservedManifest
    ref: ObjectRef | None = None
    resource: AppliedResource | None = None
    retry_after: float | None = None
    transient: bool = False
    enforced: EnforcedManifest | None = None
    last_applied: LastApplied | None = None
    differs: bool = False
    repair: Repair = NO_REPAIR

    @property
    def is_applied(self) -> bool:
        """Whether all is well with it, as far as applying goes."""
        return self.retry_after is None

    @property
    def repair_due(self) -> float:
        """When the object is to be put back; what failed at that is tried again like any other failure."""
        return self.repair.due if self.differs and self.enforced is not None else math.inf

    def with_live(self, live: LiveState) -> "ManifestResult":
        """Return it with what the object has become since."""
        observed, enforced, differs = replace(self.observed, live=live), self.enforced, self.differs
        if enforced is not None and not isinstance(live, Unreadable):
            found = live.object if isinstance(live, Present) else None
            differs = drifted(enforced.desired, enforced.strategy, found, self.last_applied)
        return replace(self, observed=observed, differs=differs)


@dataclass(frozen=True)
class PreviousResults:
    """What is known of a work's objects before an attempt, by their keys.

    `before` is what became of them the last time, `reported` what the hub knows, `recorded` what the record lists.
    """

    work: ManifestWork
    before: Mapping[ResourceKey, ManifestResult]
    reported: Mapping[ResourceKey, ManifestCondition]
    recorded: Mapping[ResourceKey, AppliedResource]

    @classmethod
    def of(
        cls, work: ManifestWork, before: Sequence[ManifestResult], recorded: Sequence[AppliedResource] = ()
    ) -> "PreviousResults":
        """Return what is known of a work."""
        return cls(
            work,
            {each.ref.key: each for each in before if each.ref is not None},
            {resource_key_of(each.resource_meta): each for each in work.status.resource_status.manifests},
            {resource_key_of(each): each for each in recorded},
        )

    def is_complete(self, ref: ObjectRef) -> bool:
        """Whether an object is complete, and therefore left alone."""
        return self._is_true(ref, "Complete", None)

    def was_applied(self, ref: ObjectRef) -> bool:
        """Whether the present manifest was applied before, so that a difference is somebody else's doing."""
        return self._is_true(ref, "Applied", self.work.metadata.generation)

    def repair(self, ref: ObjectRef) -> Repair:
        """Return what is known of attempts to put an object back, by us or by our predecessor."""
        before, reported = self.before.get(ref.key), self.reported.get(ref.key)
        repair = before.repair if before is not None else NO_REPAIR
        count = count_of(reported.conditions, self.work.metadata.generation) if reported is not None else 0
        return replace(repair, count=max(repair.count, count))

    def not_tried(self, ordinal: int, error: Exception) -> ManifestResult:
        """Return what becomes of a manifest that could not even be tried; its object is what it was."""
        why, retry_after = explain_failure(error, self.work.spec.workload.manifests[ordinal])
        meta = self._meta(ordinal)
        before = self.before.get(resource_key_of(meta)) if meta.resource else None
        if before is None:
            return ManifestResult(
                ObservedManifest(meta, why, Unreadable(message_of(error))),
                retry_after=retry_after,
                transient=is_transient(error),
            )
        observed = replace(before.observed, meta=meta, applied=why)
        return replace(before, observed=observed, retry_after=retry_after, transient=is_transient(error), enforced=None)

    def _meta(self, ordinal: int) -> ManifestResourceMeta:
        """Return the identity of an object; while the cluster cannot say its resource, the one that it once said."""
        meta = meta_of(ordinal, self.work.spec.workload.manifests[ordinal])
        for each in self.work.status.resource_status.manifests:
            known = each.resource_meta
            if replace(known, ordinal=ordinal, resource="", namespace=meta.namespace) == meta:
                return replace(known, ordinal=ordinal)
        return meta

    def _is_true(self, ref: ObjectRef, kind: str, generation: int | None) -> bool:
        reported = self.reported.get(ref.key)
        known = find_condition(reported.conditions, kind) if reported is not None else None
        return known is not None and known.status == "True" and generation in (None, known.observed_generation)


def is_transient(error: Exception) -> bool:
    """Whether a server was away, busy, restarting, or overtaken: nothing that is said about the manifest."""
    if not isinstance(error, ApiError):
        return False
    return error.status_code in _TRANSIENT or error.status_code >= 500


def is_namespace_terminating(error: Exception) -> bool:
    """Whether a namespace takes nothing in because it is being deleted."""
    causes = error.details.get("causes") or () if isinstance(error, ApiError) else ()
    return any(isinstance(each, dict) and each.get("reason") == "NamespaceTerminating" for each in causes)


def explain_failure(error: Exception, manifest: JSONObject) -> tuple[ApplyResult, float]:
    """Return what a failure says of a manifest, and when to try again."""
    text = redact_secrets(message_of(error), manifest)
    if is_transient(error):
        return Unreached(text), SOON
    if isinstance(error, IgnoreFieldError):
        return NotApplied(text, ignored_fields=True), UNTIL_CHANGED
    if isinstance(error, NotAllowed | ForeignObjectError):
        return NotApplied(text), RETRY_SECONDS
    return NotApplied(text), UNTIL_CHANGED if isinstance(error, FieldConflict | Unrecordable) else SOON


def meta_of(
    ordinal: int, manifest: JSONObject, *, resource: str = "", namespace: str | None = None
) -> ManifestResourceMeta:
    """Return the identity of a manifest's object, as far as it is known."""
    if not is_readable(manifest):
        return ManifestResourceMeta(ordinal=ordinal)
    group, _, version = manifest["apiVersion"].rpartition("/")
    stated = manifest["metadata"].get("namespace") or ""
    return ManifestResourceMeta(
        ordinal=ordinal,
        group=group,
        version=version,
        kind=manifest["kind"],
        resource=resource,
        name=manifest["metadata"]["name"],
        namespace=stated if namespace is None else namespace,
    )
