"""Decision groups that remember.

A rollout walks the decision groups one after another, so a cluster that slips into another group because a neighbour
came or went is updated at the wrong time. Groups are therefore cut once and from then on only repaired: whoever can
stay stays, and only clusters that have no place are given one.

"Last" has two meanings here, and both are needed. New clusters go to the last group *of their name*. Only the last
group *of all* disappears when it is empty: taking out any other would move the indexes of the groups behind it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from echelon.engine.int_or_percent import IntOrPercent, NotIntOrPercent, Rounding


class NotAPercentage(ValueError):
    """`clustersPerDecisionGroup` is a string that is not a percentage."""

    def __init__(self, value: str) -> None:
        super().__init__(f"{value} invalid type: string is not a percentage")
        self.value = value


@dataclass(frozen=True, slots=True)
class Group:
    """A decision group; its index is its position among the groups of the placement."""

    name: str
    clusters: tuple[str, ...] = ()


def group_size(value: int | str | None, total: int) -> int:
    """How many of the `total` selected clusters a group may have. Whatever sets no limit means all of them."""
    try:
        wanted = IntOrPercent.parse(value)
    except NotIntOrPercent as mistake:
        raise NotAPercentage(mistake.value) from None
    if isinstance(value, str) and wanted.percent is None:  # a number in quotes is none here
        raise NotAPercentage(value)
    size = wanted.of(total, Rounding.UP_IN_FLOATS)
    return size if 0 < size <= total else total


def regroup(history: Sequence[Group], members: Mapping[str, str], names: Sequence[str], size: int) -> tuple[Group, ...]:
    """The groups of the selected clusters, with as few changes to `history` as possible.

    `members` maps each selected cluster to the named group that it matches, or to "" for none. `history` has the groups
    of one name oldest first, and each cluster once; without it the groups are cut from scratch. `names` are the named
    groups in the order of the placement's spec.
    """
    wanted: dict[str, set[str]] = {name: set() for name in (*names, "")}
    for cluster, name in members.items():
        wanted[name].add(cluster)
    groups = [
        Group(name, clusters)
        for name, clusters_of_name in wanted.items()
        for clusters in _repair([group.clusters for group in history if group.name == name], clusters_of_name, size)
    ]
    while groups and not groups[-1].clusters:
        groups.pop()
    return tuple(groups) or (Group(""),)


def _repair(history: Iterable[tuple[str, ...]], wanted: set[str], size: int) -> list[tuple[str, ...]]:
    """The groups of one name: those of `history` without what left or has no room, and the homeless placed."""
    size = max(size, 1)
    homeless = set(wanted)
    groups = []
    overflow: list[str] = []
    for clusters in history:
        staying = sorted(homeless.intersection(clusters))
        homeless.difference_update(staying)
        overflow += staying[size:]
        groups.append(staying[:size])
    movers = sorted([*homeless, *overflow])
    for group in reversed(groups):
        room = size - len(group)
        group.extend(movers[:room])
        group.sort()
        movers = movers[room:]
    groups += [movers[start : start + size] for start in range(0, len(movers), size)]
    return [tuple(group) for group in groups]
