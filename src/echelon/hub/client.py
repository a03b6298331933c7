"""The in-process client: the hub's verbs without HTTP on the way.

It goes through the same admission and the same authorisation as a request from outside. In a hub that keeps objects
decoded, no JSON is made or read between a controller and the store.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from typing import Any, TypeVar, Unpack

import msgspec

from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.hub.access import reviews
from echelon.hub.access.identity import User
from echelon.hub.access.rbac import Attributes, refusal
from echelon.hub.catalogue.resources import Resource
from echelon.hub.cluster import LogicalCluster
from echelon.hub.kinds.builtin import strategy_of
from echelon.hub.schema import causes
from echelon.hub.storage.store import Change, Entry, WatchClosed
from echelon.hub.verbs import deletion, reading, writing
from echelon.hub.verbs import patch as patching
from echelon.hub.verbs.admission import Request, Target
from echelon.hub.verbs.strategic import strategic_merge
from echelon.hub.verbs.subresources import write_scale
from echelon.hub.web import discovery, version
from echelon.kube import errors
from echelon.kube.client import (
    ApplyPatch,
    DeleteOptions,
    Event,
    EventType,
    JSONPatch,
    ListOptions,
    MergePatch,
    Page,
    Patch,
    WatchOptions,
    WriteOptions,
)
from echelon.kube.misfits import Misfit, misfit

T = TypeVar("T")

BOOKMARK_SECONDS = 60.0
_PLAIN = WriteOptions()


class InProcessClient:
    """Talks to one logical cluster as one user."""

    def __init__(
        self,
        cluster: LogicalCluster,
        user: User,
        *,
        field_manager: str = "echelon",
        bookmark_seconds: float = BOOKMARK_SECONDS,
    ) -> None:
        """`bookmark_seconds` of silence lead to a bookmark; without end for whoever knows that the cluster is there."""
        self._cluster = cluster
        self._user = user
        self._manager = field_manager
        self._bookmark_seconds = bookmark_seconds

    async def get(self, kind: Kind[T], name: str, namespace: str = "") -> T:
        """Return one object."""
        resource = self._allowed("get", kind, namespace, name)
        return _typed(kind, resource, reading.get(self._cluster, resource, namespace, name))

    async def list(self, kind: Kind[T], namespace: str = "", **options: Unpack[ListOptions]) -> Page[T]:
        """Return the objects of a namespace, or of all when it is empty."""
        resource = self._allowed("list", kind, namespace)
        query = reading.Query(namespace, **options)
        reading.check_query(query, watching=False)
        found = await reading.list_(self._cluster, resource, query)
        items, unreadable = _all_typed(kind, resource, found.entries)
        return Page(items, str(found.revision), found.continue_, found.remaining or 0, unreadable)

    async def watch(
        self, kind: Kind[T], namespace: str = "", **options: Unpack[WatchOptions]
    ) -> AsyncIterator[Event[T]]:
        """Follow changes after a resource version."""
        resource = self._allowed("watch", kind, namespace)
        initial_events, seconds = options.get("initial_events", False), options.get("timeout_seconds", 0)
        query = reading.Query(
            namespace,
            options.get("labels", ""),
            options.get("fields", ""),
            resource_version=options.get("resource_version", ""),
            initial_events=initial_events or None,
        )
        loop = asyncio.get_running_loop()
        end = loop.time() + (seconds or math.inf)

        def patience() -> float | None:
            left = min(self._bookmark_seconds, end - loop.time())
            return None if left == math.inf else max(0.0, left)

        synced = not initial_events
        try:
            async for step in reading.watch(self._cluster, resource, query, patience):
                if not isinstance(step, int):
                    for change in step:
                        yield _event(kind, resource, change)
                else:
                    if options.get("bookmarks", True) or not synced:
                        yield Event(EventType.BOOKMARK, str(step), synced=not synced)
                    synced = True
                if loop.time() >= end:
                    return
        except WatchClosed:
            return

    async def create(
        self, kind: Kind[T], body: dict[str, Any], namespace: str = "", *, options: WriteOptions | None = None
    ) -> T:
        """Create an object; `body` is the wire form."""
        resource = self._allowed("create", kind, namespace)
        if not resource.persistent:
            return msgspec.convert({**body, "status": self._review(resource, body, namespace)}, kind.type)
        request = self._request(options)
        written = await writing.create(self._cluster, Target(resource, namespace), body, request)
        _pass_on(request.warnings, options)
        return _written(kind, resource, written)

    async def patch(
        self,
        kind: Kind[T],
        name: str,
        patch: Patch,
        namespace: str = "",
        *,
        subresource: str = "",
        options: WriteOptions | None = None,
    ) -> T:
        """Change the fields that the patch names."""
        resource = self._allowed("patch", kind, namespace, name, subresource)
        target, request = Target(resource, namespace, name, subresource), self._request(options)
        endpoints = strategy_of(resource).status_endpoints if resource.kind.status else ()
        if subresource and subresource != "scale" and subresource not in endpoints:
            raise errors.NotFound("the server could not find the requested resource")
        if isinstance(patch, ApplyPatch):
            if not patch.manager:
                cause = causes.required("fieldManager", "is required for apply patch")
                raise errors.invalid("PatchOptions", "meta.k8s.io", "", [cause])
            request = msgspec.structs.replace(request, field_manager=patch.manager)
            written = await writing.server_side_apply(self._cluster, target, patch.body, request, force=patch.force)
            _pass_on(request.warnings, options)
            return _written(kind, resource, written)
        if subresource == "scale":
            await write_scale(self._cluster, target, lambda obj: _patched(patch, resource, obj), request)
            return _typed(kind, resource, reading.get(self._cluster, resource, namespace, name))
        written = await writing.patch(self._cluster, target, lambda obj: _patched(patch, resource, obj), request)
        _pass_on(request.warnings, options)
        return _written(kind, resource, written)

    async def delete(
        self, kind: Kind[T], name: str, namespace: str = "", *, options: DeleteOptions | None = None
    ) -> None:
        """Ask for the end of an object."""
        resource = self._allowed("delete", kind, namespace, name)
        asked = options or DeleteOptions()
        request = Request(self._user, asked.dry_run, self._manager)
        await deletion.delete(self._cluster, Target(resource, namespace, name), asked, request)

    async def document(self, path: str) -> dict[str, Any]:
        """Return what the hub answers at a path that is no object's: `/version`, `/apis/apps/v1`."""
        match path.strip("/").split("/"):
            case ["version"]:
                return version.version()
            case ["api", number]:
                return discovery.resources(self._cluster.catalogue, "", number)
            case ["apis", group, number]:
                return discovery.resources(self._cluster.catalogue, group, number)
        raise errors.NotFound("the server could not find the requested resource")

    def _review(self, resource: Resource, body: JSONObject, namespace: str) -> JSONObject:
        """Answer a question about rights."""
        authorizer = self._cluster.authorizer
        match resource.kind.kind:
            case "SubjectAccessReview":
                return reviews.subject_access_review(body, authorizer)
            case "SelfSubjectAccessReview":
                return reviews.self_subject_access_review(body, self._user, authorizer)
            case "LocalSubjectAccessReview":
                return reviews.local_subject_access_review(body, namespace, authorizer)
            case "SelfSubjectRulesReview":
                return reviews.self_subject_rules_review(body, self._user, authorizer)
        raise errors.NotFound("the server could not find the requested resource")

    def _allowed(self, verb: str, kind: Kind[Any], namespace: str, name: str = "", subresource: str = "") -> Resource:
        """Find the resource, if the user may do this with it."""
        asked = Attributes(
            user=self._user,
            verb=verb,
            group=kind.group,
            resource=kind.plural,
            subresource=subresource,
            namespace=namespace,
            name=name,
        )
        decision = self._cluster.authorizer.authorize(asked)
        if not decision.allowed:
            raise refusal(asked, decision)
        resource = self._cluster.catalogue.find(kind.group, kind.version, kind.plural)
        if resource.kind.namespaced and name and not namespace:
            raise errors.BadRequest("an empty namespace may not be set when a resource name is provided")
        if resource.kind.namespaced and verb == "create" and not namespace:
            raise errors.BadRequest("an empty namespace may not be set during creation")
        return resource

    def _request(self, options: WriteOptions | None) -> Request:
        said = options or _PLAIN
        manager, validation = said.field_manager or self._manager, said.field_validation or "Warn"
        return Request(self._user, said.dry_run, manager, validation)


