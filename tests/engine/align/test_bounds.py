"""Bounds by example, beyond the traps: what was found by living many lives."""

from msgspec.structs import replace

from echelon.engine.align.bounds import bounds_of
from echelon.engine.align.contract import Family
from echelon.engine.align.grant import Grant, Outstanding
from echelon.engine.align.ledger import ClusterLedger, Ledger, Ordinals
from echelon.engine.align.retire import observe
from echelon.engine.align.round import pushed
from tests.engine.align.notation import complete, entry, view

D, C, S = Family.DEPLOYMENT, Family.CLONE_SET, Family.STATEFUL_SET


def test_a_stateful_set_that_shrinks_may_have_pods_beyond_while_others_are_missing() -> None:
    twelve, rolling, eleven = Grant(1, "v1", 12, 1), Grant(2, "v2", 12, 3), Grant(3, "v2", 11, 3)
    seen = view(eleven, 9, 9, 3, settled=False)
    shrunk = entry(S, twelve, complete(twelve), rolling, view(rolling, 9, 9, 3, settled=False), eleven, seen)
    assert bounds_of(shrunk, S, "v2").ceiling == 12
    settled = observe(shrunk, view(eleven, 11, 11, 11, version=40), S, 0.0)
    assert bounds_of(settled, S, "v2").ceiling == 11


def test_a_pod_beyond_is_cut_off_once() -> None:
    twelve, eleven, next_one = Grant(1, "v1", 12, 1), Grant(2, "v1", 11, 1), Grant(3, "v2", 11, 1, 0, 11)
    seen = view(eleven, 11, 11, 11, settled=False)
    shrunk = entry(S, twelve, complete(twelve), eleven, seen)
    assert bounds_of(shrunk, S, "v1").floor == 10  # one of the eleven may be the one beyond
    moved = entry(S, twelve, complete(twelve), eleven, seen, next_one)
    assert bounds_of(moved, S, "v2").floor == 10


def test_ordinals_up_to_the_observed_size_may_have_pods_though_the_spec_says_less() -> None:
    eight, six = Grant(1, "v1", 8, 4), Grant(2, "v1", 6, 4)
    seen = view(six, 6, 4, 6, observed=1, settled=False)
    found = entry(S, eight, view(eight, 8, 8, 8), six, seen)
    assert bounds_of(found, S, "v1").floor == 2  # all that are available may be cut off but two


def test_pods_that_each_growth_makes_updated_add_up() -> None:
    three, four, five, six = (Grant(n, "v2", r, 1, 0, p) for n, r, p in ((2, 3, 2), (3, 4, 3), (4, 5, 4), (5, 6, 5)))
    old = Grant(1, "v1", 3, 1)
    grown = entry(S, old, complete(old), three, view(three, 3, 3, 1), four, five, six)
    assert bounds_of(grown, S, "v2").updated == 4


def test_a_pod_that_one_grant_updates_counts_beside_those_that_a_later_one_makes() -> None:
    old, running, grown = Grant(1, "v1", 9, 1), Grant(2, "v2", 9, 1, 0, 7), Grant(3, "v2", 10, 1, 0, 8)
    found = entry(S, old, complete(old), running, view(running, 9, 8, 1, settled=False), grown)
    assert bounds_of(found, S, "v2").updated == 3


def test_a_pause_that_was_carried_out_tells_what_replica_sets_remember() -> None:
    # What they remembered before is not known, nor how many of them have pods; the pause has resized those that do.
    last = Grant(7, "v2", 10, 1, paused=True)
    unknown = Ledger.lost({}, 40, {"a": last}).clusters["a"]
    again = observe(unknown, view(replace(last, id=8), 10, 10, 0), D, 0.0)
    moved = Grant(9, "v3", 10, 1, paused=True)
    paused = observe(pushed(again, moved), view(moved, 10, 10, 0), D, 0.0)
    assert bounds_of(paused, D, "v3").floor == 10
    assert bounds_of(pushed(paused, Grant(10, "v3", 9, 1, paused=True)), D, "v3").floor == 9
    # Once it rolls, whatever is left of old sizes counts again.
    rolling = pushed(paused, Grant(10, "v3", 10, 0, 1))
    assert bounds_of(pushed(rolling, Grant(11, "v3", 9, 1, paused=True)), D, "v3").floor == 0


