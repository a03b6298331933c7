"""The addresses of resources: verbs over HTTP."""

import asyncio
import random
from collections.abc import Callable

from aiohttp import web

from echelon.api.base import JSON, JSONObject
from echelon.hub import codec, deletion, patch, reading, rendering, reviews, subresources, writing
from echelon.hub.admission import Request, Target
from echelon.hub.catalogue import Resource
from echelon.hub.cluster import LogicalCluster
from echelon.hub.http import Call, decode, document, read_body
from echelon.hub.request import truth
from echelon.hub.strategic import strategic_merge
from echelon.hub.store import WatchClosed
from echelon.kube import errors
from echelon.kube.client import DeleteOptions, Preconditions

# How often a quiet watch hears how far it is.
BOOKMARK_SECONDS = 60.0
# A watch without a time limit ends after this, or up to twice as long, so that clients spread over servers.
_WATCH_SECONDS = 1800.0

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
    if info.subresource and info.subresource != "status":
        return await _subresource(call, target)
    if info.subresource == "status" and (not resource.kind.status or verb not in ("get", "update", "patch")):
        raise errors.NotFound("the server could not find the requested resource")
    handler = _HANDLERS.get(verb)
    if handler is None or (verb == "create" and name):
        raise errors.MethodNotAllowed("the server does not allow this method on the requested resource")
    if verb == "create" and resource.kind.namespaced and not namespace:
        raise errors.MethodNotAllowed("the server does not allow this method on the requested resource")
    return await handler(call, target)


async def _get(call: Call, target: Target) -> web.StreamResponse:
    cluster, form = call.served.cluster, _format(call)
    revision = reading.parse_revision(call.http.query.get("resourceVersion", ""))
    if revision:
        await reading.reach(cluster, revision)
    entry = reading.get(cluster, target.resource, target.namespace, target.name)
    return _answer(rendering.one(target.resource, entry, None, form, cluster.clock()), form)


async def _list(call: Call, target: Target) -> web.StreamResponse:
    cluster, form = call.served.cluster, _format(call)
    found = await reading.list_(cluster, target.resource, _query(call, target))
    return _answer(rendering.many(target.resource, found, form, cluster.clock()), form)


