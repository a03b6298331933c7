"""What every round keeps, whatever has happened before: checked in each round of whole lives."""

from collections.abc import Mapping

import pytest

from echelon.engine.align.bounds import bounds_of
from echelon.engine.align.decisions import Round
from echelon.engine.align.ledger import Ledger
from echelon.engine.align.retire import Patience, observe
from echelon.engine.align.round import align
from echelon.engine.align.view import MemberView
from echelon.engine.align.workload import Target, Workload
from tests.engine.align.lives import live
from tests.engine.align.shapes import FAMILIES

Sums = tuple[int, int]
MOST_ROUNDS = 3


def left(wanted: Workload, found: Ledger) -> Sums:
    """What is left of the budgets, added up anew from nothing but the ledger."""
    family = wanted.contract.family
    bounds = [
        bounds_of(entry, family, wanted.targets.get(name, Target(0, "")).revision)
        for name, entry in found.clusters.items()
    ]
    floors, ceilings = sum(each.floor for each in bounds), sum(each.ceiling for each in bounds)
    return floors - wanted.budgets.least_available, wanted.budgets.most_pods - ceilings


def checked(wanted: Workload, before: Ledger, views: Mapping[str, MemberView], now: float, patience: Patience) -> Round:
    found = align(wanted, before, views, now, patience)
    assert Ledger.read(found.ledger.json) == found.ledger
    # Nothing new is heard: then there is nothing more to send, after one round or, where a budget is taken back here
    # and a cluster resized there, after very few.
    silent = found
    for _ in range(MOST_ROUNDS):
        silent = align(wanted, silent.ledger, views, now, patience)
        if not silent.pushes:
            break
    assert not silent.pushes
    # No push breaks a sum, or makes one worse that is broken.
    observed = {
        name: observe(
            entry,
            views.get(name),
            wanted.contract.family,
            now,
            patience,
            reachable=wanted.reaches(name),
        )
        for name, entry in before.clusters.items()
    }
    without = left(wanted, Ledger(clusters=observed))
    after = left(wanted, found.ledger)
    assert all(now_ >= min(0, then) for then, now_ in zip(without, after, strict=True))
    assert after == (found.slack.available, found.slack.pods)
    # Ids rise, and what is sent is what the ledger has last.
    for name, grant in found.pushes.items():
        assert before.next_push <= grant.id < found.ledger.next_push
        assert found.ledger.clusters[name].newest == grant
    assert all(each.message for each in found.decisions.values())
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_no_push_breaks_a_sum_and_rounds_without_news_fall_silent(family: str) -> None:
    for seed in range(500, 504):
        outcome = live(family, seed, align=checked)
        assert not outcome.stuck
        assert outcome.rounds
