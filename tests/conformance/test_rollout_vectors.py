"""Golden cases of rollouts: what others decide, we decide; and the strict rules where others go wrong."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from echelon.api.rollout import RolloutStrategy
from echelon.engine.placement.decisions import DecisionGroups
from echelon.engine.placement.slices import Slice
from echelon.engine.rollout.model import ClusterStatus, Decision, Phase
from echelon.engine.rollout.strategy import read_strategy
from echelon.engine.rollout.walk import decide
from tests.conformance.vectors import files, lines

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)


def decided(case: Any) -> Decision:
    groups = DecisionGroups.from_slices(
        Slice(f"p-{group['index']}", group.get("name") or "", group["index"], group["index"], tuple(group["clusters"]))
        for group in case["groups"]
    )
    statuses = [
        ClusterStatus(
            one["cluster"],
            Phase(one["status"]),
            None if one.get("ageSeconds") is None else NOW - timedelta(seconds=one["ageSeconds"]),
        )
        for one in case["existing"] or []
    ]
    return decide(read_strategy(msgspec.convert(case["strategy"], RolloutStrategy)), groups, statuses, NOW)


def differences(case: Any) -> list[str]:
    want, decision = case["want"], decided(case)
    after = decision.recheck_after
    found = {
        "clustersToRollout": sorted(
            (one.cluster, str(one.phase)) for one in decision.cluster_decisions if one.starts or one.in_flight
        ),
        "clustersTimeOut": list(decision.newly_timed_out),
        "clustersRemoved": [status.cluster for status in decision.removed],
        "maxFailureBreach": decision.breach,
        "recheckAfterSeconds": after.total_seconds() if after else None,
    }
    wanted = {
        "clustersToRollout": sorted((one["cluster"], one["status"]) for one in want["clustersToRollout"] or []),
        "clustersTimeOut": sorted(want["clustersTimeOut"] or []),
        "clustersRemoved": sorted(want["clustersRemoved"] or []),
        "maxFailureBreach": want["maxFailureBreach"],
        "recheckAfterSeconds": want["recheckAfterSeconds"],
    }
    return [f"{key}: {found[key]} instead of {wanted[key]}" for key in found if found[key] != wanted[key]]


def test_there_are_vectors() -> None:
    assert files("rollout")


@pytest.mark.parametrize("path", files("rollout"), ids=str)
def test_every_vector_agrees(path: Path) -> None:
    wrong = []
    for number, line in enumerate(lines(path), 1):
        if found := differences(json.loads(line)):
            wrong.append(f"line {number}: {found}")
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong[:5])
