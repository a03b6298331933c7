"""What holds for every row of writes."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from echelon.api.base import JSON, JSONObject
from echelon.hub.apply import FieldSet, apply, changed, field_set_of, track_update
from echelon.kube.errors import Conflict

# The machine may be busy; no example is slow.
stories = examples(60)

small = st.integers(1, 3)
words = st.sampled_from(["p", "q", "r"])
raw = st.recursive(
    st.one_of(small, words, st.booleans()),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(words, inner, max_size=2)),
    max_leaves=4,
)


def optional(**parts: st.SearchStrategy[Any]) -> st.SearchStrategy[JSONObject]:
    return st.fixed_dictionaries({}, optional=parts)


def specs(names: st.SearchStrategy[str]) -> st.SearchStrategy[JSONObject]:
    """Specs whose items and entries have these names. An empty list of items states nothing, so there is none."""
    ports = st.lists(
        st.fixed_dictionaries({"port": small}, optional={"protocol": st.sampled_from(["TCP", "UDP"]), "name": words}),
        min_size=1,
        max_size=2,
        unique_by=lambda port: (port["port"], port.get("protocol", "TCP")),
    )
    container = st.fixed_dictionaries({"name": names}, optional={"image": words, "ports": ports})
    return optional(
        containers=st.lists(container, min_size=1, max_size=3, unique_by=lambda item: item["name"]),
        zones=st.lists(names, min_size=1, max_size=3, unique=True),
        regions=st.dictionaries(names, optional(weight=small, tier=words), max_size=2),
        raw=st.dictionaries(names, raw, max_size=2),
    )


own = optional(
    replicas=small,
    paused=st.booleans(),
    maxSurge=st.one_of(small, words),
    selector=st.dictionaries(words, words, max_size=2),
    strategy=optional(type=words, rolling=optional(surge=small, unavailable=small)),
    args=st.lists(words, max_size=2),
)


def configs(names: st.SearchStrategy[str] = words, alone: bool = True) -> st.SearchStrategy[JSONObject]:
    everything = st.tuples(own, specs(names)).map(lambda pair: {**pair[0], **pair[1]})
    labels = st.dictionaries(names, words, max_size=2)
    return st.tuples(everything if alone else specs(names), labels).map(
        lambda parts: {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            # Everybody wants something: an object without any owner is a story of its own.
            "metadata": {"name": "web", "labels": {"app": "web", **parts[1]}},
            **({"spec": parts[0]} if parts[0] else {}),
        }
    )


def by(manager: str, **how: Any) -> JSONObject:
    return {"manager": manager, "api_version": "apps/v1", "subresource": "", "now": "2026-01-01T00:00:00Z", **how}


def updated(old: JSONObject | None, new: JSONObject, schema: JSONObject, manager: str) -> JSONObject:
    entries = track_update(old, new, schema, **by(manager))
    return {**new, "metadata": {**new["metadata"], "managedFields": entries}}


writes = st.lists(
    st.tuples(st.sampled_from(["ann", "bob", "cat"]), st.sampled_from(["apply", "update"]), configs()),
    min_size=1,
    max_size=4,
)


def told(rows: list[tuple[str, str, JSONObject]], schema: JSONObject) -> JSONObject:
    """Return the object after a row of writes, each of them forced."""
    live: JSONObject | None = None
    for manager, verb, config in rows:
        if verb == "apply":
            live = apply(live, config, schema, **by(manager, force=True))
        else:
            live = updated(live, config, schema, manager)
    assert live is not None
    return live


def includes(whole: JSON, part: JSON) -> bool:
    """Tell, without a schema, whether everything that a configuration says can be found in an object."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(key in whole and includes(whole[key], part[key]) for key in part)
    if isinstance(part, list):
        return isinstance(whole, list) and all(any(includes(item, wanted) for item in whole) for wanted in part)
    return type(whole) is type(part) and bool(whole == part)


def regardless_of_order(value: JSON) -> JSON:
    if isinstance(value, dict):
        return {key: regardless_of_order(value[key]) for key in sorted(value) if key != "managedFields"}
    if isinstance(value, list):
        return sorted((regardless_of_order(item) for item in value), key=lambda item: json.dumps(item, sort_keys=True))
    return value


@stories
@given(rows=writes, config=configs())
def test_a_forced_apply_never_fails_and_is_what_was_asked_for(
    rows: list[tuple[str, str, JSONObject]], config: JSONObject, schema: JSONObject
) -> None:
    result = apply(told(rows, schema), config, schema, **by("ann", force=True))
    assert includes(result, config)
    entries = {e["manager"]: e for e in result["metadata"]["managedFields"] if e["operation"] == "Apply"}
    mine = FieldSet.from_fields_v1(entries["ann"]["fieldsV1"]) if "ann" in entries else FieldSet()
    assert mine == field_set_of(config, schema)


