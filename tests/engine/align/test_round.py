"""Rounds by example. The two stories of the proposal are in `test_stories.py`."""

from dataclasses import replace

from msgspec.structs import replace as altered

from echelon.engine.align.contract import STATEFUL_SET
from echelon.engine.align.decisions import BudgetWait
from echelon.engine.align.grant import Grant
from echelon.engine.align.ledger import Ledger
from echelon.engine.align.retire import Patience
from echelon.engine.align.round import align
from echelon.engine.align.view import MemberView
from echelon.engine.align.workload import OnDeficit
from tests.engine.align.notation import Clusters, complete, ledger, view, workload

V1 = Grant(1, "v1", 10, 1)


def spec(grant: Grant) -> tuple[int, int, int]:
    return grant.unavailable, grant.surge, grant.partition


def test_one_unit_is_passed_from_cluster_to_cluster() -> None:
    sizes = {f"c{number}": 2 for number in range(5)}
    clusters = Clusters(workload("v1", sizes))
    wanted = workload("v2", sizes)
    running = []
    for _ in range(12):
        found = clusters.round(wanted)
        moving = {name for name, grant in found.pushes.items() if not grant.paused}
        running += sorted(moving)
        for name in sizes:
            clusters.report(name, 2, 2, 2 if name in running else 0)
    assert running == sorted(sizes)
    assert clusters.round(wanted).complete


def test_a_cluster_without_pods_gets_the_template_at_once() -> None:
    clusters = Clusters(workload("v1", {"a": 3, "b": 0}))
    empty = Grant(9, "v1", 0, 1)
    clusters.ledger = ledger(a=(V1, complete(V1)), b=(empty, complete(empty)))
    pushes = clusters.round(workload("v2", {"a": 10, "b": 0})).pushes
    assert (pushes["b"].revision, pushes["b"].paused, pushes["b"].replicas) == ("v2", False, 0)


def test_a_pod_moves_only_when_there_is_room_for_it() -> None:
    clusters = Clusters(workload("v1", {"a": 4, "b": 0}, unavailable=0, surge=1))
    wanted = workload("v1", {"a": 2, "b": 2}, unavailable=0, surge=1)
    sizes = []
    for _ in range(9):
        found = clusters.round(wanted)
        now = {name: each.grant.replicas for name, each in found.decisions.items() if each.grant}
        sizes.append((now.get("a"), now.get("b")))
        for name, size in now.items():
            clusters.report(name, size, size, size)
    assert list(dict.fromkeys(sizes)) == [(4, 1), (3, 1), (3, 2), (2, 2)]


def test_a_cluster_that_is_left_is_emptied_and_then_gone() -> None:
    clusters = Clusters(workload("v1", {"a": 3, "b": 3}, unavailable=3))
    wanted = workload("v1", {"a": 6}, unavailable=3)
    first = clusters.round(wanted)
    assert (first.pushes["b"].replicas, first.pushes["b"].revision) == (0, "v1")
    assert not first.decisions["b"].gone
    clusters.report("b", 0, 0, 0)
    second = clusters.round(wanted)
    assert second.decisions["b"].gone
    clusters.report("a", 6, 6, 6)
    assert clusters.round(wanted).complete
    assert clusters.ledger.without(["b"]).clusters.keys() == {"a"}


def test_a_cluster_that_cannot_be_reached_keeps_what_it_was_granted() -> None:
    clusters = Clusters(workload("v1", {"a": 5, "b": 4}))
    wanted = workload("v2", {"a": 5, "b": 4})
    assert not clusters.round(wanted).pushes["a"].paused
    cut = replace(wanted, targets={**wanted.targets, "a": replace(wanted.targets["a"], reachable=False)})
    clusters.report("b", 4, 4, 0)
    found = clusters.round(cut)
    assert not found.pushes
    assert found.decisions["a"].wait is BudgetWait.UNREACHABLE
    assert found.decisions["a"].bounds.floor == 4
    assert found.explain("a") == "cannot be reached; is charged with 2 grants all the same, and its last report counts"
    assert found.explain("b") == "waits for budget: 4 pods to update, and others hold all of it"


def test_what_is_told_of_one_pod_is_told_in_the_singular() -> None:
    clusters = Clusters(workload("v1", {"a": 5}))
    clusters.round(workload("v2", {"a": 5}))
    clusters.report("a", 5, 4, 4)
    assert clusters.round(workload("v2", {"a": 5})).explain("a") == "has 1 pod to update"


def test_a_pause_of_the_template_freezes_and_goes_on_afterwards() -> None:
    clusters = Clusters(workload("v1", {"a": 5}))
    clusters.round(workload("v2", {"a": 5}))
    clusters.report("a", 5, 4, 2)
    paused = clusters.round(workload("v2", {"a": 5}, paused=True))
    assert paused.pushes["a"].paused
    clusters.report("a", 5, 5, 2)
    assert clusters.round(workload("v2", {"a": 5}, paused=True)).decisions["a"].wait is BudgetWait.PAUSED
    assert not clusters.round(workload("v2", {"a": 5})).pushes["a"].paused


