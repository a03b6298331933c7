"""Custom resource definitions and admission policies, each where a capability that is asked for needs it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from echelon.api import guards, multicluster, registry
from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.install.template import AllOf, AnyOf, Condition, Node, When

# Definitions outlive the release that brought them: with a definition go all objects of its kind.
_KEPT = {"helm.sh/resource-policy": "keep"}


def definitions(needed: Mapping[str, Iterable[Kind[Any]]], wanted: Condition) -> list[Node]:
    """Return the definitions that capabilities need; those of the capability "" are always needed."""
    by_name = {
        each["metadata"]["name"]: each for each in (*registry.crds(), *registry.collect(multicluster.KINDS).crds())
    }
    users: dict[str, list[str]] = {}
    for capability, kinds in needed.items():
        for kind in kinds:
            users.setdefault(kind.resource, []).append(capability)
    return [When(_condition(wanted, who), _kept(by_name[name])) for name, who in sorted(users.items())]


def admission_policies(needed: Mapping[str, Iterable[Kind[Any]]], wanted: Condition) -> list[Node]:
    """Return the policies about these kinds, with their bindings."""
    found: list[Node] = []
    seen: set[str] = set()
    for capability, kinds in needed.items():
        guarded = [kind.resource for kind in kinds if kind.resource not in seen]
        seen.update(guarded)
        found += [When(_condition(wanted, [capability]), _copied(each)) for each in guards.guards(*guarded)]
    return found


def _condition(wanted: Condition, users: Sequence[str]) -> Condition:
    if "" in users:
        return wanted
    return AllOf((wanted, users[0] if len(users) == 1 else AnyOf(tuple(users))))


def _kept(document: JSONObject) -> JSONObject:
    copied = _copied(document)
    copied["metadata"].setdefault("annotations", {}).update(_KEPT)
    return copied


def _copied(document: JSONObject) -> JSONObject:
    read: JSONObject = json.loads(json.dumps(document))
    return read
