"""Golden cases of other schedulers: what they choose, we choose."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from echelon.api.cluster import AddOnPlacementScore, ManagedCluster
from echelon.api.keys import Key
from echelon.api.placement import Placement
from echelon.engine.placement.addons import ScoreIndex
from echelon.engine.placement.balance import DecisionCounter
from echelon.engine.placement.fleet import FleetIndex
from echelon.engine.placement.groups import group_size, regroup
from echelon.engine.placement.schedule import Schedule
from echelon.engine.placement.slices import Slice, reslice
from tests.conformance.vectors import files, lines
from tests.engine.placement.building import schedule

PLACEMENT_LABEL = "cluster.open-cluster-management.io/placement"
NOW = datetime(2030, 1, 1, tzinfo=UTC)  # scores with an end in the vectors have expired


def without_nulls(value: Any) -> Any:
    """As an API server stores it."""
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


def scheduled(case: Any) -> tuple[Placement, Schedule]:
    fleet, addons = FleetIndex(), ScoreIndex()
    for cluster in case["clusters"]:
        fleet.update(msgspec.convert(cluster, ManagedCluster))
    for score in case["scores"] or []:
        addons.update(msgspec.convert(score, AddOnPlacementScore))
    decided: dict[Key, list[str]] = {}
    for decision in case["decisions"] or []:
        key = Key(decision["metadata"]["namespace"], decision["metadata"]["labels"][PLACEMENT_LABEL])
        decided.setdefault(key, []).extend(each["clusterName"] for each in decision["status"].get("decisions") or [])
    decisions = DecisionCounter(fleet.names)
    for key, clusters in decided.items():
        decisions.replace(key, clusters)
    placement = msgspec.convert(case["placement"], Placement)
    return placement, schedule(placement, fleet, decisions, addons, NOW)


def published(placement: Placement, result: Schedule) -> tuple[Slice, ...]:
    strategy = placement.spec.decision_strategy.group_strategy
    size = group_size(strategy.clusters_per_decision_group, len(result.members))
    names = [group.group_name for group in strategy.decision_groups]
    return reslice(placement.metadata.name, (), regroup((), result.groups, names, size))


def status_groups(slices: tuple[Slice, ...]) -> list[dict[str, Any]]:
    groups: dict[int, dict[str, Any]] = {}
    for each in slices:
        group = groups.setdefault(
            each.group_index,
            {
                "decisionGroupIndex": each.group_index,
                "decisionGroupName": each.group_name,
                "decisions": [],
                "clusterCount": 0,
            },
        )
        group["decisions"].append(each.name)
        group["clusterCount"] += len(each.clusters)
    return list(groups.values())


def differences(case: Any) -> list[str]:
    want = case["want"]
    placement, result = scheduled(case)
    slices = published(placement, result)
    found = {
        "selected": list(result.selected),
        "scores": result.scores,
        "unscheduled": result.unscheduled,
        "status": str(result.outcome.code),
        "decisions": [
            {
                "clusters": list(each.clusters),
                "groupIndex": str(each.group_index),
                "groupName": each.group_name,
                "name": each.name,
            }
            for each in slices
        ],
        "decisionGroups": status_groups(slices),
    }
    return [
        f"{key}: {found[key]} instead of {want.get(key)}"
        for key in found
        if found[key] != (want.get(key) or found[key].__class__())
    ]


def test_there_are_vectors() -> None:
    assert files("placement")


@pytest.mark.parametrize("path", files("placement"), ids=str)
def test_every_vector_agrees(path: Path) -> None:
    wrong = []
    for number, line in enumerate(lines(path), 1):
        if found := differences(without_nulls(json.loads(line))):
            wrong.append(f"line {number}: {found}")
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong[:5])