def test_where_freezing_is_asked_for_everything_stops_until_nothing_is_missing() -> None:
    sizes = {"a": 10, "b": 10, "c": 10}
    clusters = Clusters(workload("v1", sizes))
    wanted = workload("v2", sizes, unavailable=2, on_deficit=OnDeficit.FREEZE)
    moving = {name for name, grant in clusters.round(wanted).pushes.items() if not grant.paused}
    for name in sizes:
        clusters.report(name, 10, 9 if name in moving else 7, 1 if name in moving else 0)
    stopped = clusters.round(wanted)
    assert {name for name, grant in stopped.pushes.items() if grant.paused} == moving
    assert {each.wait for name, each in stopped.decisions.items() if name not in moving} == {BudgetWait.PODS}


def test_after_a_stall_broken_clusters_mend_themselves_within_the_budget() -> None:
    sizes = {"a": 4, "b": 4}
    patience = Patience(stall=60.0)
    wanted = workload("v2", sizes, unavailable=2)
    frozen = Grant(2, "v2", 4, 1, paused=True)
    four = altered(V1, replicas=4)
    broken = (four, complete(four), frozen, view(frozen, 4, 1, 0))
    found = align(wanted, ledger(a=broken, b=broken), {}, 0.0, patience)
    assert (found.pushes, found.stalled_since, found.look_again_at) == ({}, 0.0, 60.0)
    still = align(wanted, found.ledger, {}, 59.0, patience)
    assert not still.pushes
    mending = align(wanted, still.ledger, {}, 60.0, patience)
    assert sum(grant.unavailable for grant in mending.pushes.values() if not grant.paused) == 2


def test_a_stateful_set_is_updated_from_its_partition_on() -> None:
    wanted = workload("v1", {"a": 3, "b": 5}, contract=STATEFUL_SET, stable="v1")
    clusters = Clusters(wanted)
    first = clusters.round(replace(workload("v2", {"a": 3, "b": 5}, contract=STATEFUL_SET, stable="v1")))
    assert {name: spec(grant) for name, grant in first.pushes.items()} == {"a": (1, 0, 3), "b": (1, 0, 0)}


def test_every_cluster_that_waits_says_why() -> None:
    clusters = Clusters(workload("v1", {"a": 5, "b": 5}))
    found = clusters.round(workload("v2", {"a": 5, "b": 5, "c": 2}))
    assert all(each.message for each in found.decisions.values())
    assert {name: each.wait for name, each in found.decisions.items()} == {
        "a": BudgetWait.REPORT,
        "b": BudgetWait.REPORT,
        "c": BudgetWait.REPORT,
    }
    assert found.explain("nobody") == "is no target"


def test_views_of_clusters_that_nobody_knows_are_ignored() -> None:
    stranger = MemberView("u", 1, 3, 1, 1, 5, 5, 5, 5)
    found = align(workload("v1", {"a": 3}), Ledger(), {"x": stranger}, 0.0)
    assert found.pushes.keys() == {"a"}
    assert found.pushes["a"].id == 4


def test_a_paused_deployment_makes_no_first_pods() -> None:
    wanted = workload("v1", {"a": 3}, paused=True)
    found = align(wanted, Ledger(), {}, 0.0)
    assert (found.pushes, found.decisions["a"].wait) == ({}, BudgetWait.PAUSED)
    assert align(workload("v1", {"a": 3}), found.ledger, {}, 1.0).pushes["a"].replicas == 3


def test_while_paused_a_new_cluster_is_born_with_the_stable_template() -> None:
    clusters = Clusters(workload("v1", {"a": 4}, surge=2, stable="v1"))
    pushes = clusters.round(workload("v2", {"a": 4, "b": 2}, surge=2, stable="v1", paused=True)).pushes
    assert (pushes["a"].revision, pushes["a"].paused) == ("v2", True)
    assert (pushes["b"].revision, pushes["b"].paused) == ("v1", False)


def test_a_cluster_that_should_have_no_pods_has_the_template_and_is_not_gone() -> None:
    wanted = workload("v1", {"a": 3, "b": 0})
    first = align(wanted, Ledger(), {}, 0.0)
    assert first.pushes["b"].replicas == 0
    views = {name: complete(grant) for name, grant in first.pushes.items()}
    second = align(wanted, first.ledger, views, 1.0)
    assert (second.complete, second.decisions["b"].complete, second.decisions["b"].gone) == (True, True, False)


def test_a_cluster_to_which_nothing_is_sent_says_why() -> None:
    wanted = workload("v1", {"a": 3})
    target = replace(wanted.targets["a"], reachable=False, reason="its last push was refused: quota exceeded")
    found = align(replace(wanted, targets={"a": target}), Ledger(), {}, 0.0)
    assert found.explain("a") == (
        "its last push was refused: quota exceeded; is charged with 0 grants all the same, and its last report counts"
    )


