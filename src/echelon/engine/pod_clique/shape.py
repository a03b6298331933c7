"""Which PodCliques, scaling groups and gangs a set should have at its present sizes.

A replica of a set has a base gang, which holds every standalone clique and of each group as many replicas as must start
together; each further replica of a group is a gang of its own. Sizes are those of the children that exist, because
people and autoscalers change them there, and else those of the set.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from echelon.api.groverules import MOST_GROUP_REPLICAS
from echelon.engine.pod_clique.names import (
    STANDALONE,
    CliqueKey,
    GroupKey,
    base_gang_name,
    clique_name,
    group_name,
    scaled_gang_name,
)
from echelon.engine.pod_clique.set_spec import CliqueSpec, GroupSpec, SetSpec


@dataclass(frozen=True, slots=True)
class ExpectedClique:
    """A PodClique that should exist."""

    key: CliqueKey
    name: str
    spec: CliqueSpec
    replicas: int
    gang: str
    base_gang: str = ""  # of a gang beyond the minimum: the one that must be up first
    group: str = ""  # the name of its PodCliqueScalingGroup


@dataclass(frozen=True, slots=True)
class ExpectedGroup:
    """A PodCliqueScalingGroup that should exist."""

    key: GroupKey
    name: str
    spec: GroupSpec
    replicas: int


@dataclass(frozen=True, slots=True)
class ExpectedGang:
    """A PodGang that should exist, with the PodCliques whose pods it holds, in their order."""

    name: str
    replica: int
    cliques: tuple[ExpectedClique, ...]
    base_gang: str = ""  # "" for a base gang itself


@dataclass(frozen=True)
class Shape:
    """All that should exist, replica by replica; a gang's cliques are among `cliques`."""

    cliques: tuple[ExpectedClique, ...]
    groups: tuple[ExpectedGroup, ...]
    gangs: tuple[ExpectedGang, ...]
    oversized: tuple[str, ...] = ()  # groups that have a size beyond all reason, by name

    @cached_property
    def clique(self) -> Mapping[str, ExpectedClique]:
        """The cliques by name."""
        return {each.name: each for each in self.cliques}

    @cached_property
    def group(self) -> Mapping[str, ExpectedGroup]:
        """The groups by name."""
        return {each.name: each for each in self.groups}

    @cached_property
    def gang(self) -> Mapping[str, ExpectedGang]:
        """The gangs by name."""
        return {each.name: each for each in self.gangs}


def expected(spec: SetSpec, set_name: str, group_sizes: Mapping[str, int], clique_sizes: Mapping[str, int]) -> Shape:
    """Return what a set should have; sizes are by the names of the children that exist."""
    cliques: list[ExpectedClique] = []
    groups: list[ExpectedGroup] = []
    gangs: list[ExpectedGang] = []
    members = {group.name: spec.members(group) for group in spec.groups}
    for replica in range(spec.replicas):
        base = base_gang_name(set_name, replica)
        together: list[ExpectedClique] = []
        for each in spec.standalone:
            name = clique_name(set_name, key := CliqueKey(replica, "", STANDALONE, each.name))
            together.append(ExpectedClique(key, name, each, clique_sizes.get(name, each.replicas), base))
        scaled: list[ExpectedGang] = []
        for group in spec.groups:
            group_key = GroupKey(replica, group.name)
            full_name = group_name(set_name, group_key)
            size = group_sizes.get(full_name, group.replicas)
            groups.append(ExpectedGroup(group_key, full_name, group, size))
            for number in range(min(size, MOST_GROUP_REPLICAS)):
                beyond = number - group.min_available
                gang = base if beyond < 0 else scaled_gang_name(set_name, group_key, beyond)
                held: list[ExpectedClique] = []
                for each in members[group.name]:
                    name = clique_name(set_name, key := CliqueKey(replica, group.name, number, each.name))
                    size_of = clique_sizes.get(name, each.replicas)
                    of_base = base if beyond >= 0 else ""
                    held.append(ExpectedClique(key, name, each, size_of, gang, of_base, full_name))
                if beyond < 0:
                    together.extend(held)
                else:
                    scaled.append(ExpectedGang(gang, replica, tuple(held), base))
        gangs.append(ExpectedGang(base, replica, tuple(together)))
        gangs.extend(scaled)
        cliques.extend(together)
        cliques.extend(each for gang_ in scaled for each in gang_.cliques)
    oversized = tuple(each.name for each in groups if each.replicas > MOST_GROUP_REPLICAS)
    return Shape(tuple(cliques), tuple(groups), tuple(gangs), oversized)
