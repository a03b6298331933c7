"""Placement rules: what selected clusters for policies before placements did.

Nothing here makes their decisions. Where somebody else still does, a binding may name a rule, and the clusters that it
decided for are read; so the spec is kept as it is and only the decisions have a shape. They know no groups.
"""

from typing import Annotated, Any

from echelon.api.base import APIStruct, JSONObject, field
from echelon.api.kinds import Column, Kind
from echelon.api.meta import ObjectMeta

GROUP = "apps.open-cluster-management.io"


class RuleDecision(APIStruct, frozen=True, gc=False, kw_only=True):
    """A selected cluster."""

    cluster_name: Annotated[str, field("Name of the cluster.")] = ""
    cluster_namespace: Annotated[str, field("Namespace of the cluster.")] = ""


class PlacementRuleStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """The selected clusters."""

    decisions: Annotated[list[RuleDecision], field("The selected clusters.", atomic=True)] = []


class PlacementRule(APIStruct, frozen=True, gc=False, kw_only=True):
    """Selects clusters; deprecated in favour of Placement."""

    api_version: str = f"{GROUP}/v1"
    kind: str = "PlacementRule"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[
        JSONObject, field("Which clusters are wanted, in the words of whoever decides.", preserve_unknown=True)
    ] = {}
    status: Annotated[PlacementRuleStatus, field("What was selected.")] = PlacementRuleStatus()


PLACEMENT_RULE = Kind(
    GROUP,
    "v1",
    "PlacementRule",
    "placementrules",
    PlacementRule,
    status=True,
    columns=(
        Column("Age", ".metadata.creationTimestamp", type="date"),
        Column("Replicas", ".spec.clusterReplicas", type="integer"),
    ),
)

KINDS: tuple[Kind[Any], ...] = (PLACEMENT_RULE,)
