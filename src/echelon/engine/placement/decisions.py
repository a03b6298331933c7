"""For those who consume decisions: which clusters are in which group, right now.

A reader may look in the middle of an update: a cluster is listed twice, an index is missing or used by groups of two
names. None of that may drop a cluster or let one be treated too early. So every index counts, whatever is missing below
it, and a cluster that is listed in several groups is in the one with the highest index.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from echelon.api.placement import PlacementDecision
from echelon.engine.placement.slices import INDEX_LABEL, Slice, read_slice, readable_index


class UnreadableIndex(ValueError):
    """A decision's group index is not a number. Any guess could be too low, and roll something out too early."""

    def __init__(self, decision: str, value: str) -> None:
        super().__init__(f"incorrect group index: decision {decision} has {INDEX_LABEL}={value}")
        self.decision = decision
        self.value = value


@dataclass(frozen=True, slots=True, order=True)
class GroupKey:
    """A decision group; in a question, a name stands for all groups of that name, and its index for nothing.

    It names its placement only where groups of several are together. Their order is by placement first.
    """

    placement: str = field(default="", kw_only=True)
    index: int = 0
    name: str = ""


@dataclass(frozen=True)
class DecisionGroups:
    """The decision groups of a placement in the order of their indexes, each cluster in exactly one of them."""

    groups: Mapping[GroupKey, frozenset[str]]

    @classmethod
    def from_decisions(cls, decisions: Iterable[PlacementDecision]) -> "DecisionGroups":
        """The groups of one placement's decisions. A decision without an index belongs to group 0."""
        decisions = tuple(decisions)
        for decision in decisions:
            index = decision.metadata.labels.get(INDEX_LABEL, "0")
            if not readable_index(index):
                raise UnreadableIndex(decision.metadata.name, index)
        return cls.from_slices(map(read_slice, decisions))

    @classmethod
    def from_slices(cls, slices: Iterable[Slice]) -> "DecisionGroups":
        """The same for decisions as the engine sees them."""
        home: dict[str, GroupKey] = {}
        groups: dict[GroupKey, set[str]] = {}
        for one in sorted(slices, key=lambda one: (one.group_index, one.group_name)):
            key = GroupKey(one.group_index, one.group_name)
            groups.setdefault(key, set())
            home.update(dict.fromkeys(one.clusters, key))
        for cluster, key in home.items():
            groups[key].add(cluster)
        return cls({key: frozenset(clusters) for key, clusters in groups.items()})

    @cached_property
    def clusters(self) -> frozenset[str]:
        """All clusters that are decided."""
        return frozenset().union(*self.groups.values())

    @cached_property
    def _homes(self) -> dict[str, GroupKey]:
        return {cluster: key for key, clusters in self.groups.items() for cluster in clusters}

    def group_of(self, cluster: str) -> GroupKey | None:
        """The group in which a cluster is, if it is in any."""
        return self._homes.get(cluster)

    def expand(self, keys: Iterable[GroupKey]) -> tuple[GroupKey, ...]:
        """The existing groups that are asked for, in the order asked: by name, and by index where the name is empty."""
        found = (
            group
            for key in keys
            for group in self.groups
            if key.placement in ("", group.placement)
            and (group.name == key.name if key.name else group.index == key.index)
        )
        return tuple(dict.fromkeys(found))

    def only(self, keys: Iterable[GroupKey]) -> dict[GroupKey, frozenset[str]]:
        """The groups that are asked for; none if nothing is asked for."""
        return {key: self.groups[key] for key in self.expand(keys)}

    def besides(self, keys: Iterable[GroupKey]) -> dict[GroupKey, frozenset[str]]:
        """All groups but those named, by index; all of them if none is named."""
        without = set(self.expand(keys))
        return {key: clusters for key, clusters in self.groups.items() if key not in without}


def changes(before: DecisionGroups, after: DecisionGroups) -> tuple[frozenset[str], frozenset[str]]:
    """The clusters that were added and those that were removed. One that only changed its group is in neither."""
    return after.clusters - before.clusters, before.clusters - after.clusters
