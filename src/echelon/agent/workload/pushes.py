"""Brings the manifest of a work to the cluster, and takes it away again.

Each push is one write, for the version of the object that was read. What is refused for certain is told so and never
tried again under the same id: the hub gives its budget to others. Anything else that fails may have happened.
"""

from dataclasses import dataclass

from echelon.agent.context import AgentContext
from echelon.agent.discovery import UnknownKind
from echelon.agent.manifest_result import is_transient
from echelon.agent.object_watches import ObjectRef
from echelon.api.base import JSONObject
from echelon.api.namespaces import NAMESPACE
from echelon.engine.work.health_state import part, text
from echelon.engine.work.redaction import redact_secrets
from echelon.engine.work.updating import LastApplied, last_applied_of
from echelon.engine.workload.names import (
    BINDING_NAME,
    BINDING_NAMESPACE,
    BINDING_UID,
    CONFLICT_RESOLUTION,
    MANAGED,
    PERMANENT_ID,
    PUSH_ID,
    TEMPLATE_GENERATION,
    TEMPLATE_UID,
    WORK_NAME,
    WORK_NAMESPACE,
)
from echelon.engine.workload.pushing import (
    FAILED,
    PUSH_HASH,
    Hold,
    Keep,
    Push,
    body_of,
    carried_push,
    decide,
    is_of_binding,
)
from echelon.engine.workload.work_report import PushOutcome
from echelon.kube.client import ApplyPatch, DeleteOptions, MergePatch, Preconditions, WriteOptions
from echelon.kube.errors import AlreadyExists, ApiError, BadRequest, Conflict, NotFound

MANAGER = "echelon-workloads"
ATTEMPTS = 4
_DONE = PushOutcome()
_LABELS = (MANAGED, PERMANENT_ID)
_ANNOTATIONS = (
    PUSH_ID,
    PUSH_HASH,
    BINDING_UID,
    BINDING_NAMESPACE,
    BINDING_NAME,
    WORK_NAMESPACE,
    WORK_NAME,
    CONFLICT_RESOLUTION,
    TEMPLATE_UID,
    TEMPLATE_GENERATION,
)


@dataclass(frozen=True)
class Pushed:
    """What came of a push: the object as it is now, if it is ours, and what the server made of the manifest.

    `written`: it was changed. `uncertain`: it is worth trying again. `differs`: it is to be put back, but not yet.
    """

    outcome: PushOutcome
    live: JSONObject | None = None
    last: LastApplied | None = None
    written: bool = False
    uncertain: bool = False
    differs: bool = False