def test_a_cluster_that_is_left_and_cut_off_keeps_what_it_was_granted() -> None:
    clusters = Clusters(workload("v1", {"a": 3, "b": 3}, unavailable=3))
    wanted = replace(workload("v1", {"a": 6}, unavailable=3), unreachable=frozenset(["b"]))
    found = clusters.round(wanted)
    assert found.pushes.keys() <= {"a"}
    assert (found.decisions["b"].wait, found.decisions["b"].bounds.ceiling) == (BudgetWait.UNREACHABLE, 3)


def test_a_decision_has_the_units_that_a_cluster_may_use_and_how_much_it_might_act_on() -> None:
    clusters = Clusters(workload("v1", {"a": 6, "b": 4}))
    found = clusters.round(workload("v2", {"a": 6, "b": 4}, unavailable=1))
    figures = {name: (each.unavailable, each.surge, each.outstanding) for name, each in found.decisions.items()}
    assert figures == {"a": (1, 0, 2), "b": (0, 0, 2)}
    assert found.decisions["b"].grant is not None
    assert found.decisions["b"].grant.unavailable == 1  # of no effect while it is paused


def test_what_cannot_be_paused_without_taking_pods_goes_on_with_one_too_many() -> None:
    # Its ReplicaSets remember three pods too many, so that a pause would move pods between them.
    rolling, fewer = Grant(2, "v2", 10, 2, 3), Grant(3, "v2", 10, 2, 0)
    before = (V1, complete(V1), rolling, view(rolling, 13, 10, 5), fewer, view(fewer, 10, 9, 5))
    wanted = workload("v2", {"a": 10}, unavailable=0, surge=1)
    push = align(wanted, ledger(a=before), {}, 1.0).pushes["a"]
    assert (push.paused, push.unavailable, push.surge) == (False, 0, 1)


def test_where_nothing_may_be_unavailable_one_broken_pod_at_a_time_is_replaced() -> None:
    frozen, four = Grant(2, "v2", 4, 1, paused=True), altered(V1, replicas=4)
    broken = (four, complete(four), frozen, view(frozen, 4, 0, 0))
    wanted = workload("v2", {"a": 4}, unavailable=0, surge=0)
    patience = Patience(stall=60.0)
    still = align(wanted, ledger(a=broken), {}, 0.0, patience)
    assert not still.pushes
    push = align(wanted, still.ledger, {}, 60.0, patience).pushes["a"]
    assert (push.paused, push.unavailable) == (False, 1)


def test_a_cluster_may_replace_what_does_not_work_although_nothing_may_be_unavailable() -> None:
    # As many are available as must be: those of a cluster that is left. No budget is free, and none is needed.
    leaving, broken = Grant(2, "v1", 3, 1), Grant(3, "v2", 3, 1, paused=True)
    found = ledger(a=(leaving, complete(leaving)), b=(broken, view(broken, 3, 0, 0)))
    wanted = workload("v2", {"b": 3}, unavailable=0, surge=1)
    first = align(wanted, found, {}, 1.0)
    assert first.slack.available == 0
    assert (first.pushes["b"].paused, first.pushes["b"].unavailable) == (False, 3)


def test_a_pod_moves_from_a_paused_deployment_that_remembers_one_too_many() -> None:
    # The other cluster has grown by the surge, and waits for a pod to go here: nothing else can come first.
    first, rolling, paused = Grant(1, "v1", 3, 1), Grant(2, "v2", 3, 0, 1), Grant(3, "v3", 3, 1, paused=True)
    seen = altered(view(paused, 3, 3, 0), resized=(4, 4))
    grown = Grant(4, "v3", 4, 1)
    found = ledger(
        a=(first, complete(first), rolling, view(rolling, 4, 4, 2), paused, seen), b=(grown, complete(grown))
    )
    after = align(workload("v3", {"a": 0, "b": 6}, unavailable=0, surge=1), found, {}, 1.0)
    assert {name: push.replicas for name, push in after.pushes.items()} == {"a": 2}
    assert (after.slack.available, after.slack.pods) == (0, 0)


def test_a_stateful_set_that_grows_in_mid_update_makes_the_pod_that_is_missing_as_an_updated_one() -> None:
    """With a higher partition it would be an old one again, and be updated a second time."""
    clusters = Clusters(workload("v1", {"a": 7}, contract=STATEFUL_SET))
    clusters.round(workload("v2", {"a": 7}, contract=STATEFUL_SET, stable="v1"))
    clusters.report("a", 6, 6, 6)
    grown = clusters.round(workload("v2", {"a": 8}, unavailable=2, contract=STATEFUL_SET, stable="v1"))
    assert {name: (grant.replicas, grant.partition) for name, grant in grown.pushes.items()} == {"a": (8, 0)}
