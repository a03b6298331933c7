"""Which clusters come to something, leave it, or move from one group of it to another."""

from collections.abc import Mapping
from dataclasses import dataclass

from echelon.engine.placement.decisions import DecisionGroups, GroupKey


@dataclass(frozen=True, slots=True)
class Move:
    """A cluster that changes its group."""

    cluster: str
    before: GroupKey
    after: GroupKey


@dataclass(frozen=True)
class MembershipChange:
    """What becomes of clusters, each with the group where it is, or was."""

    coming: Mapping[str, GroupKey]
    going: Mapping[str, GroupKey]
    moving: tuple[Move, ...] = ()
    staying: int = 0

    def __bool__(self) -> bool:
        return bool(self.coming or self.going or self.moving)


def membership_change(before: DecisionGroups, after: DecisionGroups) -> MembershipChange:
    """Compare groups with those that come after them. A group is the same if it has the same name and index."""
    was, is_ = _homes(before), _homes(after)
    return MembershipChange(
        {cluster: is_[cluster] for cluster in sorted(is_.keys() - was.keys())},
        {cluster: was[cluster] for cluster in sorted(was.keys() - is_.keys())},
        tuple(
            Move(cluster, was[cluster], is_[cluster])
            for cluster in sorted(was.keys() & is_.keys())
            if was[cluster] != is_[cluster]
        ),
        len(was.keys() & is_.keys()),
    )


def _homes(groups: DecisionGroups) -> dict[str, GroupKey]:
    return {cluster: key for key, clusters in sorted(groups.groups.items()) for cluster in clusters}
