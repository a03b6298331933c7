"""Every small Deployment that is paused or resized, against what the ledger says that this may cost."""

import itertools
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from echelon.engine.align.contract import Family
from echelon.engine.align.deployment_bounds import DeploymentReach
from echelon.engine.align.grant import Grant
from echelon.fleet.member.decide.deployment import DeploymentView, SetView, decide
from tests.engine.align.notation import entry, view

SIZES = ((2, 6, 9), (3, 5, 6))  # of ReplicaSets: how many, with how many pods at the most, remembering how many


def partitions(pods: int, sets: int) -> Iterator[tuple[int, ...]]:
    """Return every way in which so many ReplicaSets can have so many pods, the largest first."""
    for sizes in itertools.product(range(1, pods + 1), repeat=sets):
        if sum(sizes) == pods and list(sizes) == sorted(sizes, reverse=True):
            yield sizes


def resizes(*, stands: bool) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], int, int]]:
    """Return sizes, what each remembers, the new total, and the most pods that the ledger thinks there may be."""
    for sets, highest, longest in SIZES:
        totals = range(1, longest + 1)
        for pods, most in itertools.product(range(sets, highest + 1), totals):
            ceilings = (pods,) if stands else range(pods, highest + 1)
            yield from itertools.product(
                partitions(pods, sets), itertools.product(totals, repeat=sets), (most,), ceilings
            )


def taken(sizes: tuple[int, ...], remembered: tuple[int, ...], most: int) -> int:
    """Return how many pods ReplicaSets lose when their Deployment is paused with so many replicas."""
    sets = tuple(
        SetView(f"s{place}", size, size, size, size, born=place, desired=ceiling, most=ceiling)
        for place, (size, ceiling) in enumerate(zip(sizes, remembered, strict=True))
    )
    now = dict(decide(DeploymentView(most, paused=True, olds=sets)).sizes)
    return sum(max(0, each.size - now.get(each.name, each.size)) for each in sets)


@pytest.mark.parametrize("stands", [True, False])
def test_a_resize_takes_no_more_pods_than_it_is_charged_with(*, stands: bool) -> None:
    some = Grant(1, "v1", 1, 1)
    start = DeploymentReach.of(entry(Family.DEPLOYMENT, some, view(some, 1, 1, 1)), "v1")
    assert isinstance(start, DeploymentReach)
    cases = 0
    for sizes, remembered, most, ceiling in resizes(stands=stands):
        lowest, highest = min(remembered), max(remembered)
        reach = replace(start, several=True, stands=stands, ceiling=ceiling, lowest=lowest, highest=highest)
        cases += 1
        assert taken(sizes, remembered, most) <= reach.cut(most), (sizes, remembered, most, ceiling)
    assert cases > 10_000