def test_what_may_be_beyond_does_not_grow_with_every_grant() -> None:
    last = Grant(7, "v2", 12, 2)
    unknown = Ledger.lost({}, 40, {"a": last}).clusters["a"]
    again = observe(unknown, view(replace(last, id=8), 12, 11, 6, settled=False), S, 0.0)
    assert bounds_of(again, S, "v2").ceiling == 24
    assert bounds_of(pushed(again, Grant(9, "v2", 12, 2, 0, 12)), S, "v2").ceiling == 24


def test_pods_beyond_hide_as_many_that_are_missing() -> None:
    # Ordinals 9 to 11 are there yet, all updated; of those below, one is old and one is missing.
    old, running, fewer = Grant(1, "v1", 12, 1), Grant(2, "v2", 12, 4, 0, 1), Grant(3, "v2", 9, 4, 0, 2)
    seen = view(fewer, 11, 10, 10, settled=False)
    found = entry(S, old, complete(old), running, view(running, 12, 11, 9, settled=False), fewer, seen)
    assert bounds_of(found, S, "v2").updated >= 11


def test_a_paused_deployment_with_more_new_pods_than_wanted_keeps_what_it_has() -> None:
    # A resize in proportion can leave the new ReplicaSet with one too many; then nothing is dropped until it rolls on.
    old, rolling, paused = Grant(1, "v1", 12, 1), Grant(2, "v2", 12, 1, 2), Grant(3, "v2", 12, 1, 2, paused=True)
    before = (old, complete(old), rolling, view(rolling, 14, 12, 11))
    more = entry(D, *before, paused, view(paused, 14, 14, 13))
    assert bounds_of(more, D, "v2")[:2] == (14, 14)
    all_new = entry(D, *before, paused, view(paused, 14, 14, 12))
    assert bounds_of(all_new, D, "v2").floor == 12


def test_updated_pods_that_go_because_there_are_too_many_come_on_top_of_those_that_are_updated_later() -> None:
    # The partition keeps the old pod, so the shrink takes the new one; then the old one is updated.
    two, mixed = Grant(1, "v1", 2, 1), Grant(2, "v2", 2, 1, 0, 1)
    before = (two, complete(two), mixed, view(mixed, 2, 2, 1))
    shrunk, through = Grant(3, "v2", 1, 1, 0, 1), Grant(4, "v2", 1, 1, 1, 0)
    assert bounds_of(entry(C, *before, shrunk), C, "v2").floor == 1
    assert bounds_of(entry(C, *before, shrunk, through), C, "v2").floor == 0


def test_old_pods_that_a_partition_asked_for_are_not_lost_when_it_goes_down_with_the_size() -> None:
    four, frozen = Grant(1, "v1", 4, 1), Grant(2, "v1", 2, 1, 0, 2)
    there = entry(C, four, complete(four), frozen, view(frozen, 2, 2, 2))
    assert bounds_of(pushed(there, Grant(3, "v1", 1, 1, 0, 1)), C, "v1").floor == 1


def test_what_replica_sets_remember_is_what_the_agent_says() -> None:
    # Three were allowed too many once, and since then both ReplicaSets were resized.
    rolling, fewer = Grant(2, "v2", 10, 2, 3), Grant(3, "v2", 10, 2, 0)
    seen = view(fewer, 10, 10, 5)
    before = (Grant(1, "v1", 10, 1), complete(Grant(1, "v1", 10, 1)), rolling, view(rolling, 13, 10, 5), fewer)
    paused = Grant(4, "v2", 10, 1, 0, paused=True)
    assert bounds_of(entry(D, *before, seen, paused), D, "v2").floor < 8
    assert bounds_of(entry(D, *before, replace(seen, resized=(10, 10)), paused), D, "v2").floor == 8


