"""Placements and their decisions: which clusters are wanted, and which were chosen.

Consumers in the field read decisions that were made by other versions, so nothing that they rely on may be left out:
`reason` is always written although it is always empty, and so are all four keys of a decision group. Such fields have
no default, or one from a factory, which `omit_defaults` never leaves out.
"""

from typing import Annotated, Any, ClassVar

import msgspec

from echelon.api.base import APIStruct, IntOrString, JSONObject, Rule, field
from echelon.api.cluster import GROUP
from echelon.api.kinds import Column, Kind
from echelon.api.meta import Condition, LabelSelector, ObjectMeta
from echelon.api.scheduling import (
    ClusterClaimSelector,
    ClusterPredicate,
    PrioritizerPolicy,
    SpreadPolicy,
    Toleration,
)


class GroupClusterSelector(APIStruct, frozen=True, gc=False, kw_only=True):
    """Selects the clusters of a decision group by label and claim together."""

    label_selector: Annotated[LabelSelector, field("Selects by the labels of the cluster.")] = LabelSelector()
    claim_selector: Annotated[ClusterClaimSelector, field("Selects by what the cluster claims about itself.")] = (
        ClusterClaimSelector()
    )


class DecisionGroup(APIStruct, frozen=True, gc=False, kw_only=True):
    """A named group of the selected clusters."""

    group_name: Annotated[
        str, field("Name of the group.", pattern=r"^[a-zA-Z0-9][-A-Za-z0-9_.]{0,61}[a-zA-Z0-9]$", max_length=63)
    ]
    group_cluster_selector: Annotated[
        GroupClusterSelector, field("Which of the selected clusters belong to it, unless an earlier group has them.")
    ]


class GroupStrategy(APIStruct, frozen=True, gc=False, kw_only=True):
    """How the selected clusters are split into decision groups."""

    decision_groups: Annotated[
        list[DecisionGroup],
        field(
            "Named groups, first come first served; clusters in none of them form unnamed groups at the end.",
            atomic=True,
            max_items=256,
            rules=(
                Rule(
                    "self.all(a, self.exists_one(b, b.groupName == a.groupName))",
                    "two decision groups have the same groupName",
                ),
            ),
        ),
    ] = []
    clusters_per_decision_group: Annotated[
        IntOrString,
        field(
            "Largest size of a group: a number, or a percentage of the selected clusters. Zero sets no limit.",
            default="100%",
            int_or_string=True,
            pattern=r"^(100|[1-9][0-9]?)%$",
            minimum=0,
        ),
    ] = "100%"


class UpdateStrategy(APIStruct, frozen=True, gc=False, kw_only=True):
    """How decision objects change when clusters move between them."""

    type: Annotated[
        str,
        field(
            "All writes each decision once. RollingUpdate makes sure that a cluster which stays selected is listed in "
            "at least one decision at every moment.",
            default="All",
            enum=("All", "RollingUpdate"),
        ),
    ] = "All"


class DecisionStrategy(APIStruct, frozen=True, gc=False, kw_only=True):
    """How decisions are grouped and published."""

    group_strategy: Annotated[GroupStrategy, field("How clusters are split into groups.")] = GroupStrategy()
    update_strategy: Annotated[UpdateStrategy, field("How decision objects are updated. An addition of Echelon.")] = (
        UpdateStrategy()
    )


class PlacementSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """Which clusters are wanted. An empty spec selects every cluster of the bound sets."""

    cluster_sets: Annotated[
        list[str], field("Sets to select from, of those bound to the namespace; empty means all of them.", atomic=True)
    ] = []
    number_of_clusters: Annotated[
        int | None, field("How many clusters to select; absent means all eligible ones.", format="int32", minimum=0)
    ] = None
    predicates: Annotated[
        list[ClusterPredicate], field("Ways to be eligible; a cluster needs to match one of them.", atomic=True)
    ] = []
    prioritizer_policy: Annotated[
        PrioritizerPolicy, field("Which clusters to prefer when there are more than wanted.")
    ] = PrioritizerPolicy()
    spread_policy: Annotated[SpreadPolicy, field("How to spread the selected clusters.")] = SpreadPolicy()
    tolerations: Annotated[
        list[Toleration], field("Taints in spite of which clusters are selected.", max_items=1024, atomic=True)
    ] = []
    decision_strategy: Annotated[DecisionStrategy, field("How decisions are grouped and published.")] = (
        DecisionStrategy()
    )
    sort_by: Annotated[
        str,
        field("Order of the clusters within a decision group.", default="ClusterName", enum=("ClusterName", "Score")),
    ] = "ClusterName"
    score_rate_limit: Annotated[
        str,
        field(
            "How often decisions are rewritten when nothing but scores changed.", default="1m", pattern=r"^[0-9]+[hms]$"
        ),
    ] = "1m"


class DecisionGroupStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """A decision group as it was published."""

    decision_group_index: Annotated[int, field("Position of the group, from zero.", format="int32")]
    decision_group_name: Annotated[str, field("Name of the group; empty for unnamed ones.")]
    decisions: Annotated[list[str], field("Decision objects that list the group's clusters.", atomic=True)]
    cluster_count: Annotated[int, field("How many clusters the group has.", default=0, format="int32")] = msgspec.field(
        default_factory=int
    )


class PlacementStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """What was selected."""

    number_of_selected_clusters: Annotated[int, field("How many clusters are selected.", format="int32")] = (
        msgspec.field(default_factory=int)
    )
    decision_groups: Annotated[list[DecisionGroupStatus], field("The decision groups, by index.", atomic=True)] = []
    conditions: Annotated[
        list[Condition], field("Whether the placement is satisfied and well formed.", list_map_keys=("type",))
    ] = []
    last_score_update_time: Annotated[str, field("When scores were last written to decisions.", format="date-time")] = (
        ""
    )


class Placement(APIStruct, frozen=True, gc=False, kw_only=True):
    """Selects clusters from the sets that are bound to its namespace."""

    api_version: str = f"{GROUP}/v1beta1"
    kind: str = "Placement"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[PlacementSpec, field("Which clusters are wanted.")]
    status: Annotated[PlacementStatus, field("What was selected.")] = PlacementStatus()

    # Decisions carry the name as a label value.
    schema_extra: ClassVar[JSONObject] = {
        "x-kubernetes-validations": [
            Rule("size(self.metadata.name) <= 63", "the name of a placement must be no more than 63 characters")
        ]
    }


class ClusterDecision(APIStruct, frozen=True, gc=False, kw_only=True):
    """A selected cluster."""

    cluster_name: Annotated[str, field("Name of the cluster.")]
    reason: Annotated[str, field("Why it was selected; always written, and empty today.")]
    score: Annotated[int | None, field("Its score, where scores are asked for.", format="int64")] = None


class PlacementDecisionStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """The selected clusters."""

    # No limit on their number: a rolling update needs more than a hundred for a moment.
    decisions: Annotated[list[ClusterDecision], field("The selected clusters.", atomic=True)]


class PlacementDecision(APIStruct, frozen=True, gc=False, kw_only=True):
    """Some of the clusters that a placement selected; labels say which placement and which decision group."""

    api_version: str = f"{GROUP}/v1beta1"
    kind: str = "PlacementDecision"
    metadata: ObjectMeta = ObjectMeta()
    status: Annotated[PlacementDecisionStatus | None, field("The selected clusters.")] = None


PLACEMENT = Kind(
    GROUP,
    "v1beta1",
    "Placement",
    "placements",
    Placement,
    status=True,
    columns=(
        Column("Succeeded", '.status.conditions[?(@.type=="PlacementSatisfied")].status'),
        Column("Reason", '.status.conditions[?(@.type=="PlacementSatisfied")].reason'),
        Column("SelectedClusters", ".status.numberOfSelectedClusters", type="integer"),
    ),
)
PLACEMENT_DECISION = Kind(GROUP, "v1beta1", "PlacementDecision", "placementdecisions", PlacementDecision, status=True)

KINDS: tuple[Kind[Any], ...] = (PLACEMENT, PLACEMENT_DECISION)
