"""Admission looks only at what a patch touched, and once at what many new objects have; and nobody may notice."""

import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.base import JSONObject
from echelon.api.coordination import LEASE
from echelon.hub.catalogue.resources import Resource, builtin_resources, custom_resources
from echelon.hub.server import ROOT
from echelon.hub.verbs.admission import Request, Target, admit_body, validate
from echelon.hub.verbs.patch import merge_patch
from echelon.kube.errors import ApiError, Invalid
from tests.examples import examples

_PART: JSONObject = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "default": 3},
        "note": {"type": "string", "nullable": True},
        "parts": {
            "type": "array",
            "items": {"type": "object", "properties": {"on": {"type": "boolean", "default": True}}},
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "named": {"type": "object", "additionalProperties": {"type": "string", "default": "x"}},
    },
}
_SCHEMA: JSONObject = {
    "type": "object",
    "properties": {"spec": _PART, "other": {**_PART, "default": {}}, "status": _PART},
}
_WIDGET = custom_resources(
    {
        "spec": {
            "group": "example.com",
            "names": {"kind": "Widget", "plural": "widgets"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": _SCHEMA}}],
        }
    }
)[0]
_LEASE = next(found for found in builtin_resources() if found.kind.plural == LEASE.plural)

_values = st.one_of(st.none(), st.booleans(), st.integers(0, 5), st.text("ab", max_size=2))
_parts = st.fixed_dictionaries(
    {},
    optional={
        "size": _values,
        "note": _values,
        "parts": st.lists(st.dictionaries(st.sampled_from(("on", "off")), _values, max_size=2), max_size=2),
        "free": st.dictionaries(st.sampled_from(("a", "b")), _values, max_size=2),
        "named": st.dictionaries(st.sampled_from(("a", "b")), _values, max_size=2),
        "unknown": _values,
    },
)
_metadata = st.fixed_dictionaries(
    {},
    optional={
        "labels": st.dictionaries(
            st.sampled_from(("a", "b")), st.one_of(st.none(), st.text("ab", max_size=2)), max_size=2
        ),
        "finalizers": st.lists(st.sampled_from(("x/a", "x/b")), max_size=2),
        "resourceVersion": st.sampled_from(("1", "2")),
        "wrong": _values,
    },
)
_widgets = st.fixed_dictionaries(
    {}, optional={"spec": _parts, "other": _parts, "status": _parts, "metadata": _metadata, "unknown": _values}
)


def admitted(resource: Resource, body: object, **known: Any) -> tuple[object, list[str]]:
    """Return what becomes of a body, and the warnings."""
    request = Request(ROOT, warnings=[])
    try:
        return admit_body(resource, body, request, **known), request.warnings
    except ApiError as error:
        return str(error), request.warnings


@examples(300)
@given(_widgets, _widgets)
def test_a_patched_object_is_admitted_as_if_nothing_were_known_of_it(body: JSONObject, patch: JSONObject) -> None:
    kind = _WIDGET.kind
    named = {**body, "apiVersion": kind.api_version, "kind": kind.kind}
    before = admit_body(_WIDGET, {**named, "metadata": {"name": "w", **body.get("metadata", {})}}, Request(ROOT))
    untouched = copy.deepcopy(before)
    changed = merge_patch(before, patch)
    assert admitted(_WIDGET, changed, admitted=before) == admitted(_WIDGET, copy.deepcopy(changed))
    assert before == untouched


@given(_metadata, st.one_of(_values, st.fixed_dictionaries({}, optional={"renewTime": _values, "unknown": _values})))
def test_a_patched_object_of_a_built_in_kind_is_too(metadata: JSONObject, spec: object) -> None:
    body = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": {"name": "l"}}
    before = admit_body(_LEASE, {**body, "spec": {"holderIdentity": "a"}}, Request(ROOT))
    changed = merge_patch(before, {"metadata": metadata, "spec": spec})
    assert admitted(_LEASE, changed, admitted=before) == admitted(_LEASE, copy.deepcopy(changed))


def test_what_a_patch_leaves_alone_is_not_copied() -> None:
    kind = _WIDGET.kind
    spec: JSONObject = {"parts": [{}]}
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "w"}, "spec": spec}
    before = admit_body(_WIDGET, body, Request(ROOT))
    after = admit_body(_WIDGET, merge_patch(before, {"status": {"size": 1}}), Request(ROOT), admitted=before)
    assert after["spec"] is before["spec"]
    assert after["spec"] is not spec


_RULED: JSONObject = {
    "type": "object",
    "x-kubernetes-validations": [{"rule": "self.metadata.name != 'odd' || self.spec.size % 2 == 1"}],
    "properties": {
        "spec": {**_PART, "required": ["size"], "x-kubernetes-validations": [{"rule": "self.size < 4"}]},
        "other": {**_PART, "x-kubernetes-validations": [{"rule": "has(self.note)"}]},
    },
}


@examples(200)
@given(st.lists(st.tuples(st.sampled_from(("odd", "any")), _widgets, st.booleans()), min_size=2, max_size=8))
def test_a_new_object_is_judged_as_if_it_were_the_first(sent: list[tuple[str, JSONObject, bool]]) -> None:
    resource = replace(_WIDGET, schema=_RULED)
    kind = resource.kind
    bodies = [
        {**body, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}}
        for name, body, _ in sent
    ]
    bodies += [copy.deepcopy(body) for body, (_, _, again) in zip(bodies, sent, strict=True) if again]
    for body in bodies:
        before = copy.deepcopy(body)
        assert judged(resource, body) == judged(replace(resource), body)
        assert body == before


def judged(resource: Resource, body: JSONObject) -> object:
    """Return what becomes of a new object, and why it is refused if it is."""
    found = admitted(resource, body)
    if not isinstance(obj := found[0], dict):
        return found
    obj["metadata"] |= {"namespace": "default"}
    try:
        validate(Target(resource, "default"), obj, None)
    except ApiError as error:
        return found, error.details
    return found


def test_what_many_new_objects_have_is_looked_at_once() -> None:
    resource = replace(_WIDGET, schema=_RULED)
    kind = resource.kind
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "spec": {"parts": [{}], "size": 1}}
    one, two = (admit_body(resource, {**body, "metadata": {"name": name}}, Request(ROOT)) for name in ("a", "b"))
    assert one["spec"] is two["spec"]
    assert one["metadata"]["name"] == "a"


def test_a_field_is_not_taken_for_another_with_the_same_content() -> None:
    resource = replace(_WIDGET, schema=_RULED)
    kind = resource.kind
    named = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "a", "namespace": "default"}}
    part = {"size": 1}
    good = admit_body(resource, {**named, "spec": part}, Request(ROOT))
    validate(Target(resource, "default"), good, None)
    bad = admit_body(resource, {**named, "spec": part, "other": part}, Request(ROOT))
    with pytest.raises(Invalid, match=r"has\(self.note\)"):
        validate(Target(resource, "default"), bad, None)
