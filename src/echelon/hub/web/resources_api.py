"""The addresses of resources: verbs over HTTP."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from aiohttp import web

from echelon.api.autoscaling import Scale
from echelon.api.base import JSON, JSONObject
from echelon.api.schema import schema_of
from echelon.hub.access import reviews
from echelon.hub.catalogue.resources import Resource
from echelon.hub.kinds.builtin import strategy_of
from echelon.hub.schema import causes
from echelon.hub.storage.store import Change, Entry, WatchClosed
from echelon.hub.verbs import deletion, patch, reading, subresources, writing
from echelon.hub.verbs.admission import AT_ONCE, Request, Target, readable
from echelon.hub.verbs.breaks import to_the_end
from echelon.hub.verbs.strategic import strategic_merge
from echelon.hub.web import pod_logs, rendering
from echelon.hub.web.bodies import received, received_if_any
from echelon.hub.web.http import Call, beside, document, in_time, warn
from echelon.hub.web.options import delete_options, format_of, query_of, time_limit, write_request
from echelon.hub.web.request import truth
from echelon.kube import errors

# How often a quiet watch hears how far it is.
BOOKMARK_SECONDS = 60.0
# What is larger is sent bit by bit, at the pace of the client.
_AT_ONCE = 64 * 1024
_EVENTS_AT_ONCE = 64
# Longer lists of tables or YAML are made beside the event loop: they take up to a millisecond an object.
_RENDERED_AT_ONCE = 64

_JSON_PATCH = "application/json-patch+json"
_MERGE_PATCH = "application/merge-patch+json"
_STRATEGIC_PATCH = "application/strategic-merge-patch+json"
_APPLY_PATCH = "application/apply-patch+yaml"
_PATCHES = (_JSON_PATCH, _MERGE_PATCH, _STRATEGIC_PATCH, _APPLY_PATCH)


async def serve(call: Call) -> web.StreamResponse:
    """Answer a request for a resource."""
    info = call.info
    resource = call.served.cluster.catalogue.find(info.group, info.version, info.resource)
    if info.namespace and not resource.kind.namespaced and info.resource != "namespaces":
        raise errors.NotFound("the server could not find the requested resource")
    namespace = info.namespace if resource.kind.namespaced else ""
    verb = info.verb
    name = "" if verb in ("list", "watch", "deletecollection") else info.name
    target = Target(resource, namespace, name, info.subresource)
    if not resource.persistent:
        return await _review(call, resource)
    if info.subresource and info.subresource not in strategy_of(resource).status_endpoints:
        return await _subresource(call, target)
    if info.subresource and not resource.kind.status:
        raise errors.NotFound("the server could not find the requested resource")
    handler = _HANDLERS.get(verb)
    if handler is None or not _has(target, verb):
        raise errors.MethodNotAllowed("the server does not allow this method on the requested resource")
    return await handler(call, target)


def _has(target: Target, verb: str) -> bool:
    """Tell whether an address has a verb: writes need to know where they go."""
    if target.subresource and verb not in ("get", "update", "patch"):
        return False
    if verb in ("create", "deletecollection"):
        placed = bool(target.namespace) or not target.resource.kind.namespaced
        return placed and not target.name and verb in target.resource.verbs
    return bool(target.name) or verb in ("list", "watch")


async def _get(call: Call, target: Target) -> web.StreamResponse:
    cluster, form = call.served.cluster, format_of(call)
    revision = reading.parse_revision(call.http.query.get("resourceVersion", ""))
    if revision:
        await reading.reach(cluster, revision)
    entry = reading.get(cluster, target.resource, target.namespace, target.name)
    return _answer(await _one(call, target, entry, None, form), form)


async def _list(call: Call, target: Target) -> web.StreamResponse:
    cluster, form = call.served.cluster, format_of(call)
    found = await reading.list_(cluster, target.resource, query_of(call, target))
    length, parts = rendering.many(target.resource, found, form, cluster.clock())
    size = sum(entry.size for entry in found.entries)
    small = len(found.entries) <= _RENDERED_AT_ONCE and size <= _AT_ONCE
    if small or (call.http.method == "HEAD" and length is not None):
        return _answer(b"".join(parts), form)
    response = web.StreamResponse(headers={"Content-Type": form.media_type})
    if length is not None:
        response.headers["Content-Length"] = str(length)
    else:
        response.enable_chunked_encoding()
    await _send_list(call, response, parts, made=length is None)
    return response


async def _send_list(call: Call, response: web.StreamResponse, parts: Iterator[bytes], *, made: bool) -> None:
    """Send a list as fast as its reader takes it. Parts that have to be made are made beside the event loop."""
    loop = asyncio.get_running_loop()
    await response.prepare(call.http)
    until = loop.time() + call.limits.request_seconds
    while (part := await beside(call, partial(next, parts, None)) if made else next(parts, None)) is not None:
        view = memoryview(part)
        for first in range(0, len(view), _AT_ONCE):
            piece = view[first : first + _AT_ONCE]
            async with in_time(call, until - loop.time()):
                await response.write(piece)
            # What goes quickly, into buffers on the way for one, earns no time for what comes after.
            until = min(until + call.limits.earned(len(piece)), loop.time() + call.limits.request_seconds)


async def _one(
    call: Call, target: Target, entry: Entry | None, obj: JSONObject | None, form: rendering.Format
) -> bytes:
    """Render one object; a large one in another form than the stored one, beside the event loop."""
    render = partial(rendering.one, target.resource, entry, obj, form, call.served.cluster.clock())
    if entry is None or entry.size <= _AT_ONCE or rendering.as_stored(target.resource, form):
        return render()
    return await beside(call, render)


async def _watch(call: Call, target: Target) -> web.StreamResponse:
    cluster, query, form = call.served.cluster, query_of(call, target), format_of(call, stream=True)
    reading.matcher(target.resource, query)  # a bad selector is an answer, not an event
    renderer = rendering.WatchRenderer(target.resource, form)
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"})
    response.enable_chunked_encoding()
    await response.prepare(call.http)
    limit = time_limit(call)
    # A watch that ends in silence still tells how far it got.
    patience = min(BOOKMARK_SECONDS, limit * 3 / 4)
    changes = reading.watch(cluster, target.resource, query, lambda: patience)
    reached, synced, sending = 0, not query.initial_events, False

    async def write(line: bytes) -> None:
        nonlocal sending
        sending = True
        async with in_time(call, call.limits.request_seconds):
            await response.write(line)
        sending = False

    try:
        async with asyncio.timeout(limit):
            if limit <= 0:
                raise TimeoutError
            async for step in changes:
                if isinstance(step, int):
                    reached = step
                    if query.bookmarks:
                        await write(renderer.bookmark(step, initial=not synced))
                    synced = True
                else:
                    reached = max(
                        reached, *(change.revision for change in step)
                    )  # initial state comes in the order of names
                    for part in _batches(step):
                        lines = partial(renderer.lines, part, cluster.clock())
                        large = form.shape and sum(change.entry.size for change in part) > _AT_ONCE
                        await write(await beside(call, lines) if large else lines())
    except TimeoutError:
        if query.bookmarks and reached and not sending:  # of what is half sent nobody knows how far it got
            await write(renderer.bookmark(reached))
    except WatchClosed:
        pass  # the server is stopping; the client resumes elsewhere
    except errors.ApiError as error:
        await write(rendering.error_line(error.status()))
    finally:
        await changes.aclose()
    return response


def _batches(changes: Sequence[Change]) -> Iterator[Sequence[Change]]:
    """Cut changes into pieces that are rendered in one go."""
    begin, size = 0, 0
    for number, change in enumerate(changes):
        if number > begin and (number - begin >= _EVENTS_AT_ONCE or size >= _AT_ONCE):
            yield changes[begin:number]
            begin, size = number, 0
        size += change.entry.size
    yield changes[begin:]


async def _create_or_update(call: Call, target: Target) -> web.StreamResponse:
    write = writing.create if call.info.verb == "create" else writing.update
    async with received(call, target.resource.kind.kind) as body:
        written = await write(call.served.cluster, target, body.object, write_request(call, body.size, body.repeated))
    return await _written(call, target, written)


async def _patch(call: Call, target: Target) -> web.StreamResponse:
    kind, cluster, resource = call.http.content_type, call.served.cluster, target.resource
    _check_patch_type(kind, strategic=resource.kind.builtin)
    async with received(call) as body:
        if kind == _APPLY_PATCH:
            request = write_request(call, body.size, body.repeated, apply=True)
            force = truth(call.http.query.get("force"))
            written = await writing.server_side_apply(cluster, target, body.object, request, force=force)
        else:
            if truth(call.http.query.get("force")):
                cause = causes.forbidden("force", "may not be specified for non-apply patch")
                raise errors.invalid("PatchOptions", "meta.k8s.io", "", [cause])
            change = _change(body.value, kind, resource.schema if resource.kind.builtin else None)
            written = await writing.patch(cluster, target, change, write_request(call, body.size))
    return await _written(call, target, written)


def _change(body: JSON, kind: str, schema: JSONObject | None) -> Callable[[JSONObject], JSONObject]:
    """Return what a patch does to an object. Without a schema there is no strategic merge."""

    def change(obj: JSONObject) -> JSONObject:
        if kind == _JSON_PATCH:
            result: JSON = patch.json_patch(obj, body)
        elif kind == _MERGE_PATCH:
            result = patch.merge_patch(obj, body)
        else:
            result = strategic_merge(obj, body, schema or {})
        if not isinstance(result, dict):
            raise patch.rejected()
        return result

    return change


def _check_patch_type(kind: str, *, strategic: bool) -> None:
    served = _PATCHES if strategic else [name for name in _PATCHES if name != _STRATEGIC_PATCH]
    if kind not in served:
        listed = ", ".join(served)
        raise errors.UnsupportedMediaType(
            f"the body of the request was in an unknown format - accepted media types include: {listed}"
        )


async def _delete(call: Call, target: Target) -> web.StreamResponse:
    async with received_if_any(call) as body:
        options = delete_options(call, body.object)
    request = Request(call.user, options.dry_run, warnings=call.warnings, annotations=call.annotations)
    deleted = await deletion.delete(call.served.cluster, target, options, request)
    if not deleted.gone:
        return _warned(call, _answer(rendering.encoded(deleted.object, format_of(call)), format_of(call)))
    kind = target.resource.kind
    details = {"name": target.name, "group": kind.group, "kind": kind.plural, "uid": deleted.object["metadata"]["uid"]}
    status = subresources.success()
    del status["code"]
    return _warned(call, document(status | {"details": {key: value for key, value in details.items() if value}}))


async def _delete_collection(call: Call, target: Target) -> web.StreamResponse:
    async with received_if_any(call) as body:
        options = delete_options(call, body.object)
    request = Request(call.user, options.dry_run, warnings=call.warnings, annotations=call.annotations)
    cluster = call.served.cluster
    deleted = await deletion.delete_collection(cluster, target, query_of(call, target), options, request)
    return _warned(call, document(rendering.objects_as_list(target.resource, deleted, cluster.store.revision)))


async def _subresource(call: Call, target: Target) -> web.StreamResponse:
    verb, cluster = call.info.verb, call.served.cluster
    if target.subresource == "scale" and target.resource.kind.scale:
        return await _scale(call, target)
    if target.resource.stored_as == "pods" and target.subresource in (pod_logs.LOG, *pod_logs.INTO_CONTAINERS):
        return await pod_logs.serve(call, target)
    found = subresources.SUBRESOURCES.get((target.resource.stored_as, target.subresource))
    if found is None or not target.resource.kind.builtin:
        raise errors.NotFound("the server could not find the requested resource")
    if found.verb != verb:
        raise errors.MethodNotAllowed("the server does not allow this method on the requested resource")
    place = Target(target.resource, target.namespace, target.name)
    async with received(call, found.kind) as body:
        request = write_request(call, body.size)
        sent = await request.at_length(lambda: found.body(body.object))
        answer = await found.handle(cluster, place, sent, request)
    return document(answer, status=201 if verb == "create" else 200)


async def _scale(call: Call, target: Target) -> web.StreamResponse:
    cluster, resource, verb = call.served.cluster, target.resource, call.info.verb
    if verb == "get":
        entry = reading.get(cluster, resource, target.namespace, target.name)
        return document(subresources.scale_of(resource, resource.outgoing(entry.object)))
    if verb == "update":
        async with received(call, "Scale") as body:
            request = write_request(call, body.size)
            answer = await subresources.write_scale(cluster, target, lambda _: body.object, request)
    elif verb == "patch":
        _check_patch_type(call.http.content_type, strategic=True)
        async with received(call) as body:
            change = _change(body.value, call.http.content_type, schema_of(Scale))
            answer = await subresources.write_scale(cluster, target, change, write_request(call, body.size))
    else:
        raise errors.MethodNotAllowed("the server does not allow this method on the requested resource")
    return document(answer)


async def _review(call: Call, resource: Resource) -> web.StreamResponse:
    if call.info.verb != "create":
        raise errors.MethodNotAllowed("the server does not allow this method on the requested resource")
    kind = resource.kind
    async with received(call, kind.kind) as sent:
        read = partial(readable, resource.structural, kind.kind, kind.version, sent.object)
        body = await to_the_end(read) if sent.size > AT_ONCE else read()
    authorizer, user = call.served.cluster.authorizer, call.user
    answers: dict[str, Callable[[], JSONObject]] = {
        "SubjectAccessReview": lambda: reviews.subject_access_review(body, authorizer),
        "SelfSubjectAccessReview": lambda: reviews.self_subject_access_review(body, user, authorizer),
        "LocalSubjectAccessReview": lambda: reviews.local_subject_access_review(body, call.info.namespace, authorizer),
        "SelfSubjectRulesReview": lambda: reviews.self_subject_rules_review(body, user, authorizer),
        "SelfSubjectReview": lambda: reviews.self_subject_review(user),
        "TokenReview": lambda: reviews.token_review(body, call.served.authenticator),
    }
    answer = answers.get(resource.kind.kind)
    if answer is None:
        raise errors.NotFound("the server could not find the requested resource")
    return document(reviews.answered(resource.kind.api_version, resource.kind.kind, body, answer()), status=201)


def _answer(body: bytes, form: rendering.Format, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type=form.media_type)


async def _written(call: Call, target: Target, written: writing.Written) -> web.Response:
    form = format_of(call)
    body = await _one(call, target, written.entry, written.object, form)
    return _warned(call, _answer(body, form, 201 if written.created else 200))


def _warned(call: Call, response: web.Response) -> web.Response:
    warn(response, call.warnings)
    return response


_HANDLERS = {
    "get": _get,
    "list": _list,
    "watch": _watch,
    "create": _create_or_update,
    "update": _create_or_update,
    "patch": _patch,
    "delete": _delete,
    "deletecollection": _delete_collection,
}
