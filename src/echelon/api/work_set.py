"""The work set: one template, and a work of it on every cluster that its placements choose.

Its status is the one place where a rollout is visible to people, and upstream's says little more than "not yet".
`status.rollout` is therefore an addition of Echelon: how many clusters are in which state, and which ones, with the
reason. A CRD of upstream drops it without harm. The list is bounded, because the status of a large fleet must still
fit into an object.

Counters are always written, zero or not, because consumers compare whole summaries: their defaults come from a
factory, which `omit_defaults` never leaves out.
"""

from typing import Annotated, Any, ClassVar

import msgspec

from echelon.api.base import APIStruct, JSONObject, Rule, field
from echelon.api.kinds import Column, Kind
from echelon.api.meta import Condition, ObjectMeta
from echelon.api.printing import AGE
from echelon.api.rollout import RolloutAll, RolloutStrategy, RolloutSummary
from echelon.api.work import GROUP, ManifestWorkSpec


class PlacementRef(APIStruct, frozen=True, gc=False, kw_only=True):
    """A placement, and how the works reach its clusters."""

    name: Annotated[str, field("Placement in the same namespace.", min_length=1)]
    rollout_strategy: Annotated[
        RolloutStrategy,
        field(
            "In which order the clusters get the works; all at once when absent.",
            default={"type": "All", "all": {"progressDeadline": "None"}},
        ),
    ] = RolloutStrategy(all=RolloutAll())


class ManifestWorkReplicaSetSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """What to run, and where."""

    manifest_work_template: Annotated[ManifestWorkSpec | None, field("What each cluster is asked to run.")] = None
    placement_refs: Annotated[
        list[PlacementRef],
        field("Placements whose clusters get a work.", min_items=1, max_items=1024, atomic=True),
    ]
    cascade_deletion_policy: Annotated[
        str,
        field(
            "Background deletes the set without waiting for its works, Foreground after they are gone.",
            default="Background",
            enum=("Background", "Foreground"),
        ),
    ] = "Background"
    revision_history_limit: Annotated[
        int | None,
        field(
            "How many revisions of the template are kept to go back to; 10 when absent. An addition of Echelon.",
            format="int32",
            minimum=1,
        ),
    ] = None


class ManifestWorkReplicaSetSummary(APIStruct, frozen=True, gc=False, kw_only=True):
    """How many works are in which state."""

    total: Annotated[int, field("Works that exist.")] = msgspec.field(default_factory=int)
    progressing: Annotated[int, field("Works that are progressing.")] = msgspec.field(default_factory=int)
    available: Annotated[int, field("Works whose objects exist.")] = msgspec.field(default_factory=int)
    degraded: Annotated[int, field("Works that are degraded.")] = msgspec.field(default_factory=int)
    applied: Annotated[int, field("Works that were applied.")] = msgspec.field(default_factory=int)
    desired_total: Annotated[int, field("Works that are to exist.")] = msgspec.field(default_factory=int)
    updated: Annotated[int, field("Works that have the current template.")] = msgspec.field(default_factory=int)


class PlacementSummary(APIStruct, frozen=True, gc=False, kw_only=True):
    """How far the works of one placement are."""

    name: Annotated[str, field("Name of the placement.")]
    available_decision_groups: Annotated[
        str, field("How many decision groups there are, and how many of their clusters have a work.")
    ] = msgspec.field(default_factory=str)
    summary: Annotated[ManifestWorkReplicaSetSummary, field("How many works are in which state.")] = msgspec.field(
        default_factory=ManifestWorkReplicaSetSummary
    )


class ManifestWorkReplicaSetStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """How far the works are."""

    conditions: Annotated[
        list[Condition],
        field("Whether the placements exist, the works are applied and the rollout is done.", list_map_keys=("type",)),
    ] = []
    summary: Annotated[
        ManifestWorkReplicaSetSummary, field("How many works are in which state, over all placements.")
    ] = msgspec.field(default_factory=ManifestWorkReplicaSetSummary)
    placement_summary: Annotated[
        list[PlacementSummary], field("The same for each placement, in the spec's order.", atomic=True)
    ] = []
    rollout: Annotated[
        RolloutSummary | None, field("How far the rollout is, cluster by cluster. An addition of Echelon.")
    ] = None


class ManifestWorkReplicaSet(APIStruct, frozen=True, gc=False, kw_only=True):
    """Makes a work of one template for every cluster that its placements choose."""

    api_version: str = f"{GROUP}/v1alpha1"
    kind: str = "ManifestWorkReplicaSet"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[ManifestWorkReplicaSetSpec, field("What to run, and where.")]
    status: Annotated[ManifestWorkReplicaSetStatus, field("How far the works are.")] = ManifestWorkReplicaSetStatus()

    # Works carry `<namespace>.<name>` as a label value of at most 63 characters. A rule sees the name only, so a long
    # namespace is still found by the controller alone.
    schema_extra: ClassVar[JSONObject] = {
        "x-kubernetes-validations": [
            Rule("size(self.metadata.name) <= 61", "the name of a work set must be no more than 61 characters")
        ]
    }


def _column(name: str, condition: str, part: str, description: str) -> Column:
    return Column(name, f'.status.conditions[?(@.type=="{condition}")].{part}', description=description, priority=1)


MANIFEST_WORK_REPLICA_SET = Kind(
    GROUP,
    "v1alpha1",
    "ManifestWorkReplicaSet",
    "manifestworkreplicasets",
    ManifestWorkReplicaSet,
    short_names=("mwrs",),
    status=True,
    columns=(
        Column("State", ".status.rollout.state"),
        Column("Done", ".status.rollout.done"),
        AGE,
        # Upstream's, with -o wide.
        _column("Placement", "PlacementVerified", "reason", "Reason"),
        _column("Found", "PlacementVerified", "status", "Configured"),
        _column("ManifestWorks", "ManifestworkApplied", "reason", "Reason"),
        _column("Applied", "ManifestworkApplied", "status", "Applied"),
    ),
)

KINDS: tuple[Kind[Any], ...] = (MANIFEST_WORK_REPLICA_SET,)
