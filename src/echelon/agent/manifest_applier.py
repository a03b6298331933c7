"""One pass over the manifests of a work: apply each in turn, and note what became of it.

One manifest's trouble never keeps the others from being applied. Each kind of trouble has its own time to try again:
most heal soon, an account's missing right in a minute, a field that another manager has only when somebody acts.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from functools import partial

from msgspec.structs import replace

from echelon.agent.discovery import ServedKinds, UnknownKind
from echelon.agent.executor import ExecutorCheck, NotAllowed
from echelon.agent.manifest_result import (
    UNTIL_CHANGED,
    EnforcedManifest,
    ManifestResult,
    PreviousResults,
    explain_failure,
    is_namespace_terminating,
    is_transient,
    meta_of,
)
from echelon.agent.object_applier import AppliedObject, FieldConflict, ObjectApplier, message_of
from echelon.agent.object_watches import ObjectRef
from echelon.api.base import JSONObject
from echelon.api.manifest_config import ServiceAccountSubject
from echelon.api.work import AppliedManifestWork, AppliedResource, ManifestResourceMeta, ManifestWork
from echelon.engine.work import intent
from echelon.engine.work.configs import options_for
from echelon.engine.work.drift import Drift
from echelon.engine.work.ignoring import IgnoreFieldError
from echelon.engine.work.order import apply_order, is_readable
from echelon.engine.work.ownership import adopts, is_kept_namespace, owned_by_work, owner_reference, without_mark
from echelon.engine.work.redaction import redact_secrets
from echelon.engine.work.reporting import (
    Absent,
    Applied,
    ApplyResult,
    LiveState,
    NotApplied,
    ObservedManifest,
    Present,
    Unreadable,
)
from echelon.engine.work.updating import DesiredObject, ForeignObjectError
from echelon.kube.errors import ApiError, NotFound

_NOT_TOLD = Unreadable("the account on whose behalf the work is applied may not get it")
_NO_NAME = "the manifest does not say its apiVersion, kind and metadata.name"


class ManifestApplier:
    """Applies the manifests of works to one cluster."""

    def __init__(
        self, applier: ObjectApplier, kinds: ServedKinds, executor: ExecutorCheck, kept_namespaces: Collection[str] = ()
    ) -> None:
        """`kept_namespaces` never belong to a work, besides those that never do anywhere."""
        self._applier = applier
        self._kinds = kinds
        self._executor = executor
        self._kept_namespaces = kept_namespaces

    async def apply(
        self,
        work: ManifestWork,
        record: AppliedManifestWork,
        before: Sequence[ManifestResult],
        only: Collection[int] | None = None,
    ) -> list[ManifestResult]:
        """Apply manifests of a work, all of them or some; return what became of each, in the order of the spec.

        `before` is what became of them the last time. What is not applied now stays as it was then.
        """
        manifests = work.spec.workload.manifests
        previous, owner = PreviousResults.of(work, before, record.status.applied_resources), owner_reference(record)
        results = dict(enumerate(before)) if only is not None else {}
        for ordinal in apply_order(manifests):
            if only is None or ordinal in only:
                results[ordinal] = await self._apply_manifest(previous, owner, ordinal)
        return [results[ordinal] for ordinal in range(len(manifests))]

    def not_tried(self, work: ManifestWork, before: Sequence[ManifestResult], error: Exception) -> list[ManifestResult]:
        """Return what becomes of manifests of which none could be tried."""
        previous = PreviousResults.of(work, before)
        return [previous.not_tried(ordinal, error) for ordinal in range(len(work.spec.workload.manifests))]

    async def intended_leftovers(
        self, record: AppliedManifestWork, manifests: Iterable[JSONObject]
    ) -> list[AppliedResource]:
        """Return what was once about to be applied and is in no manifest now: it may be there or not."""
        found: list[AppliedResource] = []
        objects = intent.read(record.metadata.annotations) - intent.intended(manifests)
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

    async def observe(self, work: ManifestWork) -> list[ManifestResult]:
        """Read the objects of a work that is complete, and apply nothing."""
        found: list[ManifestResult] = []
        for ordinal, manifest in enumerate(work.spec.workload.manifests):
            try:
                ref, meta = await self._identify(ordinal, manifest)
            except (UnknownKind, ApiError) as error:
                meta = meta_of(ordinal, manifest)
                found.append(ManifestResult(ObservedManifest(meta, None, Unreadable(message_of(error)))))
            else:
                live = await self._read_for(work, ref)
                found.append(ManifestResult(ObservedManifest(meta, None, live), None if live == _NOT_TOLD else ref))
        return found

    async def read(self, ref: ObjectRef, before: LiveState | None = None) -> LiveState:
        """Read an object. If nobody answers, it is what it was `before`."""
        try:
            live = await self._applier.get(ref.kind, ref.name, ref.namespace)
        except ApiError as error:
            return before if before is not None and is_transient(error) else Unreadable(error.message)
        return Absent() if live is None else Present(live)

    async def _read_for(self, work: ManifestWork, ref: ObjectRef) -> LiveState:
        """Read an object on behalf of the account of a work, if it has one."""
        account = _account(work)
        try:
            allowed = account is None or await self._executor.may(account, "get", ref)
        except ApiError as error:
            return Unreadable(error.message)
        return await self.read(ref) if allowed else _NOT_TOLD

    async def _identify(self, ordinal: int, manifest: JSONObject) -> tuple[ObjectRef, ManifestResourceMeta]:
        if not is_readable(manifest):
            raise UnknownKind(str(manifest.get("kind", "")))
        kind = await self._kinds.find(manifest["apiVersion"], manifest["kind"])
        namespace = (manifest["metadata"].get("namespace") or "default") if kind.namespaced else ""
        meta = meta_of(ordinal, manifest, resource=kind.plural, namespace=namespace)
        return ObjectRef(kind, namespace, manifest["metadata"]["name"]), meta

    async def _apply_manifest(self, previous: PreviousResults, owner: JSONObject, ordinal: int) -> ManifestResult:
        manifest = previous.work.spec.workload.manifests[ordinal]
        if not is_readable(manifest):
            meta = ManifestResourceMeta(ordinal=ordinal)
            return ManifestResult(
                ObservedManifest(meta, NotApplied(_NO_NAME), Unreadable(_NO_NAME)), retry_after=UNTIL_CHANGED
            )
        try:
            ref, meta = await self._identify(ordinal, manifest)
        except UnknownKind as error:
            why, retry_after = explain_failure(error, manifest)
            return ManifestResult(
                ObservedManifest(meta_of(ordinal, manifest), why, Unreadable(message_of(error))),
                retry_after=retry_after,
            )
        except ApiError as error:
            return previous.not_tried(ordinal, error)
        if previous.is_complete(ref):
            live = await self._read_for(previous.work, ref)
            seen = None if live == _NOT_TOLD else ref
            return ManifestResult(ObservedManifest(meta, Applied(None), live), seen, previous.recorded.get(ref.key))
        desired = self._desired(previous, without_mark(manifest), owner, ref, meta)
        return await self._apply_object(previous, desired, ref, meta)

    def _desired(
        self,
        previous: PreviousResults,
        manifest: JSONObject,
        owner: JSONObject,
        ref: ObjectRef,
        meta: ManifestResourceMeta,
    ) -> DesiredObject:
        work, recorded = previous.work, previous.recorded.get(ref.key)
        kept = is_kept_namespace(ref.kind.group, ref.kind.plural, ref.name, self._kept_namespaces)
        return DesiredObject(
            ref.kind,
            manifest,
            ref.namespace,
            owner,
            owned_by_work=not kept and owned_by_work(work.spec.delete_option, meta),
            recorded_uid=recorded.uid if recorded is not None else "",
            work_uid=work.metadata.uid,
            adopts=adopts(work.metadata.annotations),
        )

    async def _apply_object(
        self, previous: PreviousResults, desired: DesiredObject, ref: ObjectRef, meta: ManifestResourceMeta
    ) -> ManifestResult:
        strategy = options_for(previous.work.spec.manifest_configs, meta).update
        before, resource = previous.before.get(ref.key), previous.recorded.get(ref.key)
        last_applied = before.last_applied if before is not None else None
        try:
            if (account := _account(previous.work)) is not None:
                await self._executor.check(desired, account)
            ask = partial(self._executor.check_deletion, desired, account) if account is not None else None
            written = await self._applier.apply(
                desired, strategy, last_applied, new=resource is None, before_deletion=ask
            )
        except (ApiError, NotAllowed, FieldConflict, ForeignObjectError, IgnoreFieldError) as error:
            if isinstance(error, NotFound):
                self._kinds.forget(ref.kind.api_version)  # its CRD may have gone
            return await self._failed(previous, desired, ref, meta, error)
        return _applied(previous, EnforcedManifest(desired, strategy), ref, meta, written)

    async def _failed(
        self,
        previous: PreviousResults,
        desired: DesiredObject,
        ref: ObjectRef,
        meta: ManifestResourceMeta,
        error: Exception,
    ) -> ManifestResult:
        (why, retry_after), repair, transient = (
            explain_failure(error, desired.manifest),
            previous.repair(ref),
            is_transient(error),
        )
        before = previous.before.get(ref.key)
        drift = Drift(repair.count, waiting=before is not None and before.differs)
        applied: ApplyResult | None = why
        if previous.was_applied(ref) and (is_namespace_terminating(error) or isinstance(error, FieldConflict)):
            # The manifest was applied as it is, so this is about what somebody did on the cluster since.
            applied, drift = (
                None,
                Drift(repair.count, conflict="" if is_namespace_terminating(error) else message_of(error)),
            )
        live = before.observed.live if transient and before is not None else await self._read_for(previous.work, ref)
        return ManifestResult(
            ObservedManifest(meta, applied, live, drift, ref.kind.status),
            None if live == _NOT_TOLD else ref,  # what may not be read is not watched
            previous.recorded.get(ref.key),
            retry_after,
            transient,
            last_applied=before.last_applied if before is not None else None,
            differs=transient and before is not None and before.differs,
            repair=repair,
        )


def _account(work: ManifestWork) -> ServiceAccountSubject | None:
    """Return the account on whose behalf a work is applied; None for the agent itself."""
    return work.spec.executor.subject.service_account if work.spec.executor is not None else None


def _applied(
    previous: PreviousResults,
    enforced: EnforcedManifest,
    ref: ObjectRef,
    meta: ManifestResourceMeta,
    written: AppliedObject,
) -> ManifestResult:
    found, repair, before = written.live, previous.repair(ref), previous.before.get(ref.key)
    changed = written.changed and previous.was_applied(ref)
    if changed or (before is not None and before.differs):
        repair = repair.tried(asyncio.get_running_loop().time(), changed=changed)
    live: LiveState = Absent() if found is None else Present(found)
    applied = Applied(_warnings(written, enforced.desired.manifest, again=previous.was_applied(ref)))
    observed = ObservedManifest(
        meta, applied, live, Drift(repair.count), ref.kind.status, adopted=_adopted(enforced, written)
    )
    if found is None or enforced.strategy.type == "ReadOnly":
        return ManifestResult(observed, ref)
    # What is not ours is not recorded either: what a record lists is what was made for its work.
    resource = None if written.foreign else _resource(meta, found)
    known = replace(enforced.desired, recorded_uid=resource.uid if resource is not None else "")
    return ManifestResult(
        observed,
        ref,
        resource,
        enforced=replace(enforced, desired=known),
        last_applied=written.last_applied,
        repair=repair,
    )


def _warnings(written: AppliedObject, manifest: JSONObject, *, again: bool) -> tuple[str, ...] | None:
    """Return what the server warned of, which may quote the manifest; None if what was told before stands.

    What puts an object back after somebody changed it has nothing of what the server dropped the first time.
    """
    if not written.warnings:
        return None if again else written.warnings
    return tuple(redact_secrets(each, manifest) for each in written.warnings)


def _adopted(enforced: EnforcedManifest, written: AppliedObject) -> bool:
    """Whether it is to be told that an object was there before, and stays."""
    return written.foreign and enforced.strategy.type != "ReadOnly"


def _resource(meta: ManifestResourceMeta, live: JSONObject) -> AppliedResource:
    return AppliedResource(
        group=meta.group,
        version=meta.version,
        resource=meta.resource,
        name=meta.name,
        namespace=meta.namespace,
        uid=live["metadata"].get("uid", ""),
    )
