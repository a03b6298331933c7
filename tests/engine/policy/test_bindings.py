"""Which clusters a policy is on and where it is enforced, against the sets of the specification taken literally."""

from hypothesis import given
from hypothesis import strategies as st

from echelon.api.keys import Key
from echelon.api.meta import ObjectMeta
from echelon.api.policy import GROUP
from echelon.api.policy_binding import (
    BindingOverrides,
    PlacementBinding,
    PlacementSubject,
    PolicySet,
    PolicySetExclusion,
    PolicySetSpec,
    Subject,
)
from echelon.engine.policy.bindings import (
    PlacementName,
    overrides_of,
    remaining_bindings,
    selected_by,
    told_placements,
    ways_of,
)

ROOT = Key("apps", "audit")
CLUSTERS = ("a", "b", "c", "d")
clusters = st.frozensets(st.sampled_from(CLUSTERS))
PLACEMENTS = (PlacementName("p"), PlacementName("q"), PlacementName("p", "PlacementRule"))
GROUPS = {"Placement": "cluster.open-cluster-management.io", "PlacementRule": "apps.open-cluster-management.io"}
SUBJECTS = (("Policy", "audit"), ("Policy", "another"), ("PolicySet", "one"), ("PolicySet", "two"), ("PolicySet", "no"))


@st.composite
def bindings(draw: st.DrawFn) -> list[PlacementBinding]:
    return [
        PlacementBinding(
            metadata=ObjectMeta(name=f"b{number}", namespace="apps"),
            placement_ref=PlacementSubject(api_group=GROUPS[to.kind], kind=to.kind, name=to.name),
            subjects=[
                Subject(api_group=GROUP, kind=kind, name=name)
                for kind, name in draw(st.lists(st.sampled_from(SUBJECTS), min_size=1, max_size=3))
            ],
            binding_overrides=BindingOverrides(remediation_action=draw(st.sampled_from(["", "enforce"]))),
            sub_filter=draw(st.sampled_from(["", "restricted"])),
        )
        for number, to in enumerate(draw(st.lists(st.sampled_from(PLACEMENTS), max_size=4)))
    ]


@st.composite
def policy_sets(draw: st.DrawFn) -> dict[str, PolicySet]:
    found = {}
    for name in ("one", "two"):
        members = draw(st.sampled_from([["audit"], ["another"], ["another", "audit"], []]))
        left_out = draw(clusters)
        exclusions = [PolicySetExclusion(policy_name="audit", cluster_names=sorted(left_out))] if left_out else []
        spec = PolicySetSpec(policies=members, exclusions=exclusions if "audit" in members else [])
        found[name] = PolicySet(metadata=ObjectMeta(name=name, namespace="apps"), spec=spec)
    return found


selections = st.fixed_dictionaries(dict.fromkeys(PLACEMENTS, clusters))
Selected = dict[PlacementName, frozenset[str]]


def selects(binding: PlacementBinding, sets: dict[str, PolicySet], selected: Selected, cluster: str) -> bool:
    """Whether a binding selects a cluster for the policy, in the words of the specification."""
    if cluster not in selected[PlacementName(binding.placement_ref.name, binding.placement_ref.kind)]:
        return False
    for subject in binding.subjects:
        if (subject.kind, subject.name) == ("Policy", "audit"):
            return True
        if subject.kind == "PolicySet" and subject.name in sets and "audit" in sets[subject.name].spec.policies:
            exclusions = sets[subject.name].spec.exclusions
            if not any(each.policy_name == "audit" and cluster in each.cluster_names for each in exclusions):
                return True
    return False


@given(bindings(), policy_sets(), selections)
def test_who_is_placed_and_who_is_overridden(
    bound: list[PlacementBinding], sets: dict[str, PolicySet], selected: Selected
) -> None:
    ways = ways_of(ROOT, bound, sets)
    overrides = overrides_of(ways, selected)
    for cluster in CLUSTERS:
        selecting = [each for each in bound if selects(each, sets, selected, cluster)]
        placing = [each for each in selecting if not each.sub_filter]
        placed = any(cluster in selected_by(way, selected) for way in ways if not way.restricted)
        assert placed == bool(placing)
        # Any that selects a cluster which is placed may override; restricted ones only there.
        enforced = bool(placing) and any(each.binding_overrides.remediation_action for each in selecting)
        assert (cluster in overrides) == enforced


@given(bindings(), policy_sets(), selections)
def test_what_is_told_of_ways(bound: list[PlacementBinding], sets: dict[str, PolicySet], selected: Selected) -> None:
    ways = ways_of(ROOT, bound, sets)
    existing = {name for name in PLACEMENTS if selected[name]}
    found = told_placements(ways, selected, existing)
    keys = [(each.placement_binding, each.placement, each.placement_rule, each.policy_set) for each in found]
    assert keys == sorted(keys, key=" ".join)
    assert len(set(keys)) == len(keys)
    placed = frozenset[str]().union(*(selected_by(way, selected) for way in ways if not way.restricted))
    for way in ways:
        listed = any((each.placement_binding, each.policy_set) == (way.binding, way.policy_set) for each in found)
        assert listed == (not way.restricted or bool(placed & selected_by(way, selected)))
    for each in found:
        assert not (each.placement and each.placement_rule)
        assert {one.cluster_name for one in each.exclusions} <= frozenset().union(*selected.values())


@given(bindings(), policy_sets(), selections)
def test_remaining_bindings_are_those_that_place_whom_a_set_excludes(
    bound: list[PlacementBinding], sets: dict[str, PolicySet], selected: Selected
) -> None:
    ways = ways_of(ROOT, bound, sets)
    found = remaining_bindings(ways, selected)
    excluded = frozenset[str]().union(*(way.excluded & selected[way.placement] for way in ways if not way.restricted))
    for cluster in CLUSTERS:
        placing = sorted(
            each.metadata.name for each in bound if not each.sub_filter and selects(each, sets, selected, cluster)
        )
        assert found.get(cluster, []) == (placing if cluster in excluded else [])


@given(bindings(), policy_sets())
def test_the_order_of_bindings_means_nothing(bound: list[PlacementBinding], sets: dict[str, PolicySet]) -> None:
    assert ways_of(ROOT, bound, sets) == ways_of(ROOT, list(reversed(bound)), sets)
