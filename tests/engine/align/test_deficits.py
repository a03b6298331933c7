"""Budgets that are overdrawn: what is taken back, from whom, and what is not."""

from echelon.engine.align.contract import CLONE_SET, Family
from echelon.engine.align.grant import Grant
from echelon.engine.align.member import Member
from echelon.engine.align.round import align
from echelon.engine.align.sums import Sums
from echelon.engine.align.workload import OnDeficit, Target
from tests.engine.align.notation import Clusters, complete, entry, ledger, view, workload

SIZES = {"c1": 10, "c2": 10, "c3": 10}


def rolling(unavailable: int, units: dict[str, int]) -> Clusters:
    """Return three clusters, with so many units each, none of which is used."""
    clusters = Clusters(workload("v1", SIZES))
    found = clusters.round(workload("v2", SIZES, unavailable=unavailable))
    assert {name: grant.unavailable for name, grant in found.pushes.items()} == units
    for name in SIZES:
        clusters.report(name, 10, 10, 0)
    return clusters


def test_of_units_that_nobody_has_used_only_what_is_missing_is_taken() -> None:
    clusters = rolling(6, {"c1": 2, "c2": 2, "c3": 2})
    fewer = workload("v2", SIZES, unavailable=5)
    taken = clusters.round(fewer)
    assert [grant.unavailable for grant in taken.pushes.values()] == [1]
    assert not clusters.round(fewer).pushes, "what is on its way back is not taken again"


def test_of_units_that_are_used_each_cluster_has_to_make_up_for_all_that_is_missing() -> None:
    """Whoever is the first has done it for the others, too: a pod that died may never come back."""
    clusters = rolling(6, {"c1": 2, "c2": 2, "c3": 2})
    for name, available in (("c1", 8), ("c2", 8), ("c3", 7)):  # one of them is dead
        clusters.report(name, 10, available, 3)
    taken = clusters.round(wanted := workload("v2", SIZES, unavailable=6))
    assert {name: (grant.unavailable, grant.paused) for name, grant in taken.pushes.items()} == {
        "c1": (1, False),
        "c2": (1, False),
        # It has one more pod that does not work, so at two units it takes none before that is mended.
    }
    for name, available in (("c1", 8), ("c2", 8)):
        clusters.report(name, 10, available, 3)
    assert not clusters.round(wanted).pushes
    clusters.report("c1", 10, 9, 3)
    assert clusters.round(wanted).slack.available == 0


def test_what_cannot_be_taken_from_one_cluster_is_taken_from_another() -> None:
    v1, waiting = Grant(1, "v1", 12, 1), Grant(2, "v2", 12, 1, paused=True)
    one, two, both = Grant(2, "v2", 12, 0, 1), Grant(3, "v2", 12, 0, 2), Grant(3, "v2", 12, 1, 1)
    # Neither can be paused: what ReplicaSets remember, or have yet to do, might move pods.
    a = (v1, complete(v1), one, view(one, 13, 13, 2, settled=None), two)
    b = (v1, complete(v1), waiting, view(waiting, 12, 12, 0, settled=None), both, view(both, 13, 11, 2, settled=None))
    wanted = workload("v2", {"a": 12, "b": 12}, unavailable=0, surge=1)
    first = align(wanted, ledger(a=a, b=b), {}, 0.0)
    running = {name: (grant.unavailable, grant.surge) for name, grant in first.pushes.items() if not grant.paused}
    assert running == {"a": (0, 1), "b": (0, 1)}, "the one that has a pod too many keeps it, and the other takes none"
    assert not align(wanted, first.ledger, {}, 0.0).pushes


def test_a_clone_set_keeps_pods_that_it_has_too_many_while_others_are_missing() -> None:
    clusters = Clusters(workload("v1", {"a": 10, "b": 10}, contract=CLONE_SET))
    wanted = workload("v2", {"a": 10, "b": 10}, unavailable=0, surge=2, contract=CLONE_SET, on_deficit=OnDeficit.FREEZE)
    found = clusters.round(wanted)
    assert {name: grant.surge for name, grant in found.pushes.items()} == {"a": 1, "b": 1}
    clusters.report("a", 11, 10, 4)
    clusters.report("b", 11, 9, 4)  # one died
    frozen = clusters.round(wanted).pushes
    # The other one takes none before it has made up for what is missing, so it may go on.
    assert frozen == {"a": Grant(frozen["a"].id, "v2", 11, 1, 0, 7)}
    assert not clusters.round(wanted).pushes
    for name in ("a", "b"):
        clusters.report(name, 11, 11, 4)
    assert {name: grant.replicas for name, grant in clusters.round(wanted).pushes.items()} == {"a": 10}


def test_a_deployment_whose_new_pods_are_complete_keeps_the_old_ones_while_others_are_missing() -> None:
    clusters = Clusters(workload("v1", {"a": 4, "b": 4}))
    wanted = workload("v2", {"a": 4, "b": 4}, unavailable=0, surge=2, on_deficit=OnDeficit.FREEZE)
    found = clusters.round(wanted)
    assert {name: grant.surge for name, grant in found.pushes.items()} == {"a": 1, "b": 1}
    clusters.report("a", 5, 4, 4)  # one of its new ones starts, and one old one is left
    clusters.report("b", 4, 2, 4)  # two died
    frozen = clusters.round(wanted).pushes
    assert frozen == {"a": Grant(frozen["a"].id, "v2", 5, 1, paused=True)}


