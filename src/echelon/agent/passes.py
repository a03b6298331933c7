"""One pass over the manifests of a work: apply each in turn, and note what became of it.

One manifest's trouble never keeps the others from being applied. Each kind of trouble has its own time to try again:
most heal soon, an account's missing right in a minute, a field that another manager has only when somebody acts.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from echelon.agent.applying import Applier, FieldConflict, reason
from echelon.agent.discovery import ServedKinds, UnknownKind
from echelon.agent.executor import RETRY_SECONDS, ExecutorCheck, NotAllowed
from echelon.agent.sights import Spot
from echelon.api.base import JSONObject
from echelon.api.work import AppliedManifestWork, AppliedResource, ManifestCondition, ManifestResourceMeta, ManifestWork
from echelon.engine.work import intent
from echelon.engine.work.cleaning import Place, place_of
from echelon.engine.work.configs import options_for
from echelon.engine.work.ignoring import IgnoreFieldError
from echelon.engine.work.order import in_order, readable
from echelon.engine.work.ownership import belongs, owner_reference
from echelon.engine.work.reporting import Absent, Applied, Apply, Found, NotApplied, Outcome, Sight, Unreadable
from echelon.engine.work.updating import Wanted
from echelon.kube.errors import ApiError, Conflict, NotFound, TooManyRequests

SOON = 0.0  # as soon as the growing pause between tries allows
UNTIL_CHANGED = math.inf

_NO_NAME = "the manifest does not say its apiVersion, kind and metadata.name"


@dataclass(frozen=True)
class Handled:
    """What became of a manifest. `resource` is what to record; `again` is when to try again, None if all is well.

    `passing`: the trouble is the server's and most likely over soon.
    """

    outcome: Outcome
    spot: Spot | None = None
    resource: AppliedResource | None = None
    again: float | None = None
    passing: bool = False


class Passes:
    """Applies the manifests of works to one cluster."""

    def __init__(self, applier: Applier, kinds: ServedKinds, executor: ExecutorCheck) -> None:
        self._applier = applier
        self._kinds = kinds
        self._executor = executor

    async def apply(self, work: ManifestWork, record: AppliedManifestWork) -> list[Handled]:
        """Apply all manifests of a work; return what became of each, in the order of the spec."""
        manifests = work.spec.workload.manifests
        known = {place_of(resource): resource for resource in record.status.applied_resources}
        complete = _complete(work)
        handled: dict[int, Handled] = {}
        for ordinal in in_order(manifests):
            handled[ordinal] = await self._manifest(work, record, ordinal, known, complete)
        return [handled[ordinal] for ordinal in range(len(manifests))]

    async def strays(self, record: AppliedManifestWork, wanted: Iterable[JSONObject]) -> list[AppliedResource]:
        """Return what was once about to be applied and is not wanted: it may be there or not, recorded or not."""
        found: list[AppliedResource] = []
        objects = intent.read(record.metadata.annotations) - intent.intended(wanted)
        for each in sorted(objects):
            try:
                kind = await self._kinds.find(each.api_version, each.kind)
            except UnknownKind:
                continue  # what is not served cannot be there
            namespace = (each.namespace or "default") if kind.namespaced else ""
            found.append(
                AppliedResource(
                    group=kind.group, version=kind.version, resource=kind.plural, name=each.name, namespace=namespace
                )
            )
        return found

    async def look(self, work: ManifestWork) -> list[Handled]:
        """Find the objects of a work that is complete, and apply nothing."""
        found: list[Handled] = []
        for ordinal, manifest in enumerate(work.spec.workload.manifests):
            try:
                spot, meta = await self._identify(ordinal, manifest)
            except (UnknownKind, ApiError) as error:
                meta = _meta(ordinal, manifest)
                found.append(Handled(Outcome(meta, None, Unreadable(reason(error)))))
            else:
                found.append(Handled(Outcome(meta, None, await self.see(spot)), spot))
        return found

    async def see(self, spot: Spot) -> Sight:
        """Ask for an object."""
        try:
            live = await self._applier.get(spot.kind, spot.name, spot.namespace)
        except ApiError as error:
            return Unreadable(error.message)
        return Absent() if live is None else Found(live)

    async def _identify(self, ordinal: int, manifest: JSONObject) -> tuple[Spot, ManifestResourceMeta]:
        if not readable(manifest):
            raise UnknownKind(str(manifest.get("kind", "")))
        kind = await self._kinds.find(manifest["apiVersion"], manifest["kind"])
        namespace = (manifest["metadata"].get("namespace") or "default") if kind.namespaced else ""
        meta = _meta(ordinal, manifest, resource=kind.plural, namespace=namespace)
        return Spot(kind, namespace, manifest["metadata"]["name"]), meta

    async def _manifest(
        self,
        work: ManifestWork,
        record: AppliedManifestWork,
        ordinal: int,
        known: Mapping[Place, AppliedResource],
        complete: frozenset[Place],
    ) -> Handled:
        manifest = work.spec.workload.manifests[ordinal]
        if not readable(manifest):
            meta = ManifestResourceMeta(ordinal=ordinal)
            return Handled(Outcome(meta, NotApplied(_NO_NAME), Unreadable(_NO_NAME)), again=UNTIL_CHANGED)
        try:
            spot, meta = await self._identify(ordinal, manifest)
        except (UnknownKind, ApiError) as error:
            text = reason(error)
            return Handled(Outcome(_meta(ordinal, manifest), NotApplied(text), Unreadable(text)), again=SOON)
        if spot.place in complete:
            before = known.get(spot.place)
            return Handled(Outcome(meta, Applied(), await self.see(spot)), spot, before)
        wanted = Wanted(
            spot.kind, manifest, spot.namespace, owner_reference(record), belongs(work.spec.delete_option, meta)
        )
        return await self._apply(work, wanted, spot, meta, known.get(spot.place))

    async def _apply(
        self,
        work: ManifestWork,
        wanted: Wanted,
        spot: Spot,
        meta: ManifestResourceMeta,
        before: AppliedResource | None,
    ) -> Handled:
        strategy = options_for(work.spec.manifest_configs, meta).update
        try:
            executor = work.spec.executor
            if executor is not None and executor.subject.service_account is not None:
                await self._executor.check(wanted, executor.subject.service_account)
            live = await self._applier.apply(wanted, strategy, new=before is None)
        except (ApiError, NotAllowed, FieldConflict, IgnoreFieldError) as error:
            if isinstance(error, NotFound):
                self._kinds.forget(spot.kind.api_version)  # its CRD may have gone
            failed, again = _failure(error)
            return Handled(Outcome(meta, failed, await self.see(spot)), spot, before, again, _is_passing(error))
        seen: Sight = Absent() if live is None else Found(live)
        if live is None or strategy.type == "ReadOnly":
            return Handled(Outcome(meta, Applied(), seen), spot)
        return Handled(Outcome(meta, Applied(), seen), spot, _resource(meta, live))


def _is_passing(error: Exception) -> bool:
    """Whether a server was busy, restarting, or overtaken: nothing that is said about the manifest."""
    return isinstance(error, Conflict | TooManyRequests) or (isinstance(error, ApiError) and error.status_code >= 500)


def _failure(error: Exception) -> tuple[Apply, float]:
    text = reason(error)
    if isinstance(error, IgnoreFieldError):
        return NotApplied(text, ignored_fields=True), UNTIL_CHANGED
    if isinstance(error, NotAllowed):
        return NotApplied(text), RETRY_SECONDS
    return NotApplied(text), UNTIL_CHANGED if isinstance(error, FieldConflict) else SOON


def _meta(
    ordinal: int, manifest: JSONObject, *, resource: str = "", namespace: str | None = None
) -> ManifestResourceMeta:
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


def _resource(meta: ManifestResourceMeta, live: JSONObject) -> AppliedResource:
    return AppliedResource(
        group=meta.group,
        version=meta.version,
        resource=meta.resource,
        name=meta.name,
        namespace=meta.namespace,
        uid=live["metadata"].get("uid", ""),
    )


def _complete(work: ManifestWork) -> frozenset[Place]:
    """Return the objects that are complete: they are left alone."""
    return frozenset(
        place_of(each.resource_meta) for each in work.status.resource_status.manifests if _is_complete(each)
    )


def _is_complete(manifest: ManifestCondition) -> bool:
    return any(each.type == "Complete" and each.status == "True" for each in manifest.conditions)
