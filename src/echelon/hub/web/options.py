"""The options of a request: what its query, headers and body say besides the object itself."""

import random
import re
from collections.abc import Sequence
from functools import partial

import msgspec

from echelon.api.base import JSONObject
from echelon.hub.schema import causes
from echelon.hub.schema.metadata import manager_errors
from echelon.hub.verbs import reading
from echelon.hub.verbs.admission import AT_ONCE, Request, Target
from echelon.hub.verbs.breaks import to_the_end
from echelon.hub.web import rendering
from echelon.hub.web.http import Call, beside
from echelon.hub.web.request import truth
from echelon.kube import errors
from echelon.kube.client import DeleteOptions, Preconditions

# A watch without a time limit ends after this, or up to twice as long, so that clients spread over servers.
_WATCH_SECONDS = 1800.0
# What the options of a write are called when they are refused.
_OPTIONS = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}
_MORE_THAN_ANYBODY_HAS = 2**31


def query_of(call: Call, target: Target) -> reading.Query:
    """Read what a list or a watch asks for."""
    query = call.http.query
    initial = query.get("sendInitialEvents")
    integer(query.get("timeoutSeconds"))
    asked = reading.Query(
        target.namespace,
        query.get("labelSelector", ""),
        query.get("fieldSelector", ""),
        min(max(integer(query.get("limit")), 0), _MORE_THAN_ANYBODY_HAS),
        query.get("continue", ""),
        query.get("resourceVersion", ""),
        query.get("resourceVersionMatch", ""),
        truth(query.get("allowWatchBookmarks")),
        None if initial is None else truth(initial),
    )
    reading.check_query(asked, watching=call.info.verb == "watch")
    return asked


def integer(text: str | None) -> int:
    """Read a number as Kubernetes does; absent is 0."""
    if not text:
        return 0
    if not re.fullmatch(r"[+-]?[0-9]+", text, re.ASCII):
        raise errors.BadRequest(f"strconv.ParseInt: parsing {causes.quoted(text)}: invalid syntax")
    if len(text) > 20 or not -(2**63) <= int(text) < 2**63:
        raise errors.BadRequest(f"strconv.ParseInt: parsing {causes.quoted(text)}: value out of range")
    return int(text)


def write_request(call: Call, size: int, repeated: Sequence[str] = (), *, apply: bool = False) -> Request:
    """Read how a write shall be done. `size` is that of its body, `repeated` are the keys that it has twice."""
    query, kind = call.http.query, _OPTIONS.get(call.info.verb, "CreateOptions")
    manager, validation = query.get("fieldManager", ""), query.get("fieldValidation", "")
    dry_run = query.getall("dryRun", [])
    found = list(manager_errors(manager))
    if apply and not manager:
        found.append(causes.required("fieldManager", "is required for apply patch"))
    if validation not in ("", "Ignore", "Warn", "Strict"):
        found.append(causes.not_supported("fieldValidation", validation, ("", "Ignore", "Strict", "Warn")))
    found += _dry_run_errors(dry_run)
    if found:
        raise errors.invalid(kind, "meta.k8s.io", "", found)
    return Request(
        call.user,
        dry_run="All" in dry_run,
        field_manager=manager or _agent(call),
        field_validation=validation or "Warn",
        warnings=call.warnings,
        duplicate_fields=tuple(repeated) if validation != "Ignore" else (),
        annotations=call.annotations,
        size=size,
        # While somebody has a large body it is that user's turn already.
        beside=to_the_end if size > AT_ONCE else partial(beside, call),
    )


def _agent(call: Call) -> str:
    name = call.http.headers.get("User-Agent", "").split("/")[0]
    return "".join(filter(str.isprintable, name))[:128] or "unknown"


def _dry_run_errors(values: Sequence[str]) -> list[errors.Cause]:
    wrong = any(value not in ("All", "") for value in values)
    return [causes.not_supported("dryRun", list(values), ("All",))] if wrong else []


class _Preconditions(msgspec.Struct, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class _DeleteOptions(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    grace_period_seconds: int | None = None
    orphan_dependents: bool | None = None
    propagation_policy: str | None = None
    preconditions: _Preconditions | None = None
    dry_run: list[str] | None = None


def delete_options(call: Call, body: JSONObject) -> DeleteOptions:
    """Read how an object shall go, from the body or the address."""
    asked, query = _delete_body(body), call.http.query
    wanted = asked.preconditions or _Preconditions()
    grace, orphan = asked.grace_period_seconds, asked.orphan_dependents
    if grace is None and query.get("gracePeriodSeconds"):
        grace = integer(query["gracePeriodSeconds"])
    if orphan is None and "orphanDependents" in query:
        orphan = truth(query["orphanDependents"])
    propagation = asked.propagation_policy or query.get("propagationPolicy", "")
    dry_run = asked.dry_run or list(query.getall("dryRun", []))
    found = _dry_run_errors(dry_run)
    if orphan is not None and propagation:
        why = "orphanDependents and deletionPropagation cannot be both set"
        found.append(causes.invalid("propagationPolicy", propagation, why))
    if found:
        raise errors.invalid("DeleteOptions", "meta.k8s.io", "", found)
    if orphan is not None:
        propagation = "Orphan" if orphan else "Background"
    return DeleteOptions(
        Preconditions(wanted.uid or "", wanted.resource_version or ""), propagation, grace, "All" in dry_run
    )


def _delete_body(body: JSONObject) -> _DeleteOptions:
    kind = body.get("kind")
    if kind not in (None, "", "DeleteOptions"):
        raise errors.BadRequest(f"delete options expected, got {kind}")
    try:
        return msgspec.convert(body, _DeleteOptions)
    except msgspec.ValidationError as error:
        raise errors.BadRequest(f"json: cannot unmarshal DeleteOptions: {error}") from None


def format_of(call: Call, *, stream: bool = False) -> rendering.Format:
    """Read what form of answer the client takes."""
    form = rendering.negotiate(call.http.headers.get("Accept", ""), stream=stream)
    include = call.http.query.get("includeObject")
    if not include or form.shape != "Table":
        return form
    if include not in ("None", "Metadata", "Object"):
        found = causes.invalid("includeObject", include, "must be 'Metadata', 'Object', 'None', or empty")
        raise errors.BadRequest(f"Unable to convert to Table as requested: {found}")
    return rendering.Format(form.media_type, form.shape, include)


def time_limit(call: Call) -> float:
    """Return how many seconds a watch may last."""
    seconds = integer(call.http.query.get("timeoutSeconds"))
    if seconds == 0:
        return _WATCH_SECONDS * (1 + random.random())  # noqa: S311 - spreads load, keeps no secret
    return float(max(seconds, 0))
