"""How Karmada's policies name resources and clusters."""

from typing import Annotated

from echelon.api.base import APIStruct, field
from echelon.api.meta import LabelSelector

GROUP = "policy.karmada.io"
FIELDS = ("provider", "region", "zone")  # of a cluster, that a field selector may name


class ResourceSelector(APIStruct, frozen=True, gc=False, kw_only=True):
    """Selects resources of one kind: by name, else by label, else all of them."""

    api_version: Annotated[str, field("API version of the resources.", min_length=1)]
    kind: Annotated[str, field("Kind of the resources.", min_length=1)]
    namespace: Annotated[str, field("Their namespace; that of the policy, or any, if empty.")] = ""
    name: Annotated[str, field("Their name; labelSelector is ignored then.")] = ""
    label_selector: Annotated[LabelSelector | None, field("Their labels.")] = None


class FieldRequirement(APIStruct, frozen=True, gc=False, kw_only=True):
    """One term about where a cluster is."""

    key: Annotated[str, field("What the term is about.", enum=FIELDS)]
    operator: Annotated[str, field("Whether it is, or is not, one of the values.", enum=("In", "NotIn"))]
    values: Annotated[list[str], field("The values.", min_items=1, atomic=True)] = []


class FieldSelector(APIStruct, frozen=True, gc=False, kw_only=True):
    """Selects clusters by where they are; all terms must hold."""

    match_expressions: Annotated[
        list[FieldRequirement], field("Terms about provider, region or zone.", atomic=True)
    ] = []


class ClusterAffinity(APIStruct, frozen=True, gc=False, kw_only=True):
    """Selects clusters; everything that is said must hold."""

    label_selector: Annotated[LabelSelector | None, field("Labels that they have.")] = None
    field_selector: Annotated[FieldSelector | None, field("Where they are.")] = None
    cluster_names: Annotated[list[str], field("Their names; any if empty.", atomic=True)] = []
    exclude: Annotated[list[str], field("Names of those that are not meant.", atomic=True)] = []
