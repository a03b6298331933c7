"""Rollout strategies, whoever has them: what cannot be carried out, and what is hardly meant."""

from collections.abc import Iterator
from typing import Any

import msgspec

from echelon.api.base import JSONObject
from echelon.api.rollout import RolloutStrategy
from echelon.engine.lint.documents import WARNING, Document, Finding, mapping, sequence
from echelon.engine.rollout.control import BadControl, read_control
from echelon.engine.rollout.strategy import BadStrategy, Strategy, StrategyType, read_strategy

_BLOCKS = ("all", "progressive", "progressivePerGroup")


def lint_strategy(one: Document, strategy: JSONObject, at: str, zero: str) -> Iterator[Finding]:
    """Look at a strategy; `zero` says what a concurrency of zero means here."""
    if "rolloutType" in strategy:
        yield one.is_now(f"{at}.rolloutType", "type")
    for block in _BLOCKS:
        if "timeout" in mapping(strategy.get(block)):
            yield one.is_now(f"{at}.{block}.timeout", "progressDeadline")
    try:
        read = read_strategy(msgspec.convert(strategy, RolloutStrategy))
    except BadStrategy as mistake:
        yield one.finds(f"{at}.{mistake.field}", f'"{mistake.value}": {mistake.rule}')
        return
    except msgspec.ValidationError as mistake:
        yield one.finds(at, str(mistake))
        return
    unused = [block for block in _BLOCKS if block in strategy and block != read.type[:1].lower() + read.type[1:]]
    if unused and not (read.type is StrategyType.ALL and "rolloutType" in strategy):
        yield one.finds(f"{at}.{unused[0]}", f"the type is {read.type}, so this is not used", WARNING)
    asked = asked_concurrency(strategy) if read.type is StrategyType.PROGRESSIVE else None
    if asked is not None and read.max_concurrency.is_zero:
        yield one.finds(f"{at}.progressive.maxConcurrency", zero, WARNING)


def asked_concurrency(strategy: JSONObject) -> Any:
    """Return how many clusters may be in flight, as somebody wrote it; None if nobody did."""
    return mapping(strategy.get("progressive")).get("maxConcurrency")


def readable(strategy: JSONObject) -> Strategy | None:
    """Return a strategy, if it can be read."""
    try:
        return read_strategy(msgspec.convert(strategy, RolloutStrategy))
    except (BadStrategy, msgspec.ValidationError):
        return None


def lint_mandatory(one: Document, strategy: JSONObject, at: str, placements: str, known: set[str]) -> Iterator[Finding]:
    """Look for mandatory groups that the placements, whose groups are known, do not have."""
    for block in _BLOCKS[1:]:
        asked = sequence(mapping(strategy.get(block)).get("mandatoryDecisionGroups"))
        for number, each in enumerate(asked):
            name = str(mapping(each).get("groupName", ""))
            if name and name not in known:
                there = ", ".join(sorted(known - {""})) or "none"
                problem = f"placement {placements} has no group {name}; it has {there}: nothing would start"
                yield one.finds(f"{at}.{block}.mandatoryDecisionGroups[{number}].groupName", problem)


def lint_control(one: Document) -> Iterator[Finding]:
    """Look at the annotations that control a rollout."""
    try:
        read_control(one.annotations, "")
    except BadControl as mistake:
        yield one.finds(f"metadata.annotations[{mistake.annotation}]", f'"{mistake.value}": {mistake.rule}')
