"""Definitions of policies: Echelon's, upstream's, and what is in between."""

from copy import deepcopy
from functools import cache

from echelon.api.base import JSONObject
from echelon.api.crd import crd
from echelon.api.policy import POLICY
from echelon.engine.policy.kept_fields import OWN_FIELDS


@cache
def _ours() -> JSONObject:
    return crd(POLICY)


def ours() -> JSONObject:
    return deepcopy(_ours())


def schema_of(definition: JSONObject) -> JSONObject:
    schema: JSONObject = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def remove(definition: JSONObject, path: str) -> None:
    """Take a field out of a definition, as upstream's does not have it."""
    *parents, last = path.split(".")
    schema = schema_of(definition)
    for name in parents:
        schema = schema["properties"][name.removesuffix("[]")]
        schema = schema["items"] if name.endswith("[]") else schema
    del schema["properties"][last]


def upstream() -> JSONObject:
    definition = ours()
    for path in OWN_FIELDS:
        remove(definition, path)
    return definition
