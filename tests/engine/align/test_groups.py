"""Decision groups inside one budget: who has the new template, who keeps the stable one, what a partition leaves."""

from dataclasses import replace

from echelon.engine.align.contract import CLONE_SET, DEPLOYMENT, Contract
from echelon.engine.align.decisions import BudgetWait
from echelon.engine.align.ledger import Ledger
from echelon.engine.align.round import align
from echelon.engine.align.workload import Target, Workload
from tests.engine.align.notation import Clusters, workload


def grouped(template: str, *, second_open: bool, partition: int = 0, contract: Contract = DEPLOYMENT) -> Workload:
    wanted = workload(template, {"a": 2, "b": 6}, unavailable=3, partition=partition, stable="v1", contract=contract)
    targets = {"a": replace(wanted.targets["a"], group=0), "b": replace(wanted.targets["b"], group=1, open=second_open)}
    return replace(wanted, targets=targets)


def test_a_group_that_is_not_open_keeps_the_stable_template() -> None:
    clusters = Clusters(grouped("v1", second_open=True))
    first = clusters.round(grouped("v2", second_open=False))
    assert first.pushes.keys() == {"a"}
    assert first.decisions["b"].wait is BudgetWait.GROUP
    assert first.explain("b") == "keeps the stable template until group 1 is open"
    clusters.report("a", 2, 2, 2)
    assert clusters.round(grouped("v2", second_open=True)).pushes["b"].revision == "v2"


def test_a_new_cluster_of_a_closed_group_is_born_with_the_stable_template() -> None:
    clusters = Clusters(workload("v1", {"a": 2}, stable="v1"))
    assert clusters.round(grouped("v2", second_open=False)).pushes["b"].revision == "v1"


def test_a_partition_fills_groups_in_their_order() -> None:
    clusters = Clusters(grouped("v1", second_open=True, contract=CLONE_SET))
    pushes = clusters.round(grouped("v2", second_open=True, partition=5, contract=CLONE_SET)).pushes
    assert {name: grant.replicas - grant.partition for name, grant in pushes.items()} == {"a": 2, "b": 1}


def test_a_target_that_nobody_can_start_waits_for_its_group() -> None:
    targets = {"a": Target(3, "v1", open=False)}
    wanted = replace(workload("v1", {"a": 3}), targets=targets)
    found = align(wanted, Ledger(), {}, 0.0)
    assert not found.pushes
    assert found.decisions["a"].wait is BudgetWait.GROUP


def test_a_rollout_is_complete_when_the_last_group_is() -> None:
    clusters = Clusters(grouped("v1", second_open=True))
    clusters.round(grouped("v2", second_open=False))
    clusters.report("a", 2, 2, 2)
    half = clusters.round(grouped("v2", second_open=False))
    assert (half.decisions["a"].complete, half.complete, half.ledger.stable) == (True, False, "v1")
    clusters.round(grouped("v2", second_open=True))
    clusters.report("b", 6, 6, 6)
    whole = clusters.round(grouped("v2", second_open=True))
    assert (whole.complete, whole.ledger.stable) == (True, "v2")


def test_a_cluster_of_a_closed_group_goes_back_to_the_stable_template_within_the_budget() -> None:
    clusters = Clusters(grouped("v1", second_open=True))
    clusters.round(grouped("v2", second_open=True))
    clusters.report("a", 2, 2, 2)
    clusters.report("b", 6, 4, 3)
    back = clusters.round(grouped("v3", second_open=False))
    assert (back.pushes["a"].revision, back.pushes["b"].revision) == ("v3", "v1")
    assert back.slack.available >= 0


def test_a_template_is_stable_once_all_pods_have_it_whatever_the_partition_says() -> None:
    def wanted(template: str, stable: str) -> Workload:
        return workload(template, {"a": 4}, partition=2, stable=stable, contract=CLONE_SET)

    clusters = Clusters(wanted("v1", ""))
    assert clusters.ledger.stable == "v1"
    pushes = clusters.round(wanted("v2", "v1")).pushes
    assert pushes["a"].partition == 2
    clusters.report("a", 4, 4, 2)
    stopped = clusters.round(wanted("v2", "v1"))
    assert (stopped.complete, stopped.ledger.stable) == (True, "v1")


def test_on_the_way_back_to_the_stable_template_nothing_is_kept() -> None:
    def wanted(template: str) -> Workload:
        return workload(template, {"a": 4}, partition=2, stable="v1", contract=CLONE_SET)

    clusters = Clusters(workload("v1", {"a": 4}, contract=CLONE_SET))
    clusters.round(wanted("v2"))
    clusters.report("a", 4, 4, 2)
    back = clusters.round(wanted("v1"))
    assert back.slack.updated is None
    assert (back.pushes["a"].revision, back.pushes["a"].partition) == ("v1", 0)


def test_a_partition_does_not_keep_a_closed_group_from_going_back() -> None:
    clusters = Clusters(grouped("v1", second_open=True, contract=CLONE_SET))
    clusters.round(grouped("v2", second_open=True, partition=1, contract=CLONE_SET))
    clusters.report("a", 2, 2, 2)
    clusters.report("b", 6, 6, 5)
    wanted = grouped("v3", second_open=False, partition=7, contract=CLONE_SET)
    clusters.round(wanted)
    clusters.report("a", 2, 2, 1)
    clusters.report("b", 6, 6, 1)
    clusters.round(wanted)
    newest = clusters.ledger.clusters["b"].newest
    assert newest is not None
    assert (newest.revision, newest.partition) == ("v1", 0)
