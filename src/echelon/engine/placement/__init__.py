"""Placement: which clusters are chosen, in which groups they are, and how that is published.

All of it works without a clock, a server or a controller:

- A `Scheduler` is told of clusters, cluster sets, bindings, scores and placements, and answers with a `Schedule`: who
  is chosen, with which score. `normalized_score` is for those who publish scores.
- `regroup` and `reslice` make decision groups and decision objects of a choice, with as few changes as possible.
  `current_slices` and `desired_slices` do that for a placement and the decisions that it has.
- `publication_of` returns the writes that lead from one to the other, in batches, so that no reader misses a cluster.
- `DecisionGroups` is for those who consume decisions: the groups in their order, and with `changes` what is new.

>>> import msgspec
>>> from datetime import UTC, datetime
>>> from echelon.api.cluster import ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding
>>> from echelon.api.keys import Key
>>> from echelon.api.placement import Placement
>>> from echelon.engine import placement

Three clusters of a set that a namespace may use, and a placement there that wants Europe first:

>>> scheduler = placement.Scheduler()
>>> for name, region in (("c1", "eu"), ("c2", "us"), ("c3", "us")):
...     labels = {"cluster.open-cluster-management.io/clusterset": "prod", "region": region}
...     wire = {"metadata": {"name": name, "labels": labels}, "spec": {"hubAcceptsClient": True}}
...     _ = scheduler.cluster(msgspec.convert(wire, ManagedCluster))
>>> by_label = {"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}}
>>> _ = scheduler.cluster_set(msgspec.convert({"metadata": {"name": "prod"}, "spec": by_label}, ManagedClusterSet))
>>> bound = {"metadata": {"name": "prod", "namespace": "apps"}, "spec": {"clusterSet": "prod"}}
>>> _ = scheduler.binding(msgspec.convert(bound, ManagedClusterSetBinding))
>>> canary = {"groupName": "canary", "groupClusterSelector": {"labelSelector": {"matchLabels": {"region": "eu"}}}}
>>> wanted = msgspec.convert(
...     {
...         "metadata": {"name": "web", "namespace": "apps"},
...         "spec": {"decisionStrategy": {"groupStrategy": {"decisionGroups": [canary]}}},
...     },
...     Placement,
... )
>>> _ = scheduler.placement(wanted)
>>> schedule = scheduler.schedule(Key("apps", "web"), datetime(2026, 11, 1, tzinfo=UTC))
>>> sorted(schedule.members)
['c1', 'c2', 'c3']

Grouped, and published where there is no decision yet. Writes of one batch do not wait for each other:

>>> current = placement.current_slices([], [])
>>> desired = placement.desired_slices(wanted, schedule, current)
>>> for batch in placement.publication_of(wanted, current, desired).batches:
...     print([type(write).__name__ for write in batch])
['CreateSlice', 'CreateSlice']
['WriteStatus']
['WriteStatus']

What a consumer finds, and what is new to it when there are other clusters:

>>> groups = placement.DecisionGroups.from_slices(desired.slices)
>>> for key, clusters in groups.groups.items():
...     print(key.index, key.name, sorted(clusters))
0 canary ['c1']
1  ['c2', 'c3']
>>> _ = scheduler.cluster_gone("c2")
>>> later = scheduler.schedule(Key("apps", "web"), datetime(2026, 11, 1, tzinfo=UTC))
>>> regrouped = placement.desired_slices(wanted, later, current)
>>> added, removed = placement.changes(groups, placement.DecisionGroups.from_slices(regrouped.slices))
>>> sorted(added), sorted(removed)
([], ['c2'])

A score for a cluster that has 25 of at most 50 nodes:

>>> placement.normalized_score(25, 0, 50)
0

Names are loaded when they are first used, so that who needs one does not pay for the rest.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from echelon.engine.placement.current import CurrentSlices, current_slices
    from echelon.engine.placement.decisions import DecisionGroups, GroupKey, UnreadableIndex, changes
    from echelon.engine.placement.desired import DesiredSlices, desired_slices, publication_of
    from echelon.engine.placement.groups import Group, NotAPercentage, group_size, regroup
    from echelon.engine.placement.normalizing import NoRange, normalized_score
    from echelon.engine.placement.publish import (
        ClaimSlice,
        CreateSlice,
        DeleteSlice,
        Publication,
        StampSlice,
        WriteEmptyList,
        WriteLabels,
        WriteStatus,
    )
    from echelon.engine.placement.schedule import Schedule, SchedulingOutcome
    from echelon.engine.placement.scheduler import Scheduler
    from echelon.engine.placement.slices import Slice, read_slice, reslice

__all__ = [
    "ClaimSlice",
    "CreateSlice",
    "CurrentSlices",
    "DecisionGroups",
    "DeleteSlice",
    "DesiredSlices",
    "Group",
    "GroupKey",
    "NoRange",
    "NotAPercentage",
    "Publication",
    "Schedule",
    "Scheduler",
    "SchedulingOutcome",
    "Slice",
    "StampSlice",
    "UnreadableIndex",
    "WriteEmptyList",
    "WriteLabels",
    "WriteStatus",
    "changes",
    "current_slices",
    "desired_slices",
    "group_size",
    "normalized_score",
    "publication_of",
    "read_slice",
    "regroup",
    "reslice",
]

_MODULES = {
    "current": ("CurrentSlices", "current_slices"),
    "decisions": ("DecisionGroups", "GroupKey", "UnreadableIndex", "changes"),
    "desired": ("DesiredSlices", "desired_slices", "publication_of"),
    "groups": ("Group", "NotAPercentage", "group_size", "regroup"),
    "normalizing": ("NoRange", "normalized_score"),
    "publish": (
        "ClaimSlice",
        "CreateSlice",
        "DeleteSlice",
        "Publication",
        "StampSlice",
        "WriteEmptyList",
        "WriteLabels",
        "WriteStatus",
    ),
    "schedule": ("Schedule", "SchedulingOutcome"),
    "scheduler": ("Scheduler",),
    "slices": ("Slice", "read_slice", "reslice"),
}
_SOURCES = {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _SOURCES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_SOURCES[name]), name)
    return value
