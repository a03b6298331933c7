"""Clusters of which it is not known what they were granted: nobody gets more until they have reported a new push."""

import pytest
from msgspec.structs import replace

from echelon.engine.align.bounds import bounds_of
from echelon.engine.align.contract import CLONE_SET, Family
from echelon.engine.align.decisions import BudgetWait
from echelon.engine.align.grant import Grant
from echelon.engine.align.ledger import Ledger
from echelon.engine.align.round import align
from tests.engine.align.notation import complete, ledger, view, workload

V1 = Grant(1, "v1", 10, 1)
D = Family.DEPLOYMENT


def test_what_each_cluster_has_is_pushed_once_more_and_nothing_is_raised_before_all_have_reported() -> None:
    works = {"a": Grant(7, "v2", 10, 2, 1), "b": Grant(9, "v2", 10, 1, paused=True)}
    views = {"a": view(works["a"], 10, 9, 4), "b": view(works["b"], 10, 10, 0)}
    wanted = workload("v3", {"a": 10, "b": 10}, unavailable=12, surge=9)
    lost = Ledger.lost(views, 40, works)
    again = {name: entry.newest for name, entry in lost.clusters.items()}
    assert again == {"a": replace(works["a"], id=10), "b": replace(works["b"], id=11)}
    first = align(wanted, lost, views, 0.0)
    assert (first.pushes, first.slack.available) == ({}, -8)
    assert first.decisions["a"].wait is BudgetWait.LEDGER
    assert first.explain("a") == "has to report a new push, since what it was granted before is not known"
    # One has reported, and could have more of this budget even if the other had nothing left: it waits all the same.
    one = {**views, "a": view(replace(works["a"], id=10), 10, 9, 4)}
    second = align(wanted, first.ledger, one, 1.0)
    assert not [grant for grant in second.pushes.values() if not grant.paused]
    assert second.decisions["a"].bounds.floor > 0
    both = {**one, "b": view(replace(works["b"], id=11), 10, 10, 0)}
    third = align(wanted, second.ledger, both, 2.0)
    assert third.slack.available >= 0
    assert {grant.revision for grant in third.pushes.values()} == {"v3"}


def test_without_works_each_member_is_paused_as_it_is() -> None:
    views = {"a": complete(Grant(7, "v2", 10, 1)), "b": complete(Grant(9, "v2", 10, 1))}
    wanted = workload("v3", {"a": 10, "b": 10}, unavailable=2)
    first = align(wanted, Ledger.lost(views, 20), views, 0.0)
    assert {name: (grant.id, grant.paused) for name, grant in first.pushes.items()} == {
        "a": (10, True),
        "b": (11, True),
    }
    one = {**views, "a": view(first.pushes["a"], 10, 10, 0)}
    second = align(wanted, first.ledger, one, 1.0)
    assert not second.pushes
    assert second.explain("a") == "waits for b: what they were granted is not known until they report"
    both = {**one, "b": view(first.pushes["b"], 10, 10, 0)}
    third = align(wanted, second.ledger, both, 2.0)
    assert sum(each.unavailable for each in third.decisions.values()) == 2


def test_a_cluster_with_a_work_of_which_nothing_was_heard_is_waited_for() -> None:
    works = {"a": Grant(7, "v2", 10, 2)}
    found = align(workload("v2", {"a": 10}), Ledger.lost({}, 20, works), {}, 0.0)
    assert not found.pushes
    assert found.decisions["a"].wait is BudgetWait.LEDGER
    assert (found.decisions["a"].bounds.floor, found.decisions["a"].bounds.ceiling) == (0, 20)
    heard = {"a": view(works["a"], 10, 10, 10)}
    later = align(workload("v2", {"a": 10}), found.ledger, heard, 1.0)
    assert later.decisions["a"].bounds.floor == 0
    new = {"a": complete(replace(works["a"], id=8))}
    assert align(workload("v2", {"a": 10}), later.ledger, new, 2.0).complete


def test_a_partition_holds_although_nobody_knows_which_template_was_stable() -> None:
    last = Grant(7, "v2", 4, 1, 0, 2)
    wanted = workload("v2", {"a": 4}, partition=2, contract=CLONE_SET)
    lost = Ledger.lost({"a": view(last, 4, 4, 2)}, 8, {"a": last})
    known = align(wanted, lost, {"a": view(replace(last, id=8), 4, 4, 2)}, 1.0)
    assert (known.pushes, known.complete) == ({}, True)


def test_a_cluster_that_comes_with_pods_of_its_own_holds_the_others() -> None:
    # It was written off, and is selected again: its pods are still there.
    found = ledger(a=(V1, complete(V1)))
    wanted = workload("v2", {"a": 10, "b": 10}, unavailable=15)
    stranger = complete(Grant(41, "v9", 10, 1))
    first = align(wanted, found, {"b": stranger}, 0.0)
    assert {name: (grant.id, grant.replicas, grant.paused) for name, grant in first.pushes.items()} == {
        "a": (42, 10, True),
        "b": (43, 10, True),
    }
    assert first.decisions["b"].bounds.floor == 0
    told = {name: view(grant, 10, 10, 0) for name, grant in first.pushes.items()}
    assert not any(grant.paused for grant in align(wanted, first.ledger, told, 1.0).pushes.values())


def test_the_next_push_exceeds_every_id_that_was_seen() -> None:
    # The hub was restored from a backup: a member has a push that the ledger does not know.
    found = ledger(a=(V1, complete(V1)))
    views = {"a": complete(Grant(41, "v9", 10, 1))}
    round_ = align(workload("v2", {"a": 10}), found, views, 0.0)
    assert round_.pushes["a"].id == 42
    assert bounds_of(round_.ledger.clusters["a"], D, "v2").floor == 0


@pytest.mark.parametrize("replicas", [0, 3])
def test_what_somebody_else_changed_is_charged_and_holds_nobody(replicas: int) -> None:
    drifted = replace(view(V1, 10, 10, 0, generation=2, version=20), drift=Grant(1, "", replicas, 4))
    found = align(workload("v1", {"a": 10}), ledger(a=(V1, complete(V1))), {"a": drifted}, 0.0)
    assert found.decisions["a"].wait is not BudgetWait.LEDGER
    assert found.decisions["a"].bounds.floor == 0
