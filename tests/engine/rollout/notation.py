"""Rollouts in few characters, for tests.

Groups: `canary: 1 2 / 3 4` is group 0, called canary, with clusters 1 and 2, and group 1 without a name. A group's
index is its place, or stands before the name: `7=canary: 1`.

Reports: `1S-30 2F 3P-120` is cluster 1, succeeded since 30 seconds, 2 failed without a time, 3 progressing since two
minutes. A is to apply, T timed out, K skipped, U a word that nobody knows.

What is in flight or starts is written the same way, with the seconds until its soak or deadline ends: `1S+30 4A`.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec

from echelon.api.rollout import RolloutStrategy
from echelon.engine.placement.decisions import DecisionGroups
from echelon.engine.placement.slices import Slice
from echelon.engine.rollout.model import NO_CONTROL, ClusterStatus, Control, Decision, Phase
from echelon.engine.rollout.strategy import Strategy, read_strategy
from echelon.engine.rollout.walk import decide

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)

_PHASES = {
    "A": Phase.TO_APPLY,
    "P": Phase.PROGRESSING,
    "S": Phase.SUCCEEDED,
    "F": Phase.FAILED,
    "T": Phase.TIMED_OUT,
    "K": Phase.SKIPPED,
    "U": cast("Phase", "Pondering"),
}
_LETTERS = {phase: letter for letter, phase in _PHASES.items()}
_REPORT = re.compile(r"([0-9a-z]*)([APSFTKU])([-+][0-9]+)?")


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def groups_of(text: str) -> DecisionGroups:
    slices = []
    for place, part in enumerate(text.split("/")):
        head, colon, members = part.rpartition(":")
        number, equals, name = head.rpartition("=")
        index = int(number) if equals else place
        slices.append(Slice(f"p-decision-{place}", name.strip() if colon else "", index, index, tuple(members.split())))
    return DecisionGroups.from_slices(slices)


def reports_of(text: str) -> list[ClusterStatus]:
    found = []
    for part in text.split():
        match = _REPORT.fullmatch(part)
        assert match, part
        since = NOW + seconds(int(match[3])) if match[3] else None
        found.append(ClusterStatus(match[1], _PHASES[match[2]], since))
    return found


def strategy_of(kind: str, *, default_concurrency: int | None = None, **settings: Any) -> Strategy:
    """A strategy by the wire names of its fields; `first` lists mandatory groups by name or index."""
    block = {"All": "all", "Progressive": "progressive", "ProgressivePerGroup": "progressivePerGroup"}[kind]
    first = settings.pop("first", None)
    if first is not None:
        settings["mandatoryDecisionGroups"] = [
            {"groupIndex": each} if isinstance(each, int) else {"groupName": each} for each in first
        ]
    wire = msgspec.convert({"type": kind, block: settings}, RolloutStrategy)
    return read_strategy(wire, default_concurrency)


def decided(strategy: Strategy, groups: str, reports: str, control: Control = NO_CONTROL) -> Decision:
    return decide(strategy, groups_of(groups), reports_of(reports), NOW, control)


def moving(decision: Decision) -> str:
    """What is in flight and what starts, by name."""
    found = []
    for one in sorted(decision.cluster_decisions, key=lambda one: one.cluster):
        if one.starts or one.in_flight:
            until = f"{(one.until - NOW).total_seconds():+.0f}" if one.until else ""
            found.append(f"{one.cluster}{_LETTERS[one.phase]}{until}")
    return " ".join(found)


def starting(decision: Decision) -> str:
    return " ".join(sorted(one.cluster for one in decision.to_start))
