"""Who is selected, in which group, and whether that is certain: decisions as somebody reads them who made none of them.

Of several placements the first one by name goes first, and has the clusters that others select, too; where mandatory
groups of all of them come first, these have.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from echelon.api.base import JSONObject
from tests.controllers.hub import INDEX_LABEL, NAME_LABEL, PLACEMENT_LABEL


def clusters_of(decision: JSONObject) -> list[str]:
    return [entry["clusterName"] for entry in decision.get("status", {}).get("decisions", [])]


@dataclass(frozen=True, order=True)
class Group:
    """A decision group."""

    placement: str
    index: int
    name: str

    @property
    def called(self) -> set[str]:
        """What people may call it."""
        names = {self.name, str(self.index)} - {""}
        return names | {f"{self.placement}/{name}" for name in names}

    def is_meant(self, asked: JSONObject) -> bool:
        """Whether a strategy asks for it."""
        return bool(self.name == asked["groupName"] if asked.get("groupName") else self.index == asked["groupIndex"])


@dataclass(frozen=True)
class Selection:
    """The clusters of a placement, or of several."""

    title: str
    groups: Mapping[Group, list[str]]  # in their order
    settled: bool  # every decision is there that the status names, and no other, each as large as it says
    short: frozenset[
        Group
    ]  # of which the status says that there are more clusters than are listed, while they disagree
    planned: frozenset[str]  # the names of groups that there are to be

    @cached_property
    def homes(self) -> dict[str, Group]:
        """The group of each cluster."""
        return {cluster: group for group, clusters in self.groups.items() for cluster in clusters}

    def without(self, excluded: Collection[str]) -> "Selection":
        """Return it with clusters left out."""
        groups = {group: [each for each in names if each not in excluded] for group, names in self.groups.items()}
        return replace(self, groups=groups)


def selection_of(placement: JSONObject, decisions: Iterable[JSONObject]) -> Selection:
    """Read the decisions of a placement. Of several groups, a cluster is in the one with the highest index."""
    name, status = placement["metadata"]["name"], placement.get("status", {})
    decisions = [each for each in decisions if each["metadata"]["labels"][PLACEMENT_LABEL] == name]
    homes: dict[str, Group] = {}
    groups: dict[Group, list[str]] = {}
    for decision in decisions:
        labels = decision["metadata"]["labels"]
        group = Group(name, int(labels[INDEX_LABEL]), labels.get(NAME_LABEL, ""))
        groups[group] = []
        for cluster in clusters_of(decision):
            homes[cluster] = max(homes.get(cluster, group), group)
    for cluster, group in sorted(homes.items()):
        groups[group].append(cluster)
    settled = _is_settled(status, decisions, len(homes))
    said = {
        Group(name, each["decisionGroupIndex"], each["decisionGroupName"]): each["clusterCount"]
        for each in status.get("decisionGroups", [])
    }
    counted = Counter(homes.values())
    short = frozenset(group for group, count in said.items() if not settled and counted[group] < count)
    planned = placement["spec"].get("decisionStrategy", {}).get("groupStrategy", {}).get("decisionGroups", [])
    groups = {**{group: [] for group in short}, **groups}
    names = frozenset(each["groupName"] for each in planned)
    return Selection(name, dict(sorted(groups.items())), settled, short, names)


def joined(selections: Iterable[Selection], mandatory: Iterable[JSONObject] = ()) -> Selection:
    """Return several selections as one: each cluster in its first group, and the mandatory ones are before all."""
    ordered, asked = sorted(selections, key=lambda each: each.title), list(mandatory)
    every = {group: names for each in ordered for group, names in each.groups.items()}
    groups: dict[Group, list[str]] = {group: [] for group in every}
    taken: set[str] = set()
    for group in sorted(every, key=lambda each: (not any(map(each.is_meant, asked)), each)):
        groups[group] = [name for name in every[group] if name not in taken]
        taken.update(groups[group])
    return Selection(
        "+".join(each.title for each in ordered),
        groups,
        all(each.settled for each in ordered),
        frozenset().union(*(each.short for each in ordered)),
        frozenset().union(*(each.planned for each in ordered)),
    )


def _is_settled(status: JSONObject, decisions: Collection[JSONObject], selected: int) -> bool:
    sizes = {each["metadata"]["name"]: len(clusters_of(each)) for each in decisions}
    groups = status.get("decisionGroups", [])
    named = [name for group in groups for name in group["decisions"]]
    if not named or sorted(named) != sorted(sizes) or selected != status["numberOfSelectedClusters"]:
        return False
    return all(sum(sizes[name] for name in group["decisions"]) == group["clusterCount"] for group in groups)