def test_pods_that_a_cluster_is_about_to_lose_are_no_room_for_it_to_grow() -> None:
    twelve, frozen, fewer = Grant(1, "v1", 12, 1), Grant(2, "v2", 12, 1, 0, 12), Grant(3, "v2", 5, 1, 0, 5)
    shrinking = entry(
        Family.CLONE_SET,
        *(twelve, complete(twelve), frozen, view(frozen, 12, 12, 0)),
        *(fewer, view(fewer, 11, 11, 0, settled=False)),
    )
    member = Member("a", Target(10, "v2"), shrinking, CLONE_SET, keep_old=False)
    sums = Sums(workload("v2", {"a": 10}, contract=CLONE_SET).budgets, [member], partition=0, repairing=False)
    assert sums.pods == -1
    assert not sums.admit(member, Grant(0, "v2", 10, 1, 0, 10), makes=True)


def test_surge_for_a_template_that_is_wanted_no_more_does_not_keep_the_next_one_out() -> None:
    clusters = Clusters(workload("v1", {"a": 12}))
    clusters.round(workload("broken", {"a": 12}, unavailable=0, surge=6))
    clusters.report("a", 18, 12, 6)
    broken = clusters.round(workload("broken", {"a": 12}, unavailable=0, surge=1)).pushes["a"]
    assert (broken.unavailable, broken.surge, broken.paused) == (0, 1, False)
    clusters.report("a", 13, 12, 1)
    # A pause is no way: what ReplicaSets remember of the surge may move pods.
    mended = clusters.round(workload("v2", {"a": 12}, unavailable=1, surge=0)).pushes["a"]
    assert (mended.revision, mended.paused, mended.unavailable, mended.surge) == ("v2", False, 1, 0)


def test_a_cluster_that_is_left_is_not_updated_before_its_pods_go() -> None:
    v1, frozen, done = Grant(1, "v1", 5, 1), Grant(2, "v2", 5, 1, 0, 5), Grant(3, "v2", 5, 1)
    left = (v1, complete(v1), frozen, view(frozen, 5, 5, 0))
    wanted = workload("v2", {"b": 10}, unavailable=1, contract=CLONE_SET)
    found = align(wanted, ledger(CLONE_SET, a=left, b=(done, complete(done))), {}, 1.0)
    assert found.pushes == {"a": Grant(4, "v2", 4, 1, 0, 4)}
    shrinking = {"a": view(found.pushes["a"], 5, 5, 0, settled=False)}
    assert not align(wanted, found.ledger, shrinking, 2.0).pushes


def test_a_pause_does_not_give_back_a_pod_that_is_about_to_go() -> None:
    # It may have one pod less than it has, and one is too many: by the time that a pause arrives, that one is gone.
    v1, more, fewer = Grant(1, "v1", 8, 1), Grant(2, "v2", 8, 1, 1), Grant(3, "v2", 8, 1)
    events = (v1, complete(v1), more, view(more, 9, 8, 3, told=9), fewer, view(fewer, 9, 7, 3, told=9))
    ten = Grant(3, "v1", 10, 1)
    wanted = workload("v2", {"a": 8, "b": 10}, unavailable=1, on_deficit=OnDeficit.FREEZE)
    found = align(wanted, ledger(a=events, b=(ten, view(ten, 10, 9, 10))), {}, 1.0)
    assert found.slack.available < 0
    assert found.slack.pods < 0
    assert found.decisions["a"].grant == fewer


def test_a_pause_that_takes_pods_mends_nothing_though_no_more_work_than_are_wanted() -> None:
    # Shrunk to four, and let go to another template with four pods too many: to take those, a pause asks nobody which
    # of the eight work. Which template the report is of is not known, so the floor is loose, and the sum overdrawn.
    eight, four, surging = Grant(1, "v1", 8, 4, 3), Grant(2, "v1", 4, 4, 3), Grant(3, "v2", 4, 0, 4)
    events = (eight, complete(eight), four, surging, view(surging, 4, 4, 4, observed=2, settled=None))
    found = align(workload("v3", {"a": 4}, unavailable=0, surge=4), ledger(a=events), {}, 1.0)
    assert found.slack.available < 0
    assert found.decisions["a"].grant == surging


def test_what_a_cluster_was_given_with_pods_that_it_has_too_many_is_not_taken_back_before_it_is_heard() -> None:
    """Whether it had begun would be a matter of milliseconds, and what becomes of it one of minutes."""
    names = ("c1", "c2", "c3")
    clusters = Clusters(workload("v1", dict.fromkeys(names, 4), contract=CLONE_SET))
    fewer = workload("v2", dict.fromkeys(names, 3), contract=CLONE_SET, stable="v1")
    assert {name: grant.surge for name, grant in clusters.round(fewer).pushes.items()} == dict.fromkeys(names, 1)
    assert not clusters.round(fewer).pushes
    for name in names[1:]:
        clusters.report(name, 4, 3, 1)
        assert clusters.round(fewer).pushes.keys() == {name}
