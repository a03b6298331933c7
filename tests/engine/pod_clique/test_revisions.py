"""What is stored of a set: what is hashed, as the user gave it, for as long as somebody needs it."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from echelon.api.base import JSONObject
from echelon.api.grove import POD_CLIQUE_SET
from echelon.engine.plan import Create, Delete, Patch
from echelon.engine.pod_clique.accepting import NotAccepted, accept
from echelon.engine.pod_clique.children import clique_body, owner_of
from echelon.engine.pod_clique.revisions import (
    LIMIT,
    LIMIT_IN_USE,
    CannotUndo,
    SetRevision,
    find_aliases,
    newest,
    numbers,
    present,
    prune,
    read_revision,
    store,
    undo,
)
from echelon.engine.pod_clique.shape import expected
from tests.engine.pod_clique.sets import IMAGE, a_set, clique, pods, sets, spec_of, stored


def version(number: int, **more: Any) -> JSONObject:
    return a_set(clique("a", pod_spec=pods(f"registry.example/c:{number}")), clique("b"), **more)


def history(*bodies: JSONObject) -> tuple[SetRevision, ...]:
    """Return the revisions after a set has had these contents, one after the other."""
    found: list[SetRevision] = []
    for body in bodies:
        for write in store(body, spec_of(body), found):
            if isinstance(write, Create):
                found.append(stored(write, uid=write.name))
            else:
                assert isinstance(write, Patch)
                found = [
                    replace(each, number=write.body["revision"]) if each.name == write.name else each for each in found
                ]
    return tuple(found)


def test_a_content_is_stored_with_its_hashes_and_belongs_to_the_set() -> None:
    body = version(1, priorityClassName="high")
    spec = spec_of(body)
    [write] = store(body, spec, ())
    assert isinstance(write, Create)
    assert write.name == f"w-{spec.generation_hash}"
    assert write.body["revision"] == 1
    assert [each["uid"] for each in write.body["metadata"]["ownerReferences"]] == ["uid-of-w"]
    revision = stored(write)
    assert (revision.generation_hash, revision.hashes) == (spec.generation_hash, spec.hashes)
    assert revision.minimums == {"a": 1, "b": 1}
    # Only what is hashed: neither sizes nor names of roles.
    assert revision.template["priorityClassName"] == "high"
    assert [each.keys() for each in revision.template["cliques"]] == [{"name", "spec"}, {"name", "spec"}]
    assert all(each["spec"].keys() == {"podSpec"} for each in revision.template["cliques"])


def test_a_content_that_is_stored_is_not_stored_again() -> None:
    body = version(1)
    assert store(body, spec_of(body), history(body)) == ()
    resized = version(1, replicas=5)
    assert store(resized, spec_of(resized), history(body)) == ()


def test_an_older_content_that_is_wanted_again_becomes_the_newest() -> None:
    one, two = version(1), version(2)
    found = history(one, two, one)
    assert len(found) == 2
    assert newest(found) == present(found, spec_of(one).generation_hash)
    assert sorted(each.number for each in found) == [2, 3]


def test_which_of_two_templates_is_older_is_known_by_the_newest_revision_that_has_it() -> None:
    # The template of b is in all of them, that of the first a comes back.
    one, two = version(1), version(2)
    known = numbers(history(one, two, one))
    first, second = spec_of(one).hashes["a"], spec_of(two).hashes["a"]
    assert known["a", first] > known["a", second]
    assert known["b", spec_of(one).hashes["b"]] == 3


def deleted(found: Sequence[SetRevision], in_use: Sequence[tuple[str, str]] = ()) -> list[int]:
    body = version(len(found))
    gone = []
    for write in prune(body, spec_of(body), found, in_use):
        assert isinstance(write, Delete)
        [revision] = [each for each in found if each.name == write.name]
        assert write.uid == revision.uid
        gone.append(revision.number)
    return sorted(gone)


def test_ten_revisions_are_kept() -> None:
    assert deleted(history(*map(version, range(1, LIMIT + 1)))) == []
    assert deleted(history(*map(version, range(1, LIMIT + 4)))) == [1, 2, 3]


def test_revisions_that_pods_run_are_kept() -> None:
    found = history(*map(version, range(1, LIMIT + 4)))
    in_use = ("a", spec_of(version(2)).hashes["a"])
    assert deleted(found, [in_use]) == [1, 3]
    # The template of b is that of the newest as well, which stays anyway.
    assert deleted(found, [("b", spec_of(version(1)).hashes["b"])]) == [1, 2, 3]


def test_no_more_than_fifty_are_kept_whatever_pods_run() -> None:
    every = range(1, LIMIT_IN_USE + 11)
    in_use = [("a", spec_of(version(number)).hashes["a"]) for number in every]
    assert deleted(history(*map(version, every)), in_use) == list(range(1, 11))


def test_the_present_revision_is_kept_even_before_it_has_become_the_newest() -> None:
    found = history(*map(version, range(1, LIMIT + 3)))
    first = version(1)
    assert all(write.name != found[0].name for write in prune(first, spec_of(first), found, ()))


# --- undo -------------------------------------------------------------------------------------------------------------


def patched(body: JSONObject, operations: list[JSONObject]) -> JSONObject:
    found = copy.deepcopy(body)
    for operation in operations:
        *path, last = operation["path"].split("/")[1:]
        at: Any = found
        for step in path:
            at = at[int(step)] if isinstance(at, list) else at[step]
        if operation["op"] == "test":
            assert at[last] == operation["value"]
        elif operation["op"] == "remove":
            del at[last]
        else:
            at[last] = copy.deepcopy(operation["value"])
    return found


@given(sets(), sets())
def test_undo_brings_back_what_is_hashed_and_nothing_else(old: JSONObject, new: JSONObject) -> None:
    before, after = accept(old, (), IMAGE), accept(new, (), IMAGE)
    if isinstance(before, NotAccepted) or isinstance(after, NotAccepted):
        return
    revision = stored(store(old, before.spec, ())[0])
    if before.spec.clique.keys() != after.spec.clique.keys():
        with pytest.raises(CannotUndo):
            undo(new, revision)
        return
    back = patched(new, undo(new, revision))
    found = accept(back, (), IMAGE)
    assert not isinstance(found, NotAccepted)
    members = [each.group for each in before.spec.cliques] == [each.group for each in after.spec.cliques]
    if members:  # variables of a group are a clique's own outside of one
        assert found.spec.generation_hash == before.spec.generation_hash
    assert [each.replicas for each in found.spec.cliques] == [each.replicas for each in after.spec.cliques]
    assert (found.spec.replicas, found.spec.groups) == (after.spec.replicas, after.spec.groups)
    assert undo(back, revision) == []


def test_undo_takes_away_what_came_later() -> None:
    body = version(1)
    [revision] = history(body)
    later = version(1, priorityClassName="high")
    later["spec"]["template"]["cliques"][1]["labels"] = {"x": "y"}
    assert undo(later, revision) == [
        {"op": "remove", "path": "/spec/template/priorityClassName"},
        {"op": "test", "path": "/spec/template/cliques/1/name", "value": "b"},
        {"op": "remove", "path": "/spec/template/cliques/1/labels"},
    ]


def test_undo_finds_cliques_by_name() -> None:
    [revision] = history(version(1))
    reordered = version(2)
    reordered["spec"]["template"]["cliques"].reverse()
    back = patched(reordered, undo(reordered, revision))
    assert spec_of(back).generation_hash == spec_of(version(1)).generation_hash


# --- hashes of somebody else ------------------------------------------------------------------------------------------


def taken_over(body: JSONObject, *, label: str = "5f6d8") -> dict[str, tuple[str, ...]]:
    """Return what is found of a set whose PodCliques Grove has made from `version(1)`."""
    grove = version(1)
    spec = spec_of(grove)
    cliques = []
    for wanted in expected(spec, "w", {}, {}).cliques:
        made = clique_body(grove, spec, wanted, owner_of(POD_CLIQUE_SET, grove))
        made["metadata"]["labels"]["grove.io/pod-template-hash"] = f"{label}{wanted.key.clique}"
        del made["metadata"]["annotations"]
        cliques.append((wanted.key, made))
    return find_aliases(spec_of(body), cliques)


def test_pods_of_grove_with_the_wanted_content_are_not_outdated() -> None:
    body = version(1)
    aliases = taken_over(body)
    assert aliases == {"a": ("5f6d8a",), "b": ("5f6d8b",)}
    revision = stored(store(body, spec_of(body), (), aliases)[0])
    found = numbers([revision])
    assert all(found[clique, own] == 1 for clique, own in spec_of(body).hashes.items())
    assert found["a", "5f6d8a"] == found["b", "5f6d8b"] == 1


def test_pods_of_grove_with_another_content_are() -> None:
    assert taken_over(version(2)) == {"b": ("5f6d8b",)}


def test_our_own_hashes_are_no_aliases() -> None:
    assert taken_over(version(1), label="e1-") == {}


def test_an_alias_that_is_found_later_is_noted_on_the_revision_and_once() -> None:
    body = version(1)
    [revision] = history(body)
    [write] = store(body, spec_of(body), [revision], {"a": ("x",)})
    assert isinstance(write, Patch)
    noted = {**revision.aliases, "a": ("x",)}
    assert store(body, spec_of(body), [replace(revision, aliases=noted)], {"a": ("x",)}) == ()
    [more] = store(body, spec_of(body), [replace(revision, aliases=noted)], {"a": ("y",)})
    assert isinstance(more, Patch)
    assert more.body["metadata"]["annotations"] == {"echelon.dev/foreign-hashes": '{"a":["x","y"]}'}


def test_a_minimum_is_noted_on_the_revision_when_it_shrinks() -> None:
    body = a_set(clique("a", 3))
    [revision] = history(body)
    smaller = a_set(clique("a", 2))
    [write] = store(smaller, spec_of(smaller, revision), [revision])
    assert isinstance(write, Patch)
    assert write.body == {"metadata": {"annotations": {"echelon.dev/min-available": '{"a":2}'}}}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"data": None},
        {"data": {"spec": {"template": {"cliques": "x"}}}},
        {"data": {"spec": {"template": {"cliques": []}}}, "metadata": {"annotations": {}}},
    ],
)
def test_a_revision_that_holds_nothing_is_none(body: JSONObject) -> None:
    assert read_revision(body) is None


@pytest.mark.parametrize("noted", ["", "{", "[]", "null", '{"a": 5}'])
def test_notes_that_cannot_be_read_are_no_notes(noted: str) -> None:
    body = version(1)
    [write] = store(body, spec_of(body), ())
    assert isinstance(write, Create)
    broken = copy.deepcopy(write.body)
    for name in ("foreign-hashes", "pod-template-hashes", "min-available"):
        broken["metadata"]["annotations"][f"echelon.dev/{name}"] = noted
    revision = read_revision(broken)
    assert revision is not None
    assert revision.aliases == {}
