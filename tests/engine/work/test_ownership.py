"""Owners are added and taken away one by one, and never those of others."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from echelon.api.manifest_config import DeleteOption, ResourceIdentifier, SelectivelyOrphan
from echelon.api.work import ManifestResourceMeta
from echelon.engine.work.ownership import owned_by_work, owners_after, with_owner, without_owner

META = ManifestResourceMeta(ordinal=0, group="apps", version="v1", resource="deployments", name="web", namespace="n")


def owner(uid: str, name: str = "o") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Thing", "name": name, "uid": uid}


def orphaning(**fields: str) -> DeleteOption:
    rule = ResourceIdentifier(**{"group": "apps", "resource": "deployments", "name": "web", "namespace": "n", **fields})
    return DeleteOption(
        propagation_policy="SelectivelyOrphan", selectively_orphans=SelectivelyOrphan(orphaning_rules=[rule])
    )


def test_objects_belong_to_their_work_unless_the_option_says_otherwise() -> None:
    assert owned_by_work(None, META)
    assert owned_by_work(DeleteOption(), META)
    assert not owned_by_work(DeleteOption(propagation_policy="Orphan"), META)
    assert not owned_by_work(orphaning(), META)
    assert owned_by_work(DeleteOption(propagation_policy="SelectivelyOrphan"), META)


def test_orphaning_rules_match_exactly() -> None:
    for field in ("group", "resource", "name", "namespace"):
        assert owned_by_work(orphaning(**{field: "other"}), META)
    assert owned_by_work(orphaning(name="*"), META)


OWNERS = st.lists(st.builds(owner, st.sampled_from("abcd")), unique_by=lambda each: each["uid"])


@given(OWNERS, st.sampled_from("abcd"), st.booleans())
def test_only_our_own_reference_changes(before: list[dict[str, Any]], uid: str, keep: bool) -> None:
    mine = owner(uid, "renamed")
    after = owners_after({"metadata": {"ownerReferences": before}}, mine, keep=keep)
    assert [each for each in after if each["uid"] != uid] == [each for each in before if each["uid"] != uid]
    assert [each for each in after if each["uid"] == uid] == ([mine] if keep else [])
    assert with_owner(with_owner(before, mine), mine) == with_owner(before, mine)
    assert without_owner(with_owner(before, mine), mine) == without_owner(before, mine)