def _pass_on(warnings: Sequence[str], options: WriteOptions | None) -> None:
    if options is not None and options.warn is not None:
        for each in warnings:
            options.warn(each)


def _patched(change: Patch, resource: Resource, obj: JSONObject) -> JSONObject:
    if isinstance(change, MergePatch):
        result = patching.merge_patch(obj, change.body)
    elif isinstance(change, JSONPatch):
        result = patching.json_patch(obj, list(change.operations))
    elif isinstance(change, ApplyPatch):
        raise errors.BadRequest("an apply patch is no change of the present state")
    elif not resource.kind.builtin:
        raise errors.UnsupportedMediaType(
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
        )
    else:
        result = strategic_merge(obj, change.body, resource.schema)
    if not isinstance(result, dict):
        raise patching.rejected()
    return result


def _converted(kind: Kind[T], resource: Resource, entry: Entry) -> T:
    """Return an entry as the caller's type, by the shortest way from the form in which it is held."""
    if resource.from_storage is None:
        return entry.read_as(kind.type)
    return msgspec.convert(resource.outgoing(entry.object), kind.type)


def _typed(kind: Kind[T], resource: Resource, entry: Entry) -> T:
    """Return an entry as the caller's type, or fail as a client over HTTP would."""
    try:
        return _converted(kind, resource, entry)
    except msgspec.ValidationError as error:
        raise errors.Unreadable(f"{kind.resource}: the answer cannot be read: {error}") from None


def _all_typed(kind: Kind[T], resource: Resource, entries: Sequence[Entry]) -> tuple[list[T], list[Misfit]]:
    """Tell the objects that can be read from those that cannot."""
    items, unreadable = list[T](), list[Misfit]()
    for entry in entries:
        try:
            items.append(_converted(kind, resource, entry))
        except msgspec.ValidationError as error:
            unreadable.append(misfit(kind, entry.object, error))
    return items, unreadable


def _event(kind: Kind[T], resource: Resource, change: Change) -> Event[T]:
    version = str(change.revision)
    try:
        return Event(change.type, version, _converted(kind, resource, change.entry))
    except msgspec.ValidationError as error:
        return Event(change.type, version, unreadable=misfit(kind, change.entry.object, error))


def _written(kind: Kind[T], resource: Resource, written: writing.Written) -> T:
    if written.entry is not None:
        return _typed(kind, resource, written.entry)
    return msgspec.convert(written.object, kind.type)
