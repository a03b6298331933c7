"""Strategies are read once, as a whole, and what cannot be carried out is refused by name."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from echelon.api.rollout import MandatoryDecisionGroup, RolloutStrategy
from echelon.engine.placement.decisions import GroupKey
from echelon.engine.rollout.durations import NotADuration
from echelon.engine.rollout.strategy import (
    BadStrategy,
    Strategy,
    StrategyType,
    mandatory_keys,
    read_deadline,
    read_strategy,
)
from tests.engine.rollout.notation import decided, starting, strategy_of

BLOCKS = [("All", "all"), ("Progressive", "progressive"), ("ProgressivePerGroup", "progressivePerGroup")]


def read(wire: dict[str, Any], default_concurrency: int | None = None) -> Strategy:
    return read_strategy(msgspec.convert(wire, RolloutStrategy), default_concurrency)


@pytest.mark.parametrize(
    ("number", "text", "deadline"),
    [
        ("P01", "2h", timedelta(hours=2)),
        ("P02", "30m", timedelta(minutes=30)),
        ("P03", "10s", timedelta(seconds=10)),
        ("P04", "None", None),
        ("P05", "", None),
        ("one and a half", "1h30m", timedelta(minutes=90)),
        ("short", "10ms", timedelta(milliseconds=10)),
        ("instantly", "0s", timedelta()),
    ],
)
def test_deadlines(number: str, text: str, deadline: timedelta | None) -> None:
    del number
    assert read_deadline(text) == deadline


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("P06", "2d"),
        ("P07", "0"),
        ("P08", "2d0s"),
        ("P09", "10g"),
        ("D21", "2hxyz"),
        ("D21", "5|"),
        ("D21", "fooNone"),
        ("D21", "Nonesuch"),
        ("fraction", "1.5h"),
        ("negative", "-1h"),
        ("spaces", " 2h"),
    ],
)
@pytest.mark.parametrize(("kind", "block"), BLOCKS)
def test_deadlines_that_are_none(*, number: str, text: str, kind: str, block: str) -> None:
    del number
    with pytest.raises(NotADuration):
        read_deadline(text)
    with pytest.raises(BadStrategy, match="invalid timeout format") as mistake:
        read({"type": kind, block: {"progressDeadline": text}})
    assert (mistake.value.field, mistake.value.value) == (f"{block}.progressDeadline", text)


@pytest.mark.parametrize("text", ["", "2d", "-5m", "soon"])
@pytest.mark.parametrize(("kind", "block"), BLOCKS)
def test_soaks_that_are_none(text: str, kind: str, block: str) -> None:
    with pytest.raises(BadStrategy) as mistake:
        read({"type": kind, block: {"minSuccessTime": text}})
    assert str(mistake.value) == (
        f'rolloutStrategy.{block}.minSuccessTime is "{text}": '
        "it must be a duration such as 0, 90s, 10m or 1h30m, and not negative"
    )


@pytest.mark.parametrize(
    ("kind", "block", "name"),
    [*((kind, block, "maxFailures") for kind, block in BLOCKS), ("Progressive", "progressive", "maxConcurrency")],
)
def test_limits_that_are_none(kind: str, block: str, name: str) -> None:
    with pytest.raises(BadStrategy) as mistake:
        read({"type": kind, block: {name: "many"}})
    assert mistake.value.field == f"{block}.{name}"
    assert mistake.value.value == "many"


@pytest.mark.parametrize("kind", ["", "all", "Canary"])
def test_types_that_are_none(kind: str) -> None:
    with pytest.raises(BadStrategy, match="incorrect rollout strategy type") as mistake:
        read({"type": kind})
    assert (mistake.value.field, mistake.value.value) == ("type", kind)


def test_nothing_is_everything_at_once() -> None:
    assert read({}) == Strategy(StrategyType.ALL)


@pytest.mark.parametrize(("kind", "block"), BLOCKS)
def test_a_type_without_its_block_has_no_limits_but_of_failures(kind: str, block: str) -> None:
    assert read({"type": kind}) == read({"type": kind, block: {}}) == Strategy(StrategyType(kind))


def test_a_mistake_in_a_block_of_another_type_is_none() -> None:
    assert read({"type": "Progressive", "all": {"progressDeadline": "soon"}}).type is StrategyType.PROGRESSIVE


def test_d19_a_number_in_quotes_is_a_number() -> None:
    strategy = strategy_of("Progressive", maxConcurrency="2", maxFailures="1")
    decision = decided(strategy, "1 2 3 4", "1T")
    assert (starting(decision), decision.breach) == ("2 3", False)


@pytest.mark.parametrize(
    ("asked", "default", "concurrency"),
    [(None, 2, 2), (None, None, 4), (3, 2, 3), (0, 2, 2), ("0%", 2, 2), (None, 99, 4), (None, 0, 4), (99, 2, 4)],
)
def test_d22_who_does_not_say_how_many_gets_the_default_of_the_kind_of_rollout(
    asked: int | str | None, default: int | None, concurrency: int
) -> None:
    settings = {} if asked is None else {"maxConcurrency": asked}
    strategy = strategy_of("Progressive", default_concurrency=default, **settings)
    assert strategy.concurrency(4) == concurrency
    assert len(decided(strategy, "1 2 3 4", "").to_start) == concurrency


@pytest.mark.parametrize(
    ("number", "listed", "keys"),
    [
        ("G01", [("group1", 1), ("group2", 2)], [GroupKey(0, "group1"), GroupKey(0, "group2")]),
        ("G02", [("group1", 0), ("group2", 0)], [GroupKey(0, "group1"), GroupKey(0, "group2")]),
        ("G03", [("", 1), ("", 2)], [GroupKey(1), GroupKey(2)]),
        ("G04", [("", 0)], [GroupKey(0)]),
        ("G05", [], []),
    ],
)
def test_mandatory_groups(number: str, listed: list[tuple[str, int]], keys: list[GroupKey]) -> None:
    del number
    groups = [MandatoryDecisionGroup(group_name=name, group_index=index) for name, index in listed]
    assert mandatory_keys(groups) == tuple(keys)