def test_what_a_resize_decided_at_once_is_under_way_though_the_status_shows_nothing_of_it() -> None:
    # Of six new and two old pods, three and one are to be left; the old one was then replaced. The status is late.
    eight = Grant(1, "v1", 8, 1)
    rolling, four = Grant(2, "v2", 8, 1), Grant(3, "v2", 4, 1)
    before = (eight, complete(eight), rolling, view(rolling, 8, 8, 6), four)
    seen = view(four, 6, 6, 6, settled=False)
    assert bounds_of(entry(D, *before, seen), D, "v2").floor == 3


def test_pods_that_are_told_to_go_are_not_counted_on() -> None:
    eight, four = Grant(1, "v2", 8, 1), Grant(2, "v2", 4, 1)
    shrinking = entry(D, eight, complete(eight), four, view(four, 6, 6, 6, told=3, settled=False))
    assert bounds_of(shrinking, D, "v2").floor == 3


def test_a_pod_that_was_made_since_the_snapshot_may_be_one_of_the_few_that_work_and_is_cut_off() -> None:
    # Of eight, four are updated at a time, not the last, which is new. Then seven are wanted.
    seven, eight, again = Grant(1, "v1", 7, 1), Grant(2, "v2", 8, 4), Grant(3, "v2", 7, 2)
    assert bounds_of(entry(S, seven, complete(seven), eight), S, "v2").floor == 4
    assert bounds_of(entry(S, seven, complete(seven), eight, again), S, "v2").floor == 3


def test_pods_that_were_there_count_as_updated_though_a_replaced_grant_wanted_fewer() -> None:
    # Which pod is updated is not known, so the last two may be updated besides it.
    fewer, grown = Grant(2, "v2", 15, 1, 0, 15), Grant(3, "v2", 16, 1, 0, 16)
    seen = ClusterLedger(
        grants=(Outstanding(fewer, generation=2, replaced_at=0.0, floor=15, ceiling=15), Outstanding(grown, 3)),
        view=view(grown, 16, 15, 1, settled=None),
        revision="v2",
        former=("v1",),
        started=True,
        ordinals={"v2": Ordinals(0, 15)},
    )
    assert bounds_of(seen, S, "v2").updated == 1
    assert bounds_of(pushed(seen, Grant(4, "v2", 16, 1, 0, 14)), S, "v2").updated == 3


def test_a_deployment_that_stands_still_goes_on_doing_so_with_a_template_that_is_new_to_it() -> None:
    ten, rolling = Grant(1, "v1", 10, 1), Grant(2, "v2", 10, 1, 2)
    paused = Grant(3, "v2", 10, 1, 2, paused=True)
    before = (ten, complete(ten), rolling, view(rolling, 12, 12, 6), paused, view(paused, 12, 12, 6))
    still = entry(D, *before)
    assert bounds_of(still, D, "v2").floor == 12
    assert bounds_of(pushed(still, Grant(4, "v3", 10, 1, 2, paused=True)), D, "v3").floor == 12
    # Pods that are too many become wanted ones: the total is the same, and nothing moves.
    assert bounds_of(pushed(still, Grant(4, "v2", 11, 1, 1, paused=True)), D, "v2").floor == 12
    # Of the template that it comes from there may be just as many as are wanted: then the others go.
    assert bounds_of(pushed(still, Grant(4, "v1", 10, 1, 2, paused=True)), D, "v1").floor == 10
    assert bounds_of(pushed(still, Grant(4, "v2", 6, 1, 6, paused=True)), D, "v2").floor == 6


