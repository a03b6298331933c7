import json

import pytest
from msgspec.structs import replace

from echelon.engine.align.bounds import bounds_of
from echelon.engine.align.contract import Family
from echelon.engine.align.grant import Grant
from echelon.engine.align.ledger import BadLedger, Ledger
from echelon.engine.align.retire import Patience, next_retirement, observe
from tests.engine.align.notation import complete, entry, ledger, view
from tests.engine.align.world import World

V1, V2 = Grant(1, "v1", 10, 1), Grant(2, "v2", 10, 2)
D, C = Family.DEPLOYMENT, Family.CLONE_SET
PATIENCE = Patience(settle=5.0)


def test_a_ledger_is_the_same_after_it_was_stored() -> None:
    world = World("mix", 3)
    world.plan_soon()
    world.run_until(40.0, lambda: False)
    assert world.ledger.clusters
    assert Ledger.read(world.ledger.json) == world.ledger
    assert Ledger.read(json.loads(world.ledger.json)) == world.ledger


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "the ledger is no JSON: .*"),
        (b'{"format": 7}', "format is 7, and this program reads only 1"),
        (b'{"clusters": {"a": {"grants": 3}}}', r"the ledger does not fit its format: .*\$.clusters.*grants.*"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(content: bytes, message: str) -> None:
    with pytest.raises(BadLedger, match=message):
        Ledger.read(content)


def test_a_grant_dies_when_a_later_one_was_observed() -> None:
    sent = entry(C, V1, complete(V1), V2)
    assert [each.grant.id for each in observe(sent, view(V2, 10, 10, 0, observed=1), C, 0.0).grants] == [1, 2]
    assert [each.grant.id for each in observe(sent, view(V2, 10, 10, 0), C, 0.0).grants] == [2]


def test_a_push_that_was_never_seen_dies_with_those_around_it() -> None:
    third = Grant(3, "v2", 10, 3)
    sent = entry(C, V1, complete(V1), V2, third)
    assert [each.grant.id for each in observe(sent, view(third, 10, 10, 0), C, 0.0).grants] == [3]
    # At a generation that nobody saw, it is one of those in between: the revision is known only if all have one.
    between = view(third, 10, 10, 4, generation=5, observed=3)
    assert observe(sent, between, C, 0.0).revision == ""
    same = entry(C, V2, complete(V2), Grant(3, "v2", 10, 1), Grant(4, "v2", 10, 1))
    assert observe(same, view(Grant(4, "v2", 10), 10, 10, 4, generation=6, observed=4), C, 0.0).revision == "v2"


def test_what_a_deployment_decided_counts_until_its_replica_sets_are_at_size() -> None:
    rolling = entry(D, V1, complete(V1), V2, view(V2, 10, 10, 0, settled=False))
    lower = Grant(3, "v2", 10, 1)
    seen = view(lower, 10, 10, 0, settled=False)
    late = observe(entry(D, V1, complete(V1), V2, view(V2, 10, 10, 0), lower), seen, D, 0.0)
    assert len(rolling.grants) == 2
    assert bounds_of(late, D, "v2").floor == 8
    settled = observe(late, view(lower, 10, 10, 0, version=31), D, 0.0)
    assert bounds_of(settled, D, "v2").floor == 9


def test_where_nobody_can_tell_time_has_to_pass() -> None:
    lower = Grant(3, "v2", 10, 1)
    sent = entry(D, V1, complete(V1), V2, view(V2, 10, 10, 0), lower)
    late = observe(sent, view(lower, 10, 10, 0, settled=None), D, 100.0, PATIENCE)
    assert (len(late.grants), next_retirement(late, PATIENCE)) == (2, 105.0)
    assert len(observe(late, None, D, 104.9, PATIENCE).grants) == 2
    assert len(observe(late, None, D, 105.0, PATIENCE).grants) == 1
    assert len(observe(late, None, D, 105.0, PATIENCE, reachable=False).grants) == 2


def test_a_write_that_was_refused_frees_its_grant() -> None:
    found = ledger(a=(V1, complete(V1), V2))
    assert bounds_of(found.clusters["a"], D, "v2").floor == 8
    assert bounds_of(found.refused("a", 2).clusters["a"], D, "v2").floor == 10
    assert found.refused("b", 2) == found
    assert found.without(["a"]).clusters == {}
    # The one before it counts again, and is what the work should have: it may never have arrived.
    newest = found.refused("a", 2).clusters["a"].newest
    assert newest == V1


def test_what_somebody_changed_on_a_member_is_charged_until_it_is_put_back_and_observed() -> None:
    fine = complete(V1)
    drifted = view(V1, 10, 10, 0, generation=2, version=20)
    changed = entry(D, V1, fine, replace(drifted, drift=Grant(1, "other", 10, 4)))
    assert bounds_of(changed, D, "v1").floor == 6
    back = observe(changed, view(V1, 10, 10, 0, generation=3, observed=2, version=30), D, 0.0)
    assert bounds_of(back, D, "v1").floor == 6
    again = observe(back, view(V1, 10, 10, 10, generation=3, version=40), D, 0.0)
    assert bounds_of(again, D, "v1").floor == 10


def test_an_object_that_was_made_anew_begins_its_generations_anew() -> None:
    sent = entry(D, V1, view(V1, 10, 10, 10, generation=90), V2)
    fresh = view(V2, 3, 0, 3, generation=1, version=99)
    assert [each.grant.id for each in observe(sent, replace(fresh, uid="another"), D, 0.0).grants] == [2]
