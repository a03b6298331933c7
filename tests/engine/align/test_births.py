"""Clusters of which nothing has been heard yet: they may have nothing, or everything that they were sent."""

import pytest

from echelon.engine.align.contract import CLONE_SET, DEPLOYMENT, Contract
from echelon.engine.align.decisions import BudgetWait
from echelon.engine.align.ledger import Ledger
from echelon.engine.align.round import align
from tests.engine.align.notation import complete, view, workload

SIZES = {"c1": 5, "c2": 5, "c3": 5}


@pytest.mark.parametrize("contract", [DEPLOYMENT, CLONE_SET])
def test_a_cluster_that_was_never_heard_of_keeps_the_template_it_was_sent_until_it_reports(contract: Contract) -> None:
    """All of its pods may be available: a new template, in a form that makes first pods, would replace them."""
    first = align(workload("v1", SIZES, unavailable=1, contract=contract), Ledger(), {}, 0.0)
    wanted = workload("v2", SIZES, unavailable=1, contract=contract)
    silent = align(wanted, first.ledger, {}, 1.0)
    assert not silent.pushes
    assert {each.wait for each in silent.decisions.values()} == {BudgetWait.REPORT}

    heard = {"c1": complete(first.pushes["c1"]), "c2": view(first.pushes["c2"], 5, 0, 5)}
    after = align(wanted, silent.ledger, heard, 2.0)
    assert "c3" not in after.pushes
    assert not any(grant.paused is False and grant.partition < 5 for grant in after.pushes.values())


def test_all_of_them_move_when_all_have_reported() -> None:
    first = align(workload("v1", SIZES, unavailable=1), Ledger(), {}, 0.0)
    views = {name: complete(grant) for name, grant in first.pushes.items()}
    after = align(workload("v2", SIZES, unavailable=1), first.ledger, views, 1.0)
    assert {name: grant.paused for name, grant in after.pushes.items()} == {"c1": False, "c2": True, "c3": True}
