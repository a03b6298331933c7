"""Subresources besides status: scale for whatever has replicas, and the few that built-in kinds have."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, cached_property
from typing import Any

from echelon.api import jsonpath, labels
from echelon.api.authentication import TokenRequest
from echelon.api.autoscaling import Scale
from echelon.api.base import JSON, APIStruct, JSONObject
from echelon.api.meta import ObjectMeta
from echelon.api.namespaces import Namespace
from echelon.api.references import ObjectReference
from echelon.api.schema import schema_of
from echelon.api.times import format_time
from echelon.hub.access.tokens import DEFAULT_LIFETIME
from echelon.hub.catalogue.resources import Resource
from echelon.hub.cluster import LogicalCluster
from echelon.hub.schema.structural import Structural
from echelon.hub.storage.store import Key
from echelon.hub.verbs import deletion, writing
from echelon.hub.verbs.admission import Request, Target, check_name, check_preconditions, readable
from echelon.kube import errors
from echelon.kube.client import DeleteOptions, Preconditions

Handler = Callable[[LogicalCluster, Target, JSONObject, Request], Awaitable[JSONObject]]


@dataclass(frozen=True)
class Subresource:
    """A subresource of a built-in kind: what it takes, and what it does."""

    group: str
    version: str
    kind: str
    verb: str
    shape: type[Any]
    handle: Handler

    def body(self, sent: JSONObject) -> JSONObject:
        """Return what was sent, if it is what this takes."""
        return readable(self._structural, self.kind, self.version, sent)

    @cached_property
    def _structural(self) -> Structural:
        return _structural(self.shape)


class Binding(APIStruct, frozen=True, kw_only=True):
    """Puts a pod on a node."""

    metadata: ObjectMeta = ObjectMeta()
    target: ObjectReference = ObjectReference()


class EvictionOptions(APIStruct, frozen=True, kw_only=True):
    """How an evicted pod goes."""

    grace_period_seconds: int | None = None
    preconditions: dict[str, str] | None = None


class Eviction(APIStruct, frozen=True, kw_only=True):
    """Asks a pod to leave."""

    metadata: ObjectMeta = ObjectMeta()
    delete_options: EvictionOptions = EvictionOptions()


@cache
def _scale_structural() -> Structural:
    return _structural(Scale)


def _structural(kind: type[Any]) -> Structural:
    return Structural(schema_of(kind, metadata="full"), builtin=True)


def scale_of(resource: Resource, obj: JSONObject) -> JSONObject:
    """Show an object as a Scale."""
    paths = resource.kind.scale
    if paths is None:
        raise errors.NotFound("the server could not find the requested resource")
    meta = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: JSONObject = {"replicas": _number(jsonpath.compile(paths.status_replicas).get(obj))}
    selector = _selector_text(resource, obj)
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: meta[name] for name in kept if name in meta},
        "spec": {"replicas": _number(jsonpath.compile(paths.spec_replicas).get(obj))},
        "status": status,
    }


def _number(value: JSON) -> int:
    return value if isinstance(value, int) else 0


def _selector_text(resource: Resource, obj: JSONObject) -> str:
    if resource.kind.builtin:
        return str(labels.from_label_selector((obj.get("spec") or {}).get("selector") or {}))
    path = resource.kind.scale and resource.kind.scale.selector
    return (jsonpath.compile(path).get(obj) or "") if path else ""


async def write_scale(
    cluster: LogicalCluster, target: Target, change: Callable[[JSONObject], JSONObject], request: Request
) -> JSONObject:
    """Set the replicas of an object through its Scale, which `change` makes from the present one."""
    resource = target.resource
    parent = Target(resource, target.namespace, target.name, "scale")  # the fields are owned as set through scale
    if resource.kind.scale is None:
        raise errors.NotFound("the server could not find the requested resource")
    path = jsonpath.compile(resource.kind.scale.spec_replicas)

    def scaled(obj: JSONObject) -> JSONObject:
        wanted = readable(_scale_structural(), "Scale", "v1", change(scale_of(resource, obj)))
        replicas = (wanted.get("spec") or {}).get("replicas", 0)
        if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
            why = f"Invalid value: {replicas!r}: must be greater than or equal to 0"
            raise errors.invalid("Scale", "autoscaling", target.name, [errors.Cause("spec.replicas", why)])
        new: JSONObject = path.set(obj, replicas)
        given = wanted.get("metadata") or {}
        meta = {**new["metadata"], "resourceVersion": given.get("resourceVersion", "")}
        return {**new, "metadata": meta}

    written = await writing.patch(cluster, parent, scaled, request)
    shown = resource.outgoing(written.entry.object) if written.entry else written.object
    return scale_of(resource, shown)


async def _finalize_namespace(
    cluster: LogicalCluster, target: Target, body: JSONObject, request: Request
) -> JSONObject:
    old = writing.latest(cluster, target)
    meta = body.get("metadata") or {}
    check_name(target, {"metadata": meta})
    check_preconditions(target, old, meta.get("uid", ""), meta.get("resourceVersion", ""))
    finalizers = (body.get("spec") or {}).get("finalizers") or []
    new = {**old.object, "spec": {"finalizers": finalizers} if finalizers else {}}
    if new == old.object or request.dry_run:
        return new
    return (await writing.store_update(cluster, target, old, new)).object


async def _bind_pod(cluster: LogicalCluster, target: Target, body: JSONObject, request: Request) -> JSONObject:
    node = (body.get("target") or {}).get("name")
    if not node:
        cause = errors.Cause("target.name", "Required value", "FieldValueRequired")
        raise errors.invalid("Binding", "", target.name, [cause])

    def bound(pod: JSONObject) -> JSONObject:
        present = pod["spec"].get("nodeName")
        if present:
            why = f'pod {target.name} is already assigned to node "{present}"'
            raise errors.conflict("pods/binding", "", target.name, why)
        return {**pod, "spec": {**pod["spec"], "nodeName": node}}

    await writing.patch(cluster, Target(target.resource, target.namespace, target.name), bound, request)
    return success(201)


async def _evict_pod(cluster: LogicalCluster, target: Target, body: JSONObject, request: Request) -> JSONObject:
    options = body.get("deleteOptions") or {}
    wanted = options.get("preconditions") or {}
    asked = DeleteOptions(
        Preconditions(wanted.get("uid", ""), wanted.get("resourceVersion", "")),
        grace_period_seconds=options.get("gracePeriodSeconds"),
    )
    pod = Target(target.resource, target.namespace, target.name)
    await deletion.delete(cluster, pod, asked, request)
    return success(201)


async def _request_token(cluster: LogicalCluster, target: Target, body: JSONObject, request: Request) -> JSONObject:
    account = writing.latest(cluster, target).object
    if cluster.accounts is None:
        raise errors.NotFound("the server could not find the requested resource")
    spec = body.get("spec") or {}
    pod = _bound_pod(cluster, target, spec.get("boundObjectRef"))
    token = cluster.accounts.issue(
        target.namespace,
        target.name,
        account["metadata"]["uid"],
        audiences=spec.get("audiences") or (),
        seconds=spec.get("expirationSeconds", DEFAULT_LIFETIME),
        pod=pod,
    )
    until = format_time(datetime.fromtimestamp(token.expires, UTC))
    return {**body, "status": {"token": "" if request.dry_run else token.token, "expirationTimestamp": until}}


def _bound_pod(cluster: LogicalCluster, target: Target, reference: JSONObject | None) -> tuple[str, str] | None:
    """Return name and uid of the pod that a token shall die with."""
    if not reference:
        return None
    if reference.get("kind") != "Pod":
        raise errors.BadRequest(f"cannot bind token for serviceaccount to kind {reference.get('kind')!r}: only Pod")
    name = reference.get("name") or ""
    entry = cluster.store.latest(Key("pods", target.namespace, name))
    if entry is None:
        raise errors.not_found("pods", "", name)
    uid = entry.object["metadata"]["uid"]
    if reference.get("uid") not in (None, "", uid):
        why = f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record"
        raise errors.conflict("pods", "", name, why)
    return name, uid


def success(code: int = 200) -> JSONObject:
    """Return the Status of something that worked and has nothing to show."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code}


SUBRESOURCES: dict[tuple[str, str], Subresource] = {
    ("namespaces", "finalize"): Subresource("", "v1", "Namespace", "update", Namespace, _finalize_namespace),
    ("pods", "binding"): Subresource("", "v1", "Binding", "create", Binding, _bind_pod),
    ("pods", "eviction"): Subresource("policy", "v1", "Eviction", "create", Eviction, _evict_pod),
    ("serviceaccounts", "token"): Subresource(
        "authentication.k8s.io", "v1", "TokenRequest", "create", TokenRequest, _request_token
    ),
}