@stories
@given(rows=writes, config=configs())
def test_applying_twice_is_applying_once(
    rows: list[tuple[str, str, JSONObject]], config: JSONObject, schema: JSONObject
) -> None:
    once = apply(told(rows, schema), config, schema, **by("ann", force=True))
    again = apply(once, config, schema, **by("ann", force=False, now="2026-02-02T00:00:00Z"))
    assert again == once


@stories
@given(rows=writes, config=configs())
def test_inputs_are_never_modified(
    rows: list[tuple[str, str, JSONObject]], config: JSONObject, schema: JSONObject
) -> None:
    live = told(rows, schema)
    before = copy.deepcopy((live, config))
    apply(live, config, schema, **by("ann", force=True))
    track_update(live, config, schema, **by("bob"))
    assert (live, config) == before


@stories
@given(rows=writes, config=configs())
def test_a_newcomer_changes_only_what_it_mentions(
    rows: list[tuple[str, str, JSONObject]], config: JSONObject, schema: JSONObject
) -> None:
    live = told(rows, schema)
    result = apply(live, config, schema, **by("newcomer", force=True))
    changes, removals = changed(live, result, schema)
    # A map that appears on the way to a field is not stated, and a value that becomes a map loses what it was.
    stated = field_set_of(config, schema)
    unasked = [path for path in (changes - stated).paths() if not any(p[: len(path)] == path for p in stated.paths())]
    assert unasked == []
    assert all(any(gone[: len(p)] == p for p in stated.paths()) for gone in removals.paths())


@stories
@given(rows=writes, config=configs())
def test_a_conflict_names_exactly_what_force_would_take(
    rows: list[tuple[str, str, JSONObject]], config: JSONObject, schema: JSONObject
) -> None:
    live = told(rows, schema)
    forced = apply(live, config, schema, **by("newcomer", force=True))
    changes, _ = changed(live, forced, schema)
    owned = FieldSet()
    for entry in live["metadata"]["managedFields"]:
        owned |= FieldSet.from_fields_v1(entry["fieldsV1"])
    contested = set(owned & changes)
    if not contested:
        assert apply(live, config, schema, **by("newcomer", force=False)) == forced
        return
    with pytest.raises(Conflict) as conflict:
        apply(live, config, schema, **by("newcomer", force=False))
    assert {cause["field"] for cause in conflict.value.details["causes"]} == contested


@stories
@given(first=configs(st.sampled_from(["a", "b"])), second=configs(st.sampled_from(["x", "y"]), alone=False))
def test_managers_that_want_different_things_may_come_in_any_order(
    first: JSONObject, second: JSONObject, schema: JSONObject
) -> None:
    def both(*turns: tuple[str, JSONObject]) -> JSON:
        live = None
        for manager, config in turns:
            live = apply(live, config, schema, **by(manager, force=False))
        return regardless_of_order(live)

    assert both(("ann", first), ("bob", second)) == both(("bob", second), ("ann", first))


@stories
@given(rows=st.lists(st.tuples(st.sampled_from(["ann", "bob", "cat"]), configs()), min_size=1, max_size=5))
def test_of_all_updaters_only_the_last_owns_a_field(rows: list[tuple[str, JSONObject]], schema: JSONObject) -> None:
    live: JSONObject | None = None
    for manager, new in rows:
        live = updated(live, new, schema, manager)
    owners = [FieldSet.from_fields_v1(entry["fieldsV1"]) for entry in (live or {})["metadata"]["managedFields"]]
    for index, fields in enumerate(owners):
        assert all((fields & other).is_empty for other in owners[index + 1 :])


@stories
@given(rows=writes)
def test_nobody_owns_what_is_not_there(rows: list[tuple[str, str, JSONObject]], schema: JSONObject) -> None:
    live = told(rows, schema)
    (entry,) = track_update(None, {**live, "metadata": {"labels": {"z": "z"}}}, schema, **by("all"))
    there = FieldSet.from_fields_v1(entry["fieldsV1"])
    for owner in live["metadata"]["managedFields"]:
        owned = FieldSet.from_fields_v1(owner["fieldsV1"]).without(FieldSet.of(("f:metadata",)))
        # A map that was emptied and filled again by others may still be somebody's.
        assert (owned - there).is_empty


@stories
@given(rows=writes)
def test_a_stored_entry_is_in_normal_form(rows: list[tuple[str, str, JSONObject]], schema: JSONObject) -> None:
    for entry in told(rows, schema)["metadata"]["managedFields"]:
        normal = FieldSet.from_fields_v1(entry["fieldsV1"]).to_fields_v1()
        assert json.dumps(entry["fieldsV1"]) == json.dumps(normal)
