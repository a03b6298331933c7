"""The options of a request: what its query, headers and body say besides the object itself."""

import random
from collections.abc import Sequence

from echelon.api.base import JSONObject
from echelon.hub import codec, reading, rendering
from echelon.hub.admission import Request, Target
from echelon.hub.http import Call, decode
from echelon.hub.request import truth
from echelon.kube import errors
from echelon.kube.client import DeleteOptions, Preconditions

# A watch without a time limit ends after this, or up to twice as long, so that clients spread over servers.
_WATCH_SECONDS = 1800.0


def query_of(call: Call, target: Target) -> reading.Query:
    """Read what a list or a watch asks for."""
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


def write_request(
    call: Call,
    data: bytes,
    *,
    apply: bool = False,
    dry_run: bool | None = None,
) -> Request:
    """Read how a write shall be done."""
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
        repeated = tuple(codec.duplicates(data, call.http.headers.get("Content-Type", "")))
    return Request(
        call.user,
        dry_run=_dry_run(query.getall("dryRun", [])) if dry_run is None else dry_run,
        field_manager=(manager or _agent(call))[:128],
        field_validation=validation,
        duplicate_fields=repeated,
    )


def _agent(call: Call) -> str:
    return call.http.headers.get("User-Agent", "").split("/")[0] or "unknown"


def _dry_run(values: Sequence[str]) -> bool:
    if any(value not in ("All", "") for value in values):
        why = f'Unsupported value: "{values[0]}": supported values: "All"'
        cause = errors.Cause("dryRun", why, "FieldValueNotSupported")
        raise errors.invalid("Options", "meta.k8s.io", "", [cause])
    return "All" in values


def delete_options(call: Call, data: bytes) -> DeleteOptions:
    """Read how an object shall go, from the body or the address."""
    body: JSONObject = decode(call.http, data) if data.strip() else {}
    query = call.http.query
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


def format_of(call: Call) -> rendering.Format:
    """Read what form of answer the client takes."""
    form = rendering.negotiate(call.http.headers.get("Accept", ""))
    include = call.http.query.get("includeObject")
    return rendering.Format(form.media_type, form.shape, include) if include and form.shape == "Table" else form


def time_limit(call: Call) -> float:
    """Return how many seconds a watch may last."""
    text = call.http.query.get("timeoutSeconds", "")
    if not text or text == "0":
        return _WATCH_SECONDS * (1 + random.random())  # noqa: S311 - spreads load, keeps no secret
    if not text.isdigit():
        raise errors.BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return float(text)
