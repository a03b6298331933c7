"""Until a template was complete everywhere, the one that the workload began with is what a partition keeps pods of."""

import json
from dataclasses import replace

import msgspec
import pytest

from echelon.engine.align.contract import CLONE_SET, DEPLOYMENT, STATEFUL_SET, Contract
from echelon.engine.align.decisions import BudgetWait, Round
from echelon.engine.align.grant import Grant
from echelon.engine.align.ledger import Ledger
from echelon.engine.align.round import align
from echelon.engine.align.view import MemberView
from echelon.engine.align.workload import Workload
from tests.engine.align.notation import complete, view, workload

SIZES = {"a": 4, "b": 6, "sick": 2}


def wanted(
    template: str,
    *,
    partition: int = 0,
    contract: Contract = CLONE_SET,
    first: str = "v1",
    paused: bool = False,
    **more: int,
) -> Workload:
    found = workload(template, {**SIZES, **more}, unavailable=12, partition=partition, contract=contract, paused=paused)
    targets = {name: replace(each, first=first) for name, each in found.targets.items()}
    return replace(found, targets=targets)


def reported(grants: dict[str, Grant]) -> dict[str, MemberView]:
    """All have what they were sent, but for one whose pods do not get ready."""
    return {name: view(each, 2, 0, 2) if name == "sick" else complete(each) for name, each in grants.items()}


def begun(contract: Contract = CLONE_SET) -> tuple[Ledger, dict[str, MemberView]]:
    """Return a workload whose first template is complete in all clusters but one."""
    sent = align(wanted("v1", contract=contract, first=""), Ledger(), {}, 0.0)
    views = reported(dict(sent.pushes))
    found = align(wanted("v1", contract=contract), sent.ledger, views, 1.0)
    assert (found.complete, found.ledger.stable, found.ledger.first) == (False, "", "v1")
    return found.ledger, views


def promised(found: Round, template: str) -> int:
    """How many pods may get a template by what the clusters were sent last."""
    grants = [each.grant for each in found.decisions.values()]
    return sum(each.replicas - each.partition for each in grants if each is not None and each.revision == template)


@pytest.mark.parametrize("contract", [CLONE_SET, STATEFUL_SET])
@pytest.mark.parametrize("partition", range(1, 13))
def test_a_partition_holds_though_one_cluster_never_was_complete(contract: Contract, partition: int) -> None:
    ledger, views = begun(contract)
    for moment in range(2, 8):
        found = align(wanted("v2", partition=partition, contract=contract), ledger, views, moment)
        assert sum(each.bounds.updated for each in found.decisions.values()) <= 12 - partition
        assert promised(found, "v2") <= 12 - partition
        ledger = found.ledger
        sent = {name: each.newest for name, each in ledger.clusters.items() if each.newest is not None}
        views = {
            name: view(each, each.replicas, each.replicas, each.replicas - each.partition)
            for name, each in sent.items()
        }
    assert promised(found, "v2") == 12 - partition


def test_it_holds_though_nobody_knows_the_first_template_any_more() -> None:
    ledger, views = begun()
    assert promised(align(wanted("v2", partition=9, first=""), ledger, views, 2.0), "v2") == 3


def test_there_is_nothing_to_keep_while_the_first_template_makes_its_way_and_on_the_way_back_to_it() -> None:
    sent = align(wanted("v1", partition=9), Ledger(), {}, 0.0)
    assert promised(sent, "v1") == 12
    ledger, views = begun()
    there = align(wanted("v2", partition=9), ledger, views, 2.0)
    back = align(wanted("v1", partition=9), there.ledger, views, 3.0)
    assert back.slack.updated is None


def test_a_cluster_that_comes_is_born_with_the_first_template_while_a_partition_keeps_pods_of_it() -> None:
    ledger, views = begun()
    found = align(wanted("v2", partition=9, new=3), ledger, views, 2.0)
    assert found.pushes["new"].revision == "v1"
    views = {**views, "new": complete(found.pushes["new"])}
    assert align(wanted("v2", partition=9, new=3), found.ledger, views, 3.0).pushes["new"].revision == "v2"


def test_a_pause_keeps_a_new_clone_set_on_the_first_template_and_a_new_deployment_without_pods() -> None:
    ledger, views = begun()
    assert align(wanted("v2", new=3, paused=True), ledger, views, 2.0).pushes["new"].revision == "v1"
    ledger, views = begun(DEPLOYMENT)
    found = align(wanted("v2", contract=DEPLOYMENT, new=3, paused=True), ledger, views, 2.0)
    assert "new" not in found.pushes
    assert found.decisions["new"].wait is BudgetWait.PAUSED


@pytest.mark.parametrize("paused", [False, True])
def test_a_cluster_that_is_not_open_is_not_born_with_what_was_complete_nowhere(*, paused: bool) -> None:
    ledger, views = begun()
    later = wanted("v2", partition=9, new=3, paused=paused)
    closed = replace(later, targets={**later.targets, "new": replace(later.targets["new"], open=False)})
    found = align(closed, ledger, views, 2.0)
    assert "new" not in found.pushes
    assert found.decisions["new"].wait in (BudgetWait.GROUP, BudgetWait.PAUSED)


def test_what_was_complete_everywhere_takes_its_place() -> None:
    ledger, views = begun()
    whole = align(wanted("v1"), ledger, {**views, "sick": complete(ledger.clusters["sick"].grants[0].grant)}, 2.0)
    assert (whole.ledger.stable, whole.ledger.first) == ("v1", "v1")
    targets = {name: replace(each, stable="v5") for name, each in wanted("v2").targets.items()}
    assert {each.old for each in targets.values()} == {"v5"}


def test_the_first_template_is_forgotten_with_the_last_cluster() -> None:
    ledger, _ = begun()
    assert ledger.without(["a"]).first == "v1"
    assert not ledger.without(SIZES).first
    refused = Ledger(next_push=9, clusters={}, first="v1")
    assert align(wanted("v2", first=""), refused, {}, 1.0).ledger.first == "v2"


def test_ledgers_of_versions_without_it_are_read_and_those_with_it_by_them() -> None:
    ledger, views = begun()
    content = json.loads(ledger.json)
    del content["first"]
    earlier = Ledger.read(content)
    assert earlier == msgspec.structs.replace(ledger, first=msgspec.UNSET)
    assert json.loads(earlier.json) == content
    # Of a workload that began before, it is not known; and nothing is written because of it.
    again = align(wanted("v1", first=""), earlier, views, 1.0)
    assert again.ledger is earlier
    # A version that does not know a field of a later one leaves it alone.
    assert Ledger.read({**content, "ofALaterVersion": "v1"}) == earlier
