"""An object goes only if it is the very one that was recorded, and nobody else's."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from echelon.api.work import AppliedResource, ManifestResourceMeta
from echelon.engine.work.removal import (
    RemovalAction,
    decide_removal,
    merged_resources,
    resource_key_of,
    split_by_wanted,
)

RECORD = "work.open-cluster-management.io/v1"


def owner(uid: str, kind: str = "AppliedManifestWork", api_version: str = RECORD) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "name": uid, "uid": uid}


def live(*owners: dict[str, Any], uid: str = "u", **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x", "uid": uid, "ownerReferences": list(owners), **meta}}


def resource(name: str = "x", uid: str = "u", **more: Any) -> AppliedResource:
    return AppliedResource(**{"version": "v1", "resource": "things", "name": name, "uid": uid, **more})


def meta(name: str, resource_name: str = "things", group: str = "", namespace: str = "") -> ManifestResourceMeta:
    return ManifestResourceMeta(
        ordinal=0, group=group, version="v1", kind="Thing", resource=resource_name, name=name, namespace=namespace
    )


MINE = owner("mine")


def test_only_our_own_object_is_deleted() -> None:
    assert decide_removal(resource(), live(MINE), MINE).action is RemovalAction.DELETE
    assert decide_removal(resource(uid=""), live(MINE), MINE).action is RemovalAction.DELETE
    assert decide_removal(resource(), None, MINE).action is RemovalAction.FORGET
    assert decide_removal(resource(), live(), MINE).action is RemovalAction.FORGET
    assert decide_removal(resource(), live(owner("theirs")), MINE).action is RemovalAction.FORGET
    assert decide_removal(resource(uid="another"), live(MINE), MINE).action is RemovalAction.FORGET
    assert (
        decide_removal(resource(), live(MINE, deletionTimestamp="2026-01-01T00:00:00Z"), MINE).action
        is RemovalAction.WAIT
    )


def test_an_object_of_another_work_is_only_disowned() -> None:
    shared = decide_removal(resource(), live(owner("theirs"), MINE), MINE)
    assert (shared.action, shared.owners) == (RemovalAction.DISOWN, (owner("theirs"),))


def test_owners_of_other_kinds_do_not_keep_an_object() -> None:
    deployment = owner("d", "Deployment", "apps/v1")
    impostor = owner("i", api_version="example.io/v1")
    assert decide_removal(resource(), live(deployment, impostor, MINE), MINE).action is RemovalAction.DELETE


def test_an_object_whose_kind_is_unknown_now_is_not_taken_for_a_leftover() -> None:
    kept, dropped = split_by_wanted([resource("a"), resource("b")], [meta("a", "")])
    assert ([each.name for each in kept], [each.name for each in dropped]) == (["a"], ["b"])


def test_another_version_of_a_wanted_object_is_wanted() -> None:
    kept, dropped = split_by_wanted([resource("a", version="v1beta1")], [meta("a")])
    assert (len(kept), dropped) == (1, [])


NAMES = st.sampled_from("abc")
RESOURCES = st.builds(
    AppliedResource,
    group=st.sampled_from(["", "apps"]),
    version=st.sampled_from(["v1", "v2"]),
    resource=st.sampled_from(["things", "others"]),
    name=NAMES,
    namespace=st.sampled_from(["", "n"]),
    uid=NAMES,
)
METAS = st.builds(
    meta, NAMES, st.sampled_from(["things", "others", ""]), st.sampled_from(["", "apps"]), st.sampled_from(["", "n"])
)


@given(st.lists(RESOURCES), st.lists(METAS))
def test_nothing_that_is_wanted_is_ever_a_leftover(listed: list[AppliedResource], wanted: list[Any]) -> None:
    kept, dropped = split_by_wanted(listed, wanted)
    assert sorted([*kept, *dropped], key=repr) == sorted(listed, key=repr)
    assert not {resource_key_of(each) for each in dropped} & {resource_key_of(each) for each in wanted}
    known = {resource_key_of(each) for each in wanted}
    vague = {(each.group, each.name) for each in wanted if not each.resource}
    assert all(resource_key_of(each) in known or (each.group, each.name) in vague for each in kept)


@given(st.lists(RESOURCES))
def test_a_record_lists_each_object_once_and_always_in_the_same_order(listed: list[AppliedResource]) -> None:
    made = merged_resources(listed)
    assert len({resource_key_of(each) for each in made}) == len(made)
    assert {resource_key_of(each) for each in made} == {resource_key_of(each) for each in listed}
    assert merged_resources(made[::-1]) == made


OWNERS = st.lists(st.sampled_from([MINE, owner("theirs"), owner("d", "Deployment", "apps/v1")]), unique_by=str)


@given(OWNERS, NAMES, NAMES, st.booleans())
def test_what_is_deleted_is_ours_alone(owners: list[Any], uid: str, known: str, ending: bool) -> None:
    there = live(*owners, uid=uid, **({"deletionTimestamp": "now"} if ending else {}))
    decided = decide_removal(resource(uid=known), there, MINE)
    if decided.action is RemovalAction.DELETE:
        assert MINE in owners
        assert owner("theirs") not in owners
        assert known == uid
        assert not ending
    if decided.action is RemovalAction.DISOWN:
        assert list(decided.owners) == [each for each in owners if each != MINE]


def test_of_two_entries_that_name_different_objects_neither_is_named() -> None:
    assert merged_resources([resource(uid="old"), resource(uid="new")]) == [resource(uid="")]
    assert merged_resources([resource(uid="old"), resource(uid="old")]) == [resource(uid="old")]
    assert merged_resources([resource(uid=""), resource(uid="old")]) == [resource(uid="")]
