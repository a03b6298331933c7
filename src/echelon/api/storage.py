"""Classes of storage: who makes volumes, and how."""

from typing import Annotated, Any, ClassVar

from echelon.api.base import APIStruct, JSONObject, field
from echelon.api.kinds import Column, Kind
from echelon.api.meta import ObjectMeta
from echelon.api.printing import AGE, at


class TopologySelectorLabelRequirement(APIStruct, frozen=True, gc=False, kw_only=True):
    """A label that nodes have to have."""

    key: Annotated[str, field("Name of the label.")]
    values: Annotated[list[str], field("Values, of which it has one.", atomic=True)]


class TopologySelectorTerm(APIStruct, frozen=True, gc=False, kw_only=True):
    """Nodes, by their labels."""

    match_label_expressions: Annotated[
        list[TopologySelectorLabelRequirement], field("Labels that they have.", atomic=True)
    ] = []

    schema_extra: ClassVar[JSONObject] = {"x-kubernetes-map-type": "atomic"}


class StorageClass(APIStruct, frozen=True, gc=False, kw_only=True):
    """Who makes volumes, and how."""

    api_version: str = "storage.k8s.io/v1"
    kind: str = "StorageClass"
    metadata: ObjectMeta = ObjectMeta()
    provisioner: Annotated[str, field("Who makes the volumes.")]
    parameters: Annotated[dict[str, str], field("What it is told.")] = {}
    reclaim_policy: Annotated[str | None, field("What becomes of a volume after its claim.", default="Delete")] = (
        "Delete"
    )
    mount_options: Annotated[list[str], field("Options of mounting.", atomic=True)] = []
    allow_volume_expansion: Annotated[bool | None, field("Whether volumes may grow.")] = None
    volume_binding_mode: Annotated[
        str | None, field("When a volume is made: Immediate or WaitForFirstConsumer.", default="Immediate")
    ] = "Immediate"
    allowed_topologies: Annotated[list[TopologySelectorTerm], field("Where volumes may be.", atomic=True)] = []


STORAGE_CLASS = Kind(
    "storage.k8s.io",
    "v1",
    "StorageClass",
    "storageclasses",
    StorageClass,
    namespaced=False,
    short_names=("sc",),
    builtin=True,
    columns=(
        Column("Provisioner", ".provisioner"),
        Column("ReclaimPolicy", ".reclaimPolicy"),
        Column("VolumeBindingMode", ".volumeBindingMode"),
        Column("AllowVolumeExpansion", type="boolean", cell=lambda obj: bool(at(obj, "allowVolumeExpansion"))),
        AGE,
    ),
)

KINDS: tuple[Kind[Any], ...] = (STORAGE_CLASS,)