def test_a_paused_deployment_that_shrinks_loses_no_more_than_that_though_it_remembers_more_pods() -> None:
    # Its ReplicaSets may be several, and were resized last when one pod too many was allowed.
    old, rolling = Grant(1, "v1", 3, 1), Grant(2, "v2", 3, 0, 1)
    paused, fewer = Grant(3, "v3", 3, 1, paused=True), Grant(4, "v3", 2, 1, paused=True)
    seen = replace(view(paused, 3, 3, 0), resized=(4, 4))
    still = entry(D, old, complete(old), rolling, view(rolling, 4, 4, 2), paused, seen)
    assert bounds_of(still, D, "v3").floor == 3
    assert bounds_of(pushed(still, fewer), D, "v3").floor == 2
    # One that remembers fewer grows while the total shrinks, and the others pay for it.
    uneven = observe(still, replace(seen, resized=(1, 4), version=31), D, 0.0)
    assert bounds_of(pushed(uneven, fewer), D, "v3").floor == 0
    # One that grows, to less than all of them remember, gives what each of them loses to the largest.
    seven = observe(still, replace(seen, resized=(7, 7), version=32), D, 0.0)
    assert bounds_of(pushed(seven, Grant(4, "v3", 4, 1, paused=True)), D, "v3").floor == 0
    # Before it stands still it may have fewer pods than a pause asks for: what makes the others moves these, but for
    # those that are too few to lose one.
    lower, pause = Grant(3, "v2", 3, 1), Grant(4, "v2", 3, 1, paused=True)
    for remembered, floor in ((4, 2), (6, 2), (7, 0)):
        seen = replace(view(lower, 3, 3, 2), resized=(remembered, remembered))
        moving = entry(D, old, complete(old), rolling, lower, seen)
        assert bounds_of(moving, D, "v2").floor == 2
        assert bounds_of(pushed(moving, pause), D, "v2").floor == floor


def test_pods_that_died_in_a_cluster_that_is_through_come_back_with_its_only_template() -> None:
    # A status counts those that have yet to be made as wanted, and not as updated.
    five, rolling = Grant(1, "v1", 5, 1), Grant(2, "v2", 5, 2, 1)
    lacking = view(rolling, 5, 1, 2, version=30, settled=None, told=5, missing=3)
    through = entry(D, five, complete(five), rolling, complete(rolling), lacking)
    assert bounds_of(through, D, "v2").ceiling == 5
    # In the middle of an update they may be of the old template.
    midway = entry(D, five, complete(five), rolling, view(rolling, 5, 5, 2, settled=None), lacking)
    assert bounds_of(midway, D, "v2").ceiling == 6
    # And so they may if somebody has put another template in, and it was put back.
    drifted = replace(complete(rolling), generation=3, version=25, drift=Grant(2, "other", 5, 2, 1))
    back = replace(lacking, generation=4, observed_generation=4)
    put_back = entry(D, five, complete(five), rolling, complete(rolling), drifted, back)
    assert (through.updated, put_back.updated) == (5, 2)


def test_a_cluster_that_only_waits_for_its_next_template_has_no_other_than_the_last() -> None:
    five, waiting = Grant(1, "v1", 5, 1, 1), Grant(2, "v2", 5, 1, paused=True)
    lacking = view(five, 5, 2, 2, version=15, settled=None, told=5, missing=3)
    assert entry(D, five, complete(five), waiting, lacking).updated == 5
    assert entry(D, five, complete(five), Grant(2, "v2", 5, 1), lacking).updated == 2


def test_the_pod_that_is_missing_where_one_may_be_updated_is_that_one() -> None:
    """It was taken, and its StatefulSet has not told yet: no second one is updated because of that."""
    first, waiting, going = Grant(1, "v1", 2, 1), Grant(2, "v2", 2, 1, 0, 2), Grant(3, "v2", 2, 1, 0, 1)
    gone = view(going, 1, 1, 0, observed=2, settled=False)
    seen = entry(S, first, complete(first), waiting, view(waiting, 2, 2, 0), going, gone)
    assert bounds_of(seen, S, "v2").updated == 1
    further = pushed(seen, Grant(4, "v2", 2, 1, 0, 0))
    assert bounds_of(further, S, "v2").updated == 2