class Pushes:
    """Writes to one cluster in the name of its works."""

    def __init__(self, context: AgentContext) -> None:
        self._member = context.member
        self._kinds = context.kinds
        self._options = WriteOptions(field_manager=MANAGER)

    async def locate(self, push: Push) -> ObjectRef:
        """Return where the object of a manifest is. Raises UnknownKind and ApiError."""
        manifest = push.manifest
        kind = await self._kinds.find(manifest["apiVersion"], manifest["kind"])
        meta = part(manifest, "metadata")
        return ObjectRef(kind, (text(meta, "namespace") or "default") if kind.namespaced else "", meta["name"])

    async def read(self, ref: ObjectRef) -> JSONObject | None:
        """Return an object, if there is one."""
        try:
            return await self._member.get(ref.kind, ref.name, ref.namespace)
        except NotFound:
            return None

    async def apply(
        self,
        push: Push,
        ref: ObjectRef,
        live: JSONObject | None,
        *,
        last: LastApplied | None,
        at_least: int,
        patient: bool = False,
    ) -> Pushed:
        """Bring a push to the cluster, where `live` is what was last seen; see `pushing.decide` for the rest.

        `patient`: only look whether there is something to write.
        """
        made_namespace = False
        for attempt in range(1, ATTEMPTS + 1):
            decision = decide(push, ref.kind, live, last=last, at_least=at_least)
            if isinstance(decision, Keep):
                return Pushed(_DONE, live, _last(push, ref, live))
            if isinstance(decision, Hold):
                refused = push.id if decision.refused else None
                outcome = PushOutcome(decision.reason, decision.message, refused, applied=False)
                return Pushed(outcome, live if decision.ours else None, last)
            if patient:
                return Pushed(_DONE, live, last, differs=True)
            try:
                after = await self._write(ref, decision.body)
            except ApiError as error:
                if live is None and isinstance(error, NotFound) and ref.namespace and not made_namespace:
                    made_namespace = True
                    if await self._make_namespace(ref.namespace):
                        continue
                if attempt < ATTEMPTS and isinstance(error, Conflict | NotFound | AlreadyExists | BadRequest):
                    # Somebody else wrote, or took it away, which a server may tell in several ways.
                    before, live = live, await self.read(ref)
                    if _version(before) != _version(live):
                        continue
                return await self._failed(push, ref, live, error)
            changed = live is None or _version(live) != _version(after)
            return Pushed(_DONE, after, _last(push, ref, after), written=changed)
        raise AssertionError("the last attempt returns")

    async def remove(self, push: Push, ref: ObjectRef, *, keep: bool) -> bool:
        """Take an object away, or let go of it if it is to be kept; tell whether that is done.

        What is there for somebody else is left alone.
        """
        live = await self.read(ref)
        if live is None:
            return await self._is_gone(ref)
        if not is_of_binding(live, push):
            return True
        meta = part(live, "metadata")
        if keep:
            body: JSONObject = {
                "uid": meta.get("uid"),
                "labels": dict.fromkeys(_LABELS),
                "annotations": dict.fromkeys(_ANNOTATIONS),
            }
            await self._member.patch(
                ref.kind, ref.name, MergePatch({"metadata": body}), ref.namespace, options=self._options
            )
            return True
        if "deletionTimestamp" not in meta:
            how = DeleteOptions(Preconditions(uid=text(meta, "uid")), propagation="Background")
            try:
                await self._member.delete(ref.kind, ref.name, ref.namespace, options=how)
            except NotFound:
                return True
        return await self._is_gone(ref)

    async def _is_gone(self, ref: ObjectRef) -> bool:
        """Tell whether an object is gone for certain: a server that lags behind may not know that it is there.

        What would be a write is answered by who knows.
        """
        try:
            await self._member.delete(ref.kind, ref.name, ref.namespace, options=DeleteOptions(dry_run=True))
        except NotFound:
            return True
        return False

    async def _write(self, ref: ObjectRef, body: JSONObject) -> JSONObject:
        patch = ApplyPatch(body, MANAGER, force=True)
        return await self._member.patch(ref.kind, ref.name, patch, ref.namespace, options=self._options)

    async def _make_namespace(self, name: str) -> bool:
        """Make a namespace that is missing; tell whether it was."""
        try:
            await self._member.create(
                NAMESPACE.untyped(),
                {**NAMESPACE.type_meta, "metadata": {"name": name, "labels": {MANAGED: "true"}}},
                options=self._options,
            )
        except AlreadyExists:
            return False
        return True

    async def _failed(self, push: Push, ref: ObjectRef, live: JSONObject | None, error: ApiError) -> Pushed:
        """Return what comes of a push that failed. One that the object carries was not refused, only its repair."""
        if isinstance(error, NotFound):
            self._kinds.forget(ref.kind.api_version)  # its CRD may have gone
        refused = None if is_transient(error) else push.id
        if refused is not None:
            try:
                live = await self.read(ref)
            except ApiError:
                refused = None
        ours = live is not None and is_of_binding(live, push)
        if live is not None and ours and carried_push(live) == push.id:
            refused = None
        outcome = PushOutcome(FAILED, redact_secrets(error.message, push.manifest), refused, applied=False)
        return Pushed(outcome, live if ours else None, uncertain=refused is None)


def unknown_kind(push: Push, error: UnknownKind) -> Pushed:
    """Return what comes of a push of a kind that the cluster does not serve."""
    return Pushed(PushOutcome(FAILED, str(error), push.id, applied=False), uncertain=push.id is None)


def _last(push: Push, ref: ObjectRef, live: JSONObject | None) -> LastApplied | None:
    return None if live is None else last_applied_of(body_of(push, ref.kind, live), live)


def _version(live: JSONObject | None) -> str:
    return "" if live is None else text(part(live, "metadata"), "resourceVersion")