async def _watch(call: Call, target: Target) -> web.StreamResponse:
    cluster, query, form = call.served.cluster, _query(call, target), _format(call)
    if query.initial_events and query.resource_version_match != "NotOlderThan":
        raise errors.BadRequest("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
    reading.matcher(target.resource, query)  # a bad selector is an answer, not an event
    renderer = rendering.WatchRenderer(target.resource, form)
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"})
    response.enable_chunked_encoding()
    await response.prepare(call.http)
    changes = reading.watch(cluster, target.resource, query, BOOKMARK_SECONDS)
    reached, synced = 0, not query.initial_events
    try:
        async with asyncio.timeout(_time_limit(call)):
            async for step in changes:
                if isinstance(step, int):
                    reached = step
                    if query.bookmarks or not synced:
                        await response.write(renderer.bookmark(step, initial=not synced))
                    synced = True
                else:
                    reached = step[-1].revision
                    await response.write(renderer.lines(step, cluster.clock()))
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


async def _create(call: Call, target: Target) -> web.StreamResponse:
    data = await read_body(call.http)
    request = _request(call, data)
    written = await writing.create(call.served.cluster, target, decode(call.http, data), request)
    return _written(call, target, written, request)


async def _update(call: Call, target: Target) -> web.StreamResponse:
    data = await read_body(call.http)
    request = _request(call, data)
    written = await writing.update(call.served.cluster, target, decode(call.http, data), request)
    return _written(call, target, written, request)


async def _patch(call: Call, target: Target) -> web.StreamResponse:
    data, kind = await read_body(call.http), call.http.content_type
    cluster, resource = call.served.cluster, target.resource
    if kind == _APPLY_PATCH:
        request = _request(call, data, content_type=codec_type(kind), apply=True)
        config = codec.decode_body(data, codec_type(kind))
        if not isinstance(config, dict):
            raise errors.BadRequest("error decoding YAML: expected an object")
        force = truth(call.http.query.get("force"))
        written = await writing.server_side_apply(cluster, target, config, request, force=force)
    else:
        if truth(call.http.query.get("force")):
            cause = errors.Cause("force", "Forbidden: may not be specified for non-apply patch", "FieldValueForbidden")
            raise errors.invalid("PatchOptions", "meta.k8s.io", "", [cause])
        request = _request(call, data)
        written = await writing.patch(cluster, target, _change(resource, kind, data), request)
    return _written(call, target, written, request)


def codec_type(kind: str) -> str:
    """Return the encoding of a patch: apply comes as YAML, of which JSON is a part."""
    return rendering.YAML_TYPE if kind == _APPLY_PATCH else rendering.JSON_TYPE


def _change(resource: Resource, kind: str, data: bytes) -> Callable[[JSONObject], JSONObject]:
    """Read a patch and return what it does to an object."""
    served = _PATCHES if resource.kind.builtin else [name for name in _PATCHES if name != _STRATEGIC_PATCH]
    if kind not in served:
        listed = ", ".join(served)
        raise errors.UnsupportedMediaType(
            f"the body of the request was in an unknown format - accepted media types include: {listed}"
        )
    body = codec.decode_body(data, rendering.JSON_TYPE)

    def change(obj: JSONObject) -> JSONObject:
        if kind == _JSON_PATCH:
            result: JSON = patch.json_patch(obj, body)
        elif kind == _MERGE_PATCH:
            result = patch.merge_patch(obj, body)
        else:
            result = strategic_merge(obj, body, resource.schema)
        if not isinstance(result, dict):
            raise patch.rejected()
        return result

    return change


async def _delete(call: Call, target: Target) -> web.StreamResponse:
    options = _delete_options(call, await read_body(call.http))
    request = _request(call, b"", dry_run=options.dry_run)
    deleted = await deletion.delete(call.served.cluster, target, options, request)
    if not deleted.gone:
        return _answer(rendering.encoded(deleted.object, _format(call)), _format(call))
    kind = target.resource.kind
    details = {"name": target.name, "group": kind.group, "kind": kind.plural, "uid": deleted.object["metadata"]["uid"]}
    status = subresources.success()
    del status["code"]
    return document(status | {"details": {key: value for key, value in details.items() if value}})


async def _delete_collection(call: Call, target: Target) -> web.StreamResponse:
    options = _delete_options(call, await read_body(call.http))
    request = _request(call, b"", dry_run=options.dry_run)
    cluster = call.served.cluster
    deleted = await deletion.delete_collection(cluster, target, _query(call, target), options, request)
    return document(rendering.objects_as_list(target.resource, deleted, cluster.store.revision))


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
    answer = await found.handle(cluster, place, decode(call.http, data), _request(call, data))
    return document(answer, status=201 if verb == "create" else 200)


async def _scale(call: Call, target: Target) -> web.StreamResponse:
    cluster, resource, verb = call.served.cluster, target.resource, call.info.verb
    if verb == "get":
        entry = reading.get(cluster, resource, target.namespace, target.name)
        return document(subresources.scale_of(resource, resource.outgoing(entry.object)))
    data = await read_body(call.http)
    if verb == "update":
        body = decode(call.http, data)
        answer = await subresources.write_scale(cluster, target, lambda _scale: body, _request(call, data))
    elif verb == "patch":
        kind = call.http.content_type
        change = _change(cluster.catalogue.find("autoscaling", "v1", "scales"), kind, data)
        answer = await subresources.write_scale(cluster, target, change, _request(call, data))
    else:
        raise errors.MethodNotAllowed("the server does not allow this method on the requested resource")
    return document(answer)


async def _review(call: Call, resource: Resource) -> web.StreamResponse:
    if call.info.verb != "create":
        raise errors.MethodNotAllowed("the server does not allow this method on the requested resource")
    body = decode(call.http, await read_body(call.http))
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
    status = answer()
    typed = {**body, "kind": resource.kind.kind, "apiVersion": resource.kind.api_version}
    return document({**typed, "metadata": body.get("metadata") or {}, "status": status}, status=201)


def _query(call: Call, target: Target) -> reading.Query:
    query = call.http.query
    fields = query.get("fieldSelector", "")
    limit = query.get("limit", "0") or "0"
    if not limit.isdigit():
        raise errors.BadRequest(f'strconv.ParseInt: parsing "{limit}": invalid syntax')
    return reading.Query(
        target.namespace,
        query.get("labelSelector", ""),
        f"{fields},metadata.name={call.info.name}" if call.info.verb == "watch" and _named(call) else fields,
        int(limit),
        query.get("continue", ""),
        query.get("resourceVersion", ""),
        query.get("resourceVersionMatch", ""),
        truth(query.get("allowWatchBookmarks")),
        truth(query.get("sendInitialEvents")),
    )


def _named(call: Call) -> bool:
    """Tell whether a watch names its object in the address."""
    return call.http.path.rstrip("/").endswith(f"/{call.info.resource}/{call.info.name}")


def _request(
    call: Call,
    data: bytes,
    *,
    content_type: str = "",
    apply: bool = False,
    dry_run: bool | None = None,
) -> Request:
    query = call.http.query
    manager = query.get("fieldManager", "")
    if apply and not manager:
        cause = errors.Cause("fieldManager", "Required value: is required for apply patch", "FieldValueRequired")
        raise errors.invalid("PatchOptions", "meta.k8s.io", "", [cause])
    validation = query.get("fieldValidation") or "Warn"
    if validation not in ("Ignore", "Warn", "Strict"):
        why = f'Unsupported value: "{validation}": supported values: "Ignore", "Strict", "Warn"'
        cause = errors.Cause("fieldValidation", why, "FieldValueNotSupported")
        raise errors.invalid("Options", "meta.k8s.io", "", [cause])
    repeated: tuple[str, ...] = ()
    if data and validation == "Strict":
        repeated = tuple(codec.duplicates(data, content_type or call.http.headers.get("Content-Type", "")))
    return Request(
        call.user,
        dry_run=_dry_run(query.getall("dryRun", [])) if dry_run is None else dry_run,
        field_manager=(manager or _agent(call))[:128],
        field_validation=validation,
        duplicate_fields=repeated,
    )


def _agent(call: Call) -> str:
    return call.http.headers.get("User-Agent", "").split("/")[0] or "unknown"


def _dry_run(values: list[str]) -> bool:
    if any(value not in ("All", "") for value in values):
        why = f'Unsupported value: "{values[0]}": supported values: "All"'
        cause = errors.Cause("dryRun", why, "FieldValueNotSupported")
        raise errors.invalid("Options", "meta.k8s.io", "", [cause])
    return "All" in values


def _delete_options(call: Call, data: bytes) -> DeleteOptions:
    body, query = decode(call.http, data) if data.strip() else {}, call.http.query
    if body and body.get("kind") not in (None, "DeleteOptions"):
        raise errors.BadRequest(f"delete options expected, got {body.get('kind')}")
    wanted = body.get("preconditions") or {}
    grace = body.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
    orphan = body.get("orphanDependents", truth(query["orphanDependents"]) if "orphanDependents" in query else None)
    propagation = body.get("propagationPolicy") or query.get("propagationPolicy", "")
    if orphan is not None and propagation:
        why = "Invalid value: orphanDependents and deletionPropagation cannot be both set"
        raise errors.invalid("DeleteOptions", "meta.k8s.io", "", [errors.Cause("propagationPolicy", why)])
    if orphan is not None:
        propagation = "Orphan" if orphan else "Background"
    return DeleteOptions(
        Preconditions(wanted.get("uid") or "", wanted.get("resourceVersion") or ""),
        propagation,
        int(grace) if grace is not None else None,
        _dry_run(body.get("dryRun") or query.getall("dryRun", [])),
    )


def _format(call: Call) -> rendering.Format:
    form = rendering.negotiate(call.http.headers.get("Accept", ""))
    include = call.http.query.get("includeObject")
    return rendering.Format(form.media_type, form.shape, include) if include and form.shape == "Table" else form


def _answer(
    body: bytes, form: rendering.Format, status: int = 200, headers: dict[str, str] | None = None
) -> web.Response:
    return web.Response(body=body, status=status, content_type=form.media_type, headers=headers)


def _written(call: Call, target: Target, written: writing.Written, request: Request) -> web.Response:
    form = _format(call)
    body = rendering.one(target.resource, written.entry, written.object, form, call.served.cluster.clock())
    response = _answer(body, form, 201 if written.created else 200)
    for warning in request.warnings:
        text = warning.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{text}"')
    return response


def _time_limit(call: Call) -> float:
    text = call.http.query.get("timeoutSeconds", "")
    if not text or text == "0":
        return _WATCH_SECONDS * (1 + random.random())  # noqa: S311 - spreads load, keeps no secret
    if not text.isdigit():
        raise errors.BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return float(text)


_HANDLERS = {
    "get": _get,
    "list": _list,
    "watch": _watch,
    "create": _create,
    "update": _update,
    "patch": _patch,
    "delete": _delete,
    "deletecollection": _delete_collection,
}
