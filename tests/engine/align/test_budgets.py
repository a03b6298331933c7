import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.base import IntOrString
from echelon.engine.align.budgets import BadStrategy, Budgets, RollingStrategy, resolve_budgets
from echelon.engine.align.contract import CLONE_SET, CLONE_SET_V1BETA1, DEPLOYMENT, STATEFUL_SET, Contract
from echelon.fleet.member.decide.budgets import deployment_limits

VALUES = st.integers(0, 30) | st.integers(0, 100).map(lambda percent: f"{percent}%")


@given(total=st.integers(1, 200), unavailable=VALUES, surge=VALUES)
def test_in_all_clusters_together_a_deployment_has_the_limits_of_one(
    total: int, unavailable: IntOrString, surge: IntOrString
) -> None:
    strategy = RollingStrategy(max_unavailable=unavailable, max_surge=surge)
    found = resolve_budgets(strategy, DEPLOYMENT, total)
    assert (found.surge, found.unavailable) == deployment_limits(surge, unavailable, total)


@pytest.mark.parametrize(
    ("contract", "strategy", "expected"),
    [
        (DEPLOYMENT, RollingStrategy(), Budgets(10, 2, 3)),
        (DEPLOYMENT, RollingStrategy(max_unavailable="1%", max_surge=0), Budgets(10, 1, 0, both_were_zero=True)),
        (CLONE_SET, RollingStrategy(), Budgets(10, 2, 0)),
        (CLONE_SET, RollingStrategy(max_unavailable="25%"), Budgets(10, 3, 0)),
        (CLONE_SET, RollingStrategy(max_unavailable="25%", max_surge=1), Budgets(10, 2, 1)),
        (CLONE_SET, RollingStrategy(partition=4), Budgets(10, 2, 0, 4)),
        (CLONE_SET, RollingStrategy(partition="95%"), Budgets(10, 2, 0, 9)),
        (STATEFUL_SET, RollingStrategy(max_unavailable="5%", max_surge=3), Budgets(10, 1, 0)),
        (STATEFUL_SET, RollingStrategy(partition=40), Budgets(10, 1, 0, 10)),
    ],
)
def test_each_kind_rounds_as_it_does_in_one_cluster(
    contract: Contract, strategy: RollingStrategy, expected: Budgets
) -> None:
    assert resolve_budgets(strategy, contract, 10) == expected


def test_a_percentage_is_of_the_total_and_not_of_each_part() -> None:
    assert resolve_budgets(RollingStrategy(max_unavailable="25%"), DEPLOYMENT, 3 + 3 + 4).unavailable == 2


@pytest.mark.parametrize(
    ("contract", "strategy", "message"),
    [
        (
            DEPLOYMENT,
            RollingStrategy(max_surge="many"),
            "maxSurge is 'many': it must be a number or a whole percentage",
        ),
        (DEPLOYMENT, RollingStrategy(max_unavailable=-1), "maxUnavailable is -1: it must not be negative"),
        (CLONE_SET, RollingStrategy(partition="x"), "partition is 'x': it must be a number or a whole percentage"),
        (
            CLONE_SET_V1BETA1,
            RollingStrategy(max_unavailable=0, max_surge=1),
            "maxUnavailable is 0: it must come to 1 at least for this kind, and comes to 0",
        ),
    ],
)
def test_what_says_nothing_sensible_is_named(contract: Contract, strategy: RollingStrategy, message: str) -> None:
    with pytest.raises(BadStrategy) as caught:
        resolve_budgets(strategy, contract, 10)
    assert str(caught.value) == message
