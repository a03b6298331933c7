"""How policies get to clusters: bindings, and sets of policies that are bound together.

A binding has its fields at the top, without a spec. Everything it names is looked up in its own namespace, and what is
not found there is passed over in silence; so a pair of group and kind that can never be found is refused at once.
"""

from typing import Annotated, Any, ClassVar

from echelon.api.base import APIStruct, JSONObject, Rule, field
from echelon.api.kinds import Column, Kind
from echelon.api.meta import ObjectMeta
from echelon.api.policy import GROUP


class PlacementSubject(APIStruct, frozen=True, gc=False, kw_only=True):
    """Where to: a placement, or one of the older placement rules."""

    api_group: Annotated[
        str,
        field(
            "API group of the placement.",
            min_length=1,
            enum=("apps.open-cluster-management.io", "cluster.open-cluster-management.io"),
        ),
    ]
    kind: Annotated[str, field("Kind of the placement.", min_length=1, enum=("PlacementRule", "Placement"))]
    name: Annotated[str, field("Name of the placement.", min_length=1)]

    schema_extra: ClassVar[JSONObject] = {
        "x-kubernetes-validations": [
            Rule(
                "self.apiGroup == (self.kind == 'Placement' ? 'cluster.open-cluster-management.io'"
                " : 'apps.open-cluster-management.io')",
                "a Placement is of cluster.open-cluster-management.io, a PlacementRule of"
                " apps.open-cluster-management.io",
                ".apiGroup",
            )
        ]
    }


class Subject(APIStruct, frozen=True, gc=False, kw_only=True):
    """What is bound: a policy, or a set of them."""

    api_group: Annotated[str, field("API group of the subject.", min_length=1, enum=(GROUP,))]
    kind: Annotated[str, field("Kind of the subject.", min_length=1, enum=("Policy", "PolicySet"))]
    name: Annotated[str, field("Name of the subject.", min_length=1)]


class BindingOverrides(APIStruct, frozen=True, gc=False, kw_only=True):
    """What this binding changes in the policies."""

    remediation_action: Annotated[
        str, field("Enforces the policies on the clusters of this binding.", enum=("Enforce", "enforce"))
    ] = ""


class PlacementBindingStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """Nothing is reported of a binding."""


class PlacementBinding(APIStruct, frozen=True, gc=False, kw_only=True):
    """Places policies and policy sets on the clusters of a placement."""

    api_version: str = f"{GROUP}/v1"
    kind: str = "PlacementBinding"
    metadata: ObjectMeta = ObjectMeta()
    placement_ref: Annotated[PlacementSubject, field("The clusters.")]
    subjects: Annotated[list[Subject], field("The policies and policy sets.", min_items=1, atomic=True)]
    binding_overrides: Annotated[BindingOverrides, field("What this binding changes in the policies.")] = (
        BindingOverrides()
    )
    sub_filter: Annotated[
        str,
        field(
            "restricted makes the binding only override, on clusters where another one places the policy.",
            enum=("restricted",),
        ),
    ] = ""
    status: Annotated[PlacementBindingStatus, field("Nothing is reported.")] = PlacementBindingStatus()


class PolicySetExclusion(APIStruct, frozen=True, gc=False, kw_only=True):
    """Clusters on which a policy of the set does not apply."""

    policy_name: Annotated[str, field("Policy of the set.", min_length=1, max_length=253)]
    cluster_names: Annotated[
        list[Annotated[str, field("Name of a cluster.", min_length=1)]],
        field("Clusters that are left out.", min_items=1, atomic=True),
    ]
    reason: Annotated[str, field("Why, for people.")] = ""


class PolicySetSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """The policies of the set."""

    description: Annotated[str, field("What the set is for.")] = ""
    policies: Annotated[
        list[Annotated[str, field("Name of a policy.", min_length=1, max_length=253)]],
        field("Policies of the same namespace.", max_items=256, atomic=True),
    ]
    exclusions: Annotated[
        list[PolicySetExclusion],
        field(
            "Clusters on which single policies do not apply.",
            max_items=256,
            atomic=True,
            rules=(
                Rule(
                    "self.all(a, self.exists_one(b, b.policyName == a.policyName))",
                    "two exclusions have the same policyName",
                ),
            ),
        ),
    ] = []

    schema_extra: ClassVar[JSONObject] = {
        "x-kubernetes-validations": [
            Rule(
                "!has(self.exclusions) || self.exclusions.all(e, e.policyName in self.policies)",
                "an exclusion names a policy that is not in the set",
                ".exclusions",
            )
        ]
    }


class PolicySetPlacement(APIStruct, frozen=True, gc=False, kw_only=True):
    """A way by which the set gets to clusters."""

    placement_binding: Annotated[str, field("Name of the binding.")] = ""
    placement: Annotated[str, field("Name of the placement.")] = ""
    placement_rule: Annotated[str, field("Name of the placement rule, where one is still used.")] = ""


class PolicySetExclusionStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """Clusters that were left out."""

    policy_name: Annotated[str, field("Policy of the set.")] = ""
    clusters: Annotated[list[str], field("Clusters that were left out.", atomic=True)] = []


class PolicySetStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """How far the set is."""

    compliant: Annotated[str, field("State of the set: the worst of its policies.")] = ""
    status_message: Annotated[str, field("What the state was made of, and what is missing.")] = ""
    placement: Annotated[list[PolicySetPlacement], field("How the set gets to clusters.", atomic=True)] = []
    exclusions: Annotated[list[PolicySetExclusionStatus], field("Clusters that were left out.", atomic=True)] = []


class PolicySet(APIStruct, frozen=True, gc=False, kw_only=True):
    """Policies that are bound together."""

    api_version: str = f"{GROUP}/v1beta1"
    kind: str = "PolicySet"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[PolicySetSpec, field("The policies of the set.")]
    status: Annotated[PolicySetStatus, field("How far the set is.")] = PolicySetStatus()


PLACEMENT_BINDING = Kind(
    GROUP, "v1", "PlacementBinding", "placementbindings", PlacementBinding, short_names=("pb",), status=True
)
POLICY_SET = Kind(
    GROUP,
    "v1beta1",
    "PolicySet",
    "policysets",
    PolicySet,
    short_names=("plcset",),
    status=True,
    columns=(
        Column("Compliance state", ".status.compliant"),
        Column("Age", ".metadata.creationTimestamp", type="date"),
    ),
)

KINDS: tuple[Kind[Any], ...] = (PLACEMENT_BINDING, POLICY_SET)
