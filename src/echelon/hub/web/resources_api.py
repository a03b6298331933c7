"""The addresses of resources: verbs over HTTP."""

import asyncio
from collections.abc import Callable
from functools import partial

from aiohttp import web

from echelon.api.autoscaling import Scale
from echelon.api.base import JSON, JSONObject
from echelon.api.schema import schema_of
from echelon.hub.access import reviews
from echelon.hub.catalogue.resources import Resource
from echelon.hub.kinds.builtin import strategy_of
from echelon.hub.schema import causes
from echelon.hub.storage.store import WatchClosed
from echelon.hub.verbs import deletion, patch, reading, subresources, writing
from echelon.hub.verbs.admission import Request, Target, readable
from echelon.hub.verbs.strategic import strategic_merge
from echelon.hub.web import codec, rendering
from echelon.hub.web.http import Call, decode, document, read_body, warn
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
    return _answer(rendering.one(target.resource, entry, None, form, cluster.clock()), form)


async def _list(call: Call, target: Target) -> web.StreamResponse:
    cluster, form = call.served.cluster, format_of(call)
    found = await reading.list_(cluster, target.resource, query_of(call, target))
    render = partial(rendering.many, target.resource, found, form, cluster.clock())
    if len(found.entries) > _RENDERED_AT_ONCE and not rendering.as_stored(target.resource, form):
        length, parts = await asyncio.to_thread(render)  # objects that are stored do not change any more
    else:
        length, parts = render()
    if length <= _AT_ONCE or call.http.method == "HEAD":
        return _answer(b"".join(parts), form)
    response = web.StreamResponse(headers={"Content-Type": form.media_type, "Content-Length": str(length)})
    await response.prepare(call.http)
    for part in parts:
        await response.write(part)
    await response.write_eof()
    return response


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
    reached, synced = 0, not query.initial_events
    try:
        async with asyncio.timeout(limit):
            if limit <= 0:
                raise TimeoutError
            async for step in changes:
                if isinstance(step, int):
                    reached = step
                    if query.bookmarks:
                        await response.write(renderer.bookmark(step, initial=not synced))
                    synced = True
                else:
                    reached = max(change.revision for change in step)  # initial state comes in the order of names
                    for first in range(0, len(step), _EVENTS_AT_ONCE):
                        part = step[first : first + _EVENTS_AT_ONCE]
                        await response.write(renderer.lines(part, cluster.clock()))
    except TimeoutError:
        if query.bookmarks and reached:
            await response.write(renderer.bookmark(reached))
    except WatchClosed:
        pass  # the server is stopping; the client resumes elsewhere
    except errors.ApiError as error:
        await response.write(rendering.error_line(error.status()))
    finally:
        await changes.aclose()
    await response.write_eof()
    return response


async def _create_or_update(call: Call, target: Target) -> web.StreamResponse:
    data = await read_body(call.http)
    body = decode(call.http, data, target.resource.kind.kind)
    write = writing.create if call.info.verb == "create" else writing.update
    written = await write(call.served.cluster, target, body, write_request(call, data, body))
    return _written(call, target, written)


async def _patch(call: Call, target: Target) -> web.StreamResponse:
    data, kind = await read_body(call.http), call.http.content_type
    cluster, resource = call.served.cluster, target.resource
    if kind == _APPLY_PATCH:
        config = decode(call.http, data)
        request = write_request(call, data, config, apply=True)
        force = truth(call.http.query.get("force"))
        written = await writing.server_side_apply(cluster, target, config, request, force=force)
    else:
        if truth(call.http.query.get("force")):
            cause = causes.forbidden("force", "may not be specified for non-apply patch")
            raise errors.invalid("PatchOptions", "meta.k8s.io", "", [cause])
        change = _change(data, kind, resource.schema if resource.kind.builtin else None)
        request = write_request(call, data)
        written = await writing.patch(cluster, target, change, request)
    return _written(call, target, written)


def _change(data: bytes, kind: str, schema: JSONObject | None) -> Callable[[JSONObject], JSONObject]:
    """Read a patch and return what it does to an object. Without a schema there is no strategic merge."""
    served = _PATCHES if schema is not None else [name for name in _PATCHES if name != _STRATEGIC_PATCH]
    if kind not in served:
        listed = ", ".join(served)
        raise errors.UnsupportedMediaType(
            f"the body of the request was in an unknown format - accepted media types include: {listed}"
        )
    body = codec.decode_body(data, kind)

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


async def _delete(call: Call, target: Target) -> web.StreamResponse:
    options = delete_options(call, await read_body(call.http))
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
    options = delete_options(call, await read_body(call.http))
    request = Request(call.user, options.dry_run, warnings=call.warnings, annotations=call.annotations)
    cluster = call.served.cluster
    deleted = await deletion.delete_collection(cluster, target, query_of(call, target), options, request)
    return _warned(call, document(rendering.objects_as_list(target.resource, deleted, cluster.store.revision)))


async def _subresource(call: Call, target: Target) -> web.StreamResponse:
    verb, cluster = call.info.verb, call.served.cluster
    if target.subresource == "scale" and target.resource.kind.scale:
        return await _scale(call, target)
    found = subresources.SUBRESOURCES.get((target.resource.stored_as, target.subresource))
    if found is None or not target.resource.kind.builtin:
        raise errors.NotFound("the server could not find the requested resource")
    if found.verb != verb:
        raise errors.MethodNotAllowed("the server does not allow this method on the requested resource")
    data = await read_body(call.http)
    place = Target(target.resource, target.namespace, target.name)
    body = found.body(decode(call.http, data, found.kind))
    answer = await found.handle(cluster, place, body, write_request(call, data))
    return document(answer, status=201 if verb == "create" else 200)


async def _scale(call: Call, target: Target) -> web.StreamResponse:
    cluster, resource, verb = call.served.cluster, target.resource, call.info.verb
    if verb == "get":
        entry = reading.get(cluster, resource, target.namespace, target.name)
        return document(subresources.scale_of(resource, resource.outgoing(entry.object)))
    data = await read_body(call.http)
    if verb == "update":
        body = decode(call.http, data, "Scale")
        answer = await subresources.write_scale(cluster, target, lambda _scale: body, write_request(call, data))
    elif verb == "patch":
        change = _change(data, call.http.content_type, schema_of(Scale))
        answer = await subresources.write_scale(cluster, target, change, write_request(call, data))
    else:
        raise errors.MethodNotAllowed("the server does not allow this method on the requested resource")
    return document(answer)


async def _review(call: Call, resource: Resource) -> web.StreamResponse:
    if call.info.verb != "create":
        raise errors.MethodNotAllowed("the server does not allow this method on the requested resource")
    sent = decode(call.http, await read_body(call.http), resource.kind.kind)
    body = readable(resource.structural, resource.kind.kind, resource.kind.version, sent)
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


def _written(call: Call, target: Target, written: writing.Written) -> web.Response:
    form = format_of(call)
    body = rendering.one(target.resource, written.entry, written.object, form, call.served.cluster.clock())
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
