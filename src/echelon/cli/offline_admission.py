"""What a hub with Echelon's own definitions would make of an object: schemas, defaults, rules, and no server."""

from functools import cache
from random import Random
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.crd import crd
from echelon.api.json_equality import is_same
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.cli.change_admission import content_of
from echelon.hub.access.identity import ADMINISTRATOR, AUTHENTICATED, MASTERS, User
from echelon.hub.catalogue.resources import Resource, builtin_resources, custom_resources
from echelon.hub.cluster import LogicalCluster
from echelon.hub.kinds.builtin import strategy_of
from echelon.hub.storage.store import Store
from echelon.hub.verbs.admission import Request, Target, admit_body, validate

_ROOT = User(ADMINISTRATOR, (MASTERS, AUTHENTICATED))


def admit_offline(kind: Kind[Any], key: Key, before: JSONObject | None, after: JSONObject) -> JSONObject:
    """Return an object as it would be stored. Raises `ApiError`."""
    resource = _resource(kind)
    admitted = admit_body(resource, after, Request(_ROOT, field_validation="Ignore"))
    if kind.builtin:  # some of its defaults depend on other fields, and are in no schema
        strategy = strategy_of(resource)
        if before is None:
            strategy.prepare_create(_nowhere(), admitted, _ROOT)
        else:
            strategy.prepare_update(_nowhere(), admitted, before, _ROOT)
    validate(Target(resource, key.namespace, key.name), admitted, before)
    meta = admitted["metadata"]
    old = before["metadata"] if before is not None else {}
    changed = before is None or not is_same(content_of(before), content_of(admitted))
    meta["generation"] = old.get("generation", 0) + changed
    meta.setdefault("uid", old.get("uid") or f"planned-{kind.singular}-{key.namespace}-{key.name}")
    if status := (before or {}).get("status"):
        admitted["status"] = status
    return admitted


@cache
def _nowhere() -> LogicalCluster:
    """Return a cluster that has nothing, for habits of kinds that ask for the time or a name."""
    return LogicalCluster("", Store(None, "", keep_objects=True), random=Random(0))  # noqa: S311 - nothing is secret


@cache
def _resource(kind: Kind[Any]) -> Resource:
    if kind.builtin:
        return next(each for each in builtin_resources() if each.kind == kind)
    return next(each for each in custom_resources(crd(kind)) if each.kind.version == kind.version)
