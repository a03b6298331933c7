"""Reads the pods below an object of a work, and the warnings about both: one page of each, and no more."""

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from echelon.agent.context import AgentContext
from echelon.agent.discovery import UnknownKind
from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.engine.work.cause import cause_of, is_conclusive, worst_pod
from echelon.engine.work.health_state import part, text
from echelon.engine.work.pod_trouble import pod_trouble
from echelon.engine.work.pods_below import (
    TEMPLATE_HASH,
    controller_between,
    controller_of,
    kind_of,
    may_have_pods,
    present_replica_set,
    selector_of,
)
from echelon.engine.work.redaction import redact_secrets
from echelon.kube.errors import ApiError, Forbidden, NotFound

PODS: Kind[JSONObject] = Kind[Any]("", "v1", "Pod", "pods", dict[str, Any], status=True)
_REPLICA_SETS: Kind[JSONObject] = Kind[Any]("apps", "v1", "ReplicaSet", "replicasets", dict[str, Any], status=True)
_EVENTS: Kind[JSONObject] = Kind[Any]("", "v1", "Event", "events", dict[str, Any])
_PAGE = 100
_STEPS_UP = 3  # from a pod to what it belongs to: ReplicaSet, Deployment, and whatever made that
_MOST_OWNERS = 10  # that are looked at for one object

_log = logging.getLogger(__name__)


class PodsReading:
    """Reads from one cluster, with what the agent may read there."""

    def __init__(self, context: AgentContext) -> None:
        self._clock = context.clock
        self._member = context.member
        self._kinds = context.kinds
        self._cluster = context.cluster
        self._refused: set[str] = set()

    async def cause(self, obj: JSONObject, manifests: Iterable[Any]) -> str | None:
        """Return why an object is not well, without the secrets of manifests; None if nobody could be asked."""
        try:
            pods, events = await self._read(obj)
        except ApiError as error:
            _log.debug("why %s is not well cannot be found out now: %s", text(part(obj, "metadata"), "name"), error)
            return None
        cause = cause_of(pods, events, self._clock.now())
        for manifest in manifests:
            cause = redact_secrets(cause, manifest)
        return cause

    async def _read(self, obj: JSONObject) -> tuple[Sequence[JSONObject], Sequence[JSONObject]]:
        """Return the pods of an object, and events that may tell more than they do."""
        pods = await self._pods(obj) if may_have_pods(obj) else []
        if is_conclusive(pods):
            return pods, ()
        about = {text(part(each, "metadata"), "uid"): each for each in (obj, worst_pod(pods)) if each is not None}
        return pods, [event for each in about.values() for event in await self._warnings(each)]

    async def _pods(self, obj: JSONObject) -> Sequence[JSONObject]:
        meta, kind, selector = part(obj, "metadata"), kind_of(obj), selector_of(obj)
        owner, namespace = text(meta, "uid"), text(meta, "namespace")
        if kind == ("", "Pod"):
            return [obj]
        if kind == ("apps", "Deployment"):
            sets = await self._list(_REPLICA_SETS, namespace, labels=selector)
            present = present_replica_set(obj, sets)
            template = text(part(present, "metadata", "labels"), TEMPLATE_HASH) if present is not None else ""
            if present is None or not template:
                return []
            owner, selector = text(part(present, "metadata"), "uid"), f"{selector},{TEMPLATE_HASH}={template}"
        pods = await self._list(PODS, namespace, labels=selector)
        if kind == ("grove.io", "PodCliqueSet"):
            return pods  # the labels are those that its controller alone gives
        own = [each for each in pods if controller_of(each) == owner]
        return own or await self._further_below(owner, namespace, pods)

    async def _further_below(self, owner: str, namespace: str, pods: Sequence[JSONObject]) -> list[JSONObject]:
        """Return those pods, of such that do not serve, that belong to an object through other objects."""
        known: dict[tuple[str, str, str], JSONObject] = {}
        found: list[JSONObject] = []
        for pod in pods:
            below: JSONObject = pod if pod_trouble(pod) is not None else {}
            for _ in range(_STEPS_UP):
                above = controller_between(below)
                if above is None or (above not in known and len(known) == _MOST_OWNERS):
                    break
                if above not in known:
                    known[above] = await self._get(above, namespace)
                below = known[above]
                if controller_of(below) == owner:
                    found.append(pod)
                    break
        return found

    async def _get(self, what: tuple[str, str, str], namespace: str) -> JSONObject:
        version, kind, name = what
        try:
            return await self._member.get(await self._kinds.find(version, kind), name, namespace)
        except (UnknownKind, NotFound, Forbidden):
            return {}

    async def _warnings(self, obj: JSONObject) -> Sequence[JSONObject]:
        meta = part(obj, "metadata")
        namespace = text(meta, "namespace") or "default"  # where events of what has no namespace are
        return await self._list(_EVENTS, namespace, fields=f"involvedObject.uid={text(meta, 'uid')},type=Warning")

    async def _list(
        self, kind: Kind[JSONObject], namespace: str, labels: str = "", fields: str = ""
    ) -> Sequence[JSONObject]:
        try:
            page = await self._member.list(kind, namespace, labels=labels, fields=fields, limit=_PAGE)
        except (Forbidden, NotFound) as error:
            if kind.plural not in self._refused:
                self._refused.add(kind.plural)
                told = "why objects are not well can be told in part only, or not at all: %s"
                _log.warning(told, error, extra={"cluster": self._cluster})
            return []
        return page.readable
