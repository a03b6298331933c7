"""Whole federated rollouts, with everything late, lost and out of order, and what people and fate do to them.

Each seed is one life of one family; its kind, sizes, budgets and delays are drawn from it.
"""

import pytest

from tests.budgets import Lives
from tests.engine.align.lives import live
from tests.engine.align.shapes import FAMILIES, KINDS


def run(seed: int, family: str = "") -> None:
    family = family or FAMILIES[seed % len(FAMILIES)]
    outcome = live(family, seed)
    name = f"{family} {seed} ({outcome.kind})"
    assert not outcome.excused, f"{name}: {outcome.excused}\n{outcome.notes}"
    assert not outcome.stuck, f"{outcome.stuck}\n{outcome.notes}"
    # What is not excused may only happen where pods die by themselves.
    assert outcome.deaths or not outcome.strict, f"{name}: {outcome.strict}"


@pytest.mark.lives("federated budgets")
def test_budgets_hold_over_all_clusters_and_nobody_is_stuck(lives: Lives) -> None:
    for seed in lives:
        run(seed)


@pytest.mark.parametrize(
    ("family", "seed"),
    [
        ("groups", 2_000_765),  # a new template with surge, while the surge of the last one was not known to be over
        ("scale", 2_000_330),  # clusters without pods follow the stable template
        ("lost", 2_968),  # budgets changed twice around a lost ledger
        ("lost", 6_411),  # after a lost ledger a cluster that should grow in mid-update did not, and others went on
        ("crash", 3_000_092),  # a debt that a dead pod could not pay was waited for, while another cluster went on
        ("refused", 3_000_213),  # a race of a Deployment with itself, and pushes that its server refuses
        ("mix", 3_000_213),  # a broken template with surge, and the budget cut meanwhile
        ("lost", 4_000_276),  # a unit was taken back and handed out again for ever
        ("mix", 7_001_004),  # a broken template with surge could not be replaced once there was none
        ("lost", 7_002_342),  # a shrink took updated pods, and then the others were updated
        ("mix", 8_000_249),  # a Deployment was not paused, though its ReplicaSets remembered nothing harmful
        ("lost", 8_000_015),  # a status hid what a resize had decided
        ("crash", 8_000_953),  # a CloneSet shed pods that others lacked
        ("refused", 8_001_103),  # less surge was granted together with another template, and its partition was lost
        ("groups", 9_000_106),  # a StatefulSet was not frozen, since the bound of what it might update was loose
        ("knobs", 9_000_794),  # what a CloneSet was to keep had gone, and was made again
        ("knobs", 11_000_099),  # a CloneSet that was to stand still had its partition lowered as its pods were updated
        ("refused", 11_000_333),  # pods of a StatefulSet were not counted which a replaced grant had not wanted
        ("knobs", 11_001_524),  # a Deployment was paused and let go in turns
        ("scale", 520_301),  # pods that a cluster was about to lose were taken for room to grow
        ("mix", 520_173),  # the surge of a broken template kept the next one out
        ("mix", 520_422),  # a paused Deployment with too many pods did not get another template
        ("mix", 15_000_820),  # a unit that a broken template held kept the mended one from being repaired
        ("lost", 14_000_341),  # a Deployment was paused, and dropped old pods when its new ones were complete
        ("refused", 15_002_023),  # pods that had yet to go were taken for ones that a pause might keep
        ("scale", 15_002_381),  # a cluster that was left got its pods back
        ("crash", 12_001_124),  # a paused Deployment dropped old pods, since the new ones were complete
        ("crash", 15_001_967),  # pods that had died in a cluster that was through were taken for old ones
        ("knobs", 23_000_296),  # a pause gave a Deployment back a pod that it was about to lose
        ("groups", 23_000_323),  # a template that was there already closed a group again, in the simulation
        ("mix", 23_000_353),  # a cluster that was left was updated, and a broken template kept it
        ("knobs", 21_000_249),  # what could not be taken from one cluster was not taken from another, either
        ("groups", 33_000_156),  # a pause took pods that worked, since no more did than were wanted
        ("knobs", 52_001_577),  # two CloneSets that must be allowed to lack a pod shed those that they had too many
        ("groups", 51_000_153),  # a pod that was marked before more were asked for went when they were there
        ("refused", 51_000_324),  # a StatefulSet was to be complete, and then to grow, and a partition came after that
        ("young", 20_325),  # a StatefulSet that had stopped held units which kept it from going on with fewer
        ("young", 20_387),  # and which kept broken clusters from being repaired
        ("refused", 56_000_974),  # a paused Deployment that remembered a pod too many could not shrink
        ("mix", 60_000_074),  # a cluster that was away got what it had missed, and right after it what is sent now
        ("groups", 61_000_681),  # what was left went to one that could not use it until another had got it
        ("lost", 62_000_490),  # both limits were lowered, and a pod too many was what reached one of them
        ("mix", 72_000_464),  # a Deployment with two pods too many was not paused, as if that took one, and shed both
        ("knobs", 72_000_654),  # a CloneSet was to keep an updated pod that had gone, and made another one
        ("mix", 73_000_819),  # a cluster that was left held the one unit for repairs, for a template that never works
        ("groups", 41_001_967),  # eighteen pods moved one by one, where agents cannot tell, and the life was too short
    ],
)
def test_lives_that_once_failed_do_not(family: str, seed: int) -> None:
    run(seed, family)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_rolled_out_within_its_budgets(kind: str) -> None:
    for seed in range(6):
        outcome = live("static", seed, kind=kind)
        assert (outcome.strict, outcome.excused, outcome.stuck) == ([], [], "")


def test_a_life_can_be_lived_again() -> None:
    assert live("mix", 7).digest == live("mix", 7).digest
