"""PodGangs, which tell a scheduler which pods start together or not at all."""

from typing import Annotated

import msgspec

from echelon.api.base import APIStruct, field
from echelon.api.kinds import Column, Kind
from echelon.api.meta import Condition, ObjectMeta
from echelon.api.printing import AGE

GROUP = "scheduler.grove.io"


class NamespacedName(APIStruct, frozen=True, gc=False, kw_only=True):
    """Points at an object."""

    namespace: Annotated[str, field("Namespace of the object.")]
    name: Annotated[str, field("Name of the object.")]


class GangPackConstraint(APIStruct, frozen=True, gc=False, kw_only=True):
    """How close together, as node label keys."""

    required: Annotated[str, field("Place that all must share, such as a rack's label key.")] = ""
    preferred: Annotated[str, field("Place that all should share.")] = ""


class GangTopologyConstraint(APIStruct, frozen=True, gc=False, kw_only=True):
    """Where pods have to be."""

    pack_constraint: Annotated[GangPackConstraint | None, field("How close together.")] = None


class PodGroup(APIStruct, frozen=True, gc=False, kw_only=True):
    """The pods of one clique within a gang."""

    name: Annotated[str, field("Name of the clique.")]
    pod_references: Annotated[list[NamespacedName], field("Pods of the group, by name.", atomic=True)]
    min_replicas: Annotated[int, field("Pods that must start together.")]
    topology_constraint: Annotated[GangTopologyConstraint | None, field("Where they have to be.")] = None


class TopologyConstraintGroupConfig(APIStruct, frozen=True, gc=False, kw_only=True):
    """Groups that have to be close together."""

    name: Annotated[str, field("Name of the constraint.")]
    pod_group_names: Annotated[list[str], field("The groups.", atomic=True)]
    topology_constraint: Annotated[GangTopologyConstraint | None, field("Where they have to be.")] = None


class PodGangSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """Which pods start together."""

    pod_groups: Annotated[list[PodGroup], field("The groups of pods.", atomic=True)] = msgspec.field(name="podgroups")
    topology_constraint: Annotated[GangTopologyConstraint | None, field("Where all of them have to be.")] = None
    topology_constraint_group_configs: Annotated[
        list[TopologyConstraintGroupConfig], field("Groups that have to be close together.", atomic=True)
    ] = []
    priority_class_name: Annotated[str, field("Priority class of the gang.")] = ""
    reuse_reservation_ref: Annotated[NamespacedName | None, field("Gang whose place may be taken over.")] = None


class PodGangStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """How far a gang has come."""

    phase: Annotated[str, field("Pending, Starting or Running.", enum=("Pending", "Starting", "Running"))] = ""
    conditions: Annotated[list[Condition], field("Aspects of its state.", list_map_keys=("type",))] = []
    placement_score: Annotated[float | None, field("How good the placement is; 1.0 is the best.")] = None


class PodGang(APIStruct, frozen=True, gc=False, kw_only=True):
    """Pods that start together or not at all."""

    api_version: str = f"{GROUP}/v1alpha1"
    kind: str = "PodGang"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[PodGangSpec, field("Which pods start together.")]
    status: Annotated[PodGangStatus, field("How far it has come.")] = PodGangStatus()


POD_GANG = Kind(
    GROUP,
    "v1alpha1",
    "PodGang",
    "podgangs",
    PodGang,
    short_names=("pg",),
    status=True,
    columns=(
        Column("Phase", ".status.phase"),
        Column("Initialized", '.status.conditions[?(@.type=="Initialized")].status'),
        Column("Priority", ".spec.priorityClassName", priority=1),
        AGE,
    ),
)
