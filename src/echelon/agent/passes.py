"""One pass over the manifests of a work: apply each in turn, and note what became of it.

One manifest's trouble never keeps the others from being applied. Each kind of trouble has its own time to try again:
most heal soon, an account's missing right in a minute, a field that another manager has only when somebody acts.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence

from echelon.agent.applying import Applier, FieldConflict, Written, reason
from echelon.agent.discovery import ServedKinds, UnknownKind
from echelon.agent.executor import ExecutorCheck, NotAllowed
from echelon.agent.handled import UNTIL_CHANGED, Handled, Held, Known, failure, is_ending, is_passing, meta_of
from echelon.agent.sights import Spot
from echelon.api.base import JSONObject
from echelon.api.work import AppliedManifestWork, AppliedResource, ManifestResourceMeta, ManifestWork
from echelon.engine.work import intent
from echelon.engine.work.configs import options_for
from echelon.engine.work.drift import Drift
from echelon.engine.work.ignoring import IgnoreFieldError
from echelon.engine.work.order import in_order, readable
from echelon.engine.work.ownership import belongs, owner_reference
from echelon.engine.work.reporting import Absent, Applied, Apply, Found, NotApplied, Outcome, Sight, Unreadable
from echelon.engine.work.updating import Wanted
from echelon.kube.errors import ApiError, NotFound

_NO_NAME = "the manifest does not say its apiVersion, kind and metadata.name"


class Passes:
    """Applies the manifests of works to one cluster."""

    def __init__(self, applier: Applier, kinds: ServedKinds, executor: ExecutorCheck) -> None:
        self._applier = applier
        self._kinds = kinds
        self._executor = executor

    async def apply(
        self,
        work: ManifestWork,
        record: AppliedManifestWork,
        before: Sequence[Handled],
        only: Collection[int] | None = None,
    ) -> list[Handled]:
        """Apply manifests of a work, all of them or some; return what became of each, in the order of the spec.

        `before` is what became of them the last time. What is not applied now stays as it was then.
        """
        manifests = work.spec.workload.manifests
        known, owner = Known.of(work, before, record.status.applied_resources), owner_reference(record)
        handled = dict(enumerate(before)) if only is not None else {}
        for ordinal in in_order(manifests):
            if only is None or ordinal in only:
                handled[ordinal] = await self._manifest(known, owner, ordinal)
        return [handled[ordinal] for ordinal in range(len(manifests))]

    def unapplied(self, work: ManifestWork, before: Sequence[Handled], error: Exception) -> list[Handled]:
        """Return what becomes of manifests of which none could be tried."""
        known = Known.of(work, before)
        return [known.untried(ordinal, error) for ordinal in range(len(work.spec.workload.manifests))]

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
                meta = meta_of(ordinal, manifest)
                found.append(Handled(Outcome(meta, None, Unreadable(reason(error)))))
            else:
                found.append(Handled(Outcome(meta, None, await self.see(spot)), spot))
        return found

    async def see(self, spot: Spot, before: Sight | None = None) -> Sight:
        """Ask for an object. If nobody answers, it is what it was `before`."""
        try:
            live = await self._applier.get(spot.kind, spot.name, spot.namespace)
        except ApiError as error:
            return before if before is not None and is_passing(error) else Unreadable(error.message)
        return Absent() if live is None else Found(live)

    async def _identify(self, ordinal: int, manifest: JSONObject) -> tuple[Spot, ManifestResourceMeta]:
        if not readable(manifest):
            raise UnknownKind(str(manifest.get("kind", "")))
        kind = await self._kinds.find(manifest["apiVersion"], manifest["kind"])
        namespace = (manifest["metadata"].get("namespace") or "default") if kind.namespaced else ""
        meta = meta_of(ordinal, manifest, resource=kind.plural, namespace=namespace)
        return Spot(kind, namespace, manifest["metadata"]["name"]), meta

    async def _manifest(self, known: Known, owner: JSONObject, ordinal: int) -> Handled:
        manifest = known.work.spec.workload.manifests[ordinal]
        if not readable(manifest):
            meta = ManifestResourceMeta(ordinal=ordinal)
            return Handled(Outcome(meta, NotApplied(_NO_NAME), Unreadable(_NO_NAME)), again=UNTIL_CHANGED)
        try:
            spot, meta = await self._identify(ordinal, manifest)
        except UnknownKind as error:
            why, again = failure(error, manifest)
            return Handled(Outcome(meta_of(ordinal, manifest), why, Unreadable(reason(error))), again=again)
        except ApiError as error:
            return known.untried(ordinal, error)
        if known.is_complete(spot):
            return Handled(Outcome(meta, Applied(), await self.see(spot)), spot, known.recorded.get(spot.place))
        belonging = belongs(known.work.spec.delete_option, meta)
        return await self._apply(known, Wanted(spot.kind, manifest, spot.namespace, owner, belonging), spot, meta)

    async def _apply(self, known: Known, wanted: Wanted, spot: Spot, meta: ManifestResourceMeta) -> Handled:
        strategy = options_for(known.work.spec.manifest_configs, meta).update
        before, resource = known.before.get(spot.place), known.recorded.get(spot.place)
        memory = before.memory if before is not None else None
        try:
            executor = known.work.spec.executor
            if executor is not None and executor.subject.service_account is not None:
                await self._executor.check(wanted, executor.subject.service_account)
            written = await self._applier.apply(wanted, strategy, memory, new=resource is None)
        except (ApiError, NotAllowed, FieldConflict, IgnoreFieldError) as error:
            if isinstance(error, NotFound):
                self._kinds.forget(spot.kind.api_version)  # its CRD may have gone
            return await self._failed(known, wanted, spot, meta, error)
        return _applied(known, Held(wanted, strategy), spot, meta, written)

    async def _failed(
        self, known: Known, wanted: Wanted, spot: Spot, meta: ManifestResourceMeta, error: Exception
    ) -> Handled:
        (why, again), repair, passing = failure(error, wanted.manifest), known.repair(spot), is_passing(error)
        before = known.before.get(spot.place)
        drift = Drift(repair.count, waiting=before is not None and before.differs)
        said: Apply | None = why
        if known.was_applied(spot) and (is_ending(error) or isinstance(error, FieldConflict)):
            # The manifest was applied as it is, so this is about what somebody did on the cluster since.
            said, drift = None, Drift(repair.count, conflict="" if is_ending(error) else reason(error))
        seen = before.outcome.seen if passing and before is not None else await self.see(spot)
        return Handled(
            Outcome(meta, said, seen, drift, spot.kind.status),
            spot,
            known.recorded.get(spot.place),
            again,
            passing,
            memory=before.memory if before is not None else None,
            differs=passing and before is not None and before.differs,
            repair=repair,
        )


def _applied(known: Known, held: Held, spot: Spot, meta: ManifestResourceMeta, written: Written) -> Handled:
    live, repair, before = written.live, known.repair(spot), known.before.get(spot.place)
    changed = written.changed and known.was_applied(spot)
    if changed or (before is not None and before.differs):
        repair = repair.tried(asyncio.get_running_loop().time(), changed=changed)
    seen: Sight = Absent() if live is None else Found(live)
    outcome = Outcome(meta, Applied(), seen, Drift(repair.count), spot.kind.status)
    if live is None or held.strategy.type == "ReadOnly":
        return Handled(outcome, spot)
    return Handled(outcome, spot, _resource(meta, live), held=held, memory=written.memory, repair=repair)


def _resource(meta: ManifestResourceMeta, live: JSONObject) -> AppliedResource:
    return AppliedResource(
        group=meta.group,
        version=meta.version,
        resource=meta.resource,
        name=meta.name,
        namespace=meta.namespace,
        uid=live["metadata"].get("uid", ""),
    )
