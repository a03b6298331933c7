"""By which ways a policy gets to clusters, and what these ways change in it.

A way is a binding that names the policy, or a policy set that lists it. A binding that is restricted brings the policy
to nobody: it only overrides, where another one placed it. A set may exclude clusters; that closes the way through the
set and no other.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from echelon.api.keys import Key
from echelon.api.policy import GROUP, PolicyExclusion, PolicyPlacement
from echelon.api.policy_binding import PlacementBinding, PolicySet

RESTRICTED = "restricted"
PLACEMENT_KIND, RULE_KIND = "Placement", "PlacementRule"
_GROUPS = {PLACEMENT_KIND: "cluster.open-cluster-management.io", RULE_KIND: "apps.open-cluster-management.io"}


class PlacementName(NamedTuple):
    """A placement, or one of the older placement rules; in the order in which their groups are walked."""

    name: str
    kind: str = PLACEMENT_KIND

    @property
    def title(self) -> str:
        """What it is called where both kinds may occur."""
        return self.name if self.kind == PLACEMENT_KIND else f"{self.name} ({self.kind})"


@dataclass(frozen=True)
class Way:
    """A binding that brings a policy somewhere, directly or through a policy set."""

    binding: str
    placement: PlacementName
    policy_set: str = ""
    override: str = ""  # the remediation action on its clusters, as it was written
    restricted: bool = False
    excluded: frozenset[str] = frozenset()  # clusters that are left out


def ways_of(root: Key, bindings: Iterable[PlacementBinding], sets: Mapping[str, PolicySet]) -> tuple[Way, ...]:
    """Return the ways of a policy; all bindings and sets are of its namespace.

    What names another group than its kind has is passed over, as it can never be found.
    """
    found: list[Way] = []
    for binding in sorted(bindings, key=lambda each: each.metadata.name):
        ref = binding.placement_ref
        if _GROUPS.get(ref.kind) != ref.api_group:
            continue
        placement = PlacementName(ref.name, ref.kind)
        restricted, override = binding.sub_filter == RESTRICTED, binding.binding_overrides.remediation_action
        for subject in binding.subjects:
            name = binding.metadata.name
            if subject.api_group != GROUP:
                continue
            if (subject.kind, subject.name) == ("Policy", root.name):
                found.append(Way(name, placement, "", override, restricted))
            elif subject.kind == "PolicySet" and subject.name in sets:
                spec = sets[subject.name].spec
                if root.name in spec.policies:
                    excluded = (set(each.cluster_names) for each in spec.exclusions if each.policy_name == root.name)
                    left_out = frozenset[str]().union(*excluded)
                    found.append(Way(name, placement, subject.name, override, restricted, left_out))
    return tuple(dict.fromkeys(found))


def selected_by(way: Way, selected: Mapping[PlacementName, frozenset[str]]) -> frozenset[str]:
    """Return the clusters to which a way leads."""
    return selected.get(way.placement, frozenset()) - way.excluded


def overrides_of(ways: Iterable[Way], selected: Mapping[PlacementName, frozenset[str]]) -> dict[str, str]:
    """Return the clusters on which a binding sets the action, as it was written there.

    An override of a binding that places wins over that of a restricted one, and that counts only where one places.
    """
    ways = tuple(ways)
    if not any(way.override for way in ways):
        return {}
    placing = [way for way in ways if not way.restricted]
    placed = frozenset[str]().union(*(selected_by(way, selected) for way in placing))
    found: dict[str, str] = {}
    for way in [way for way in ways if way.restricted] + placing:
        if way.override:
            found.update(dict.fromkeys(selected_by(way, selected) & placed, way.override))
    return found


def remaining_bindings(ways: Iterable[Way], selected: Mapping[PlacementName, frozenset[str]]) -> dict[str, list[str]]:
    """Return, for clusters that a set excludes, the bindings that place the policy there all the same."""
    ways = [way for way in ways if not way.restricted]
    excluded = frozenset[str]().union(*(way.excluded & selected.get(way.placement, frozenset()) for way in ways))
    return {
        cluster: sorted({way.binding for way in ways if cluster in selected_by(way, selected)})
        for cluster in sorted(excluded)
        if any(cluster in selected_by(way, selected) for way in ways)
    }


def told_placements(
    ways: Iterable[Way], selected: Mapping[PlacementName, frozenset[str]], existing: Iterable[PlacementName]
) -> list[PolicyPlacement]:
    """Return what the status of a policy says of its ways. A restricted one is told where it concerns anybody."""
    ways, existing = tuple(ways), frozenset(existing)
    placed = frozenset[str]().union(*(selected_by(way, selected) for way in ways if not way.restricted))
    found = [
        PolicyPlacement(
            placement_binding=way.binding,
            placement=way.placement.name if way.placement in existing and way.placement.kind == PLACEMENT_KIND else "",
            placement_rule=way.placement.name if way.placement in existing and way.placement.kind == RULE_KIND else "",
            policy_set=way.policy_set,
            exclusions=[
                PolicyExclusion(cluster_name=each)
                for each in sorted(way.excluded & selected.get(way.placement, frozenset()))
            ],
        )
        for way in ways
        if not way.restricted or not placed.isdisjoint(selected_by(way, selected))
    ]
    return sorted(
        found, key=lambda each: f"{each.placement_binding} {each.placement} {each.placement_rule} {each.policy_set}"
    )
