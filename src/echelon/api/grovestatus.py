"""What Grove's controllers report about sets, cliques and scaling groups.

Field names are upstream's, but for a few: sets and cliques say which pods still run an older template, how many, and
since when, because under OnDelete nobody but the user replaces them, and `updatedReplicas` does not say which.
"""

from typing import Annotated

from echelon.api.base import APIStruct, field
from echelon.api.meta import Condition

OUTDATED_PODS = field("Live pods that run an older template, by name; 100 of them.", list_set=True, max_items=100)
OUTDATED_COUNT = field("How many live pods run an older template.", default=0)
OUTDATED_SINCE = field("Since when some pod has run an older template.", format="date-time")


class LastError(APIStruct, frozen=True, gc=False, kw_only=True):
    """Something that went wrong in the last reconcile."""

    code: Annotated[str, field("What, for programs.")]
    description: Annotated[str, field("What, as a sentence.")]
    observed_at: Annotated[str, field("When.", format="date-time")]


class PodGangStatusItem(APIStruct, frozen=True, gc=False, kw_only=True):
    """A gang of the set. Upstream never fills it; here it lists those that are out: terminated, held or interrupted."""

    name: Annotated[str, field("Name of the gang.")]
    phase: Annotated[str, field("Phase of the gang.")]
    conditions: Annotated[list[Condition], field("Aspects of its state.", list_map_keys=("type",))] = []


class ReplicaUpdateProgress(APIStruct, frozen=True, gc=False, kw_only=True):
    """The update of one replica of the set."""

    replica_index: Annotated[int, field("Which replica.")]
    update_started_at: Annotated[str, field("When it started.", format="date-time")] = ""
    update_ended_at: Annotated[str, field("When it ended.", format="date-time")] = ""


class PodCliqueSetUpdateProgress(APIStruct, frozen=True, gc=False, kw_only=True):
    """The update of a set, since its template last changed."""

    update_started_at: Annotated[str, field("When it started.", format="date-time")] = ""
    update_ended_at: Annotated[
        str, field("When nothing was left for the controller to do; at once under OnDelete.", format="date-time")
    ] = ""
    updated_pod_cliques_count: Annotated[int, field("Standalone cliques that are updated.", default=0)] = 0
    total_pod_cliques_count: Annotated[int, field("Standalone cliques.", default=0)] = 0
    updated_pod_clique_scaling_groups_count: Annotated[int, field("Groups that are updated.", default=0)] = 0
    total_pod_clique_scaling_groups_count: Annotated[int, field("Scaling groups.", default=0)] = 0
    currently_updating: Annotated[
        list[ReplicaUpdateProgress], field("Replicas that are being updated; never set under OnDelete.", atomic=True)
    ] = []


class PodCliqueSetStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """State of a set."""

    observed_generation: Annotated[int | None, field("Generation that was last carried out.", format="int64")] = None
    conditions: Annotated[list[Condition], field("Aspects of its state.", list_map_keys=("type",))] = []
    last_errors: Annotated[list[LastError], field("What went wrong in the last reconcile.", atomic=True)] = []
    replicas: Annotated[int, field("Replicas that are wanted.")] = 0
    updated_replicas: Annotated[int, field("Replicas with the current template.", default=0)] = 0
    available_replicas: Annotated[int, field("Replicas with enough pods in every clique.", default=0)] = 0
    hpa_pod_selector: Annotated[str, field("Selector of the pods, as text.")] = ""
    pod_gang_statuses: Annotated[list[PodGangStatusItem], field("Gangs of the set.", atomic=True)] = []
    current_generation_hash: Annotated[str, field("Hash of the template in force.")] = ""
    current_revision: Annotated[str, field("ControllerRevision that holds the template in force.")] = ""
    update_progress: Annotated[PodCliqueSetUpdateProgress | None, field("The update since the last change.")] = None
    outdated_pods: Annotated[list[str], OUTDATED_PODS] = []
    outdated_pods_count: Annotated[int, OUTDATED_COUNT] = 0
    outdated_since: Annotated[str, OUTDATED_SINCE] = ""


class PodsSelectedToUpdate(APIStruct, frozen=True, gc=False, kw_only=True):
    """Ready pods that an update takes."""

    current: Annotated[str, field("Pod that is being replaced.")]
    completed: Annotated[list[str], field("Pods that were replaced, the last 100.", atomic=True)] = []


class PodCliqueUpdateProgress(APIStruct, frozen=True, gc=False, kw_only=True):
    """The update of a clique."""

    update_started_at: Annotated[str, field("When it started.", format="date-time")] = ""
    update_ended_at: Annotated[str, field("When it ended.", format="date-time")] = ""
    pod_clique_set_generation_hash: Annotated[str, field("Hash of the set's template that is rolled out.")]
    pod_template_hash: Annotated[str, field("Hash of the clique's template that is rolled out.")]
    ready_pods_selected_to_update: Annotated[
        PodsSelectedToUpdate | None, field("Ready pods that the update takes.")
    ] = None


class PodCliqueStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """State of a clique."""

    observed_generation: Annotated[int | None, field("Generation that was last carried out.", format="int64")] = None
    last_errors: Annotated[list[LastError], field("What went wrong in the last reconcile.", atomic=True)] = []
    replicas: Annotated[int, field("Pods that are not ending.")] = 0
    ready_replicas: Annotated[int, field("Pods that are ready.", default=0)] = 0
    updated_replicas: Annotated[int, field("Live pods with the current template.", default=0)] = 0
    schedule_gated_replicas: Annotated[int, field("Pods that wait for their gang.", default=0)] = 0
    scheduled_replicas: Annotated[int, field("Pods that have a node.", default=0)] = 0
    outdated_pods: Annotated[list[str], OUTDATED_PODS] = []
    outdated_pods_count: Annotated[int, OUTDATED_COUNT] = 0
    outdated_since: Annotated[str, OUTDATED_SINCE] = ""
    hpa_pod_selector: Annotated[str, field("Selector of the pods, as text.")] = ""
    conditions: Annotated[list[Condition], field("Aspects of its state.", list_map_keys=("type",))] = []
    current_pod_clique_set_generation_hash: Annotated[str, field("Hash of the set's template that it has.")] = ""
    current_pod_template_hash: Annotated[str, field("Hash of the clique's template that it has.")] = ""
    update_progress: Annotated[PodCliqueUpdateProgress | None, field("The update since the last change.")] = None


class GroupReplicasSelectedToUpdate(APIStruct, frozen=True, gc=False, kw_only=True):
    """Ready replicas that an update takes."""

    current: Annotated[int, field("Replica that is being replaced.")]
    completed: Annotated[list[int], field("Replicas that were replaced.", atomic=True)] = []


class PodCliqueScalingGroupUpdateProgress(APIStruct, frozen=True, gc=False, kw_only=True):
    """The update of a scaling group."""

    update_started_at: Annotated[str, field("When it started.", format="date-time")]
    update_ended_at: Annotated[str, field("When it ended.", format="date-time")] = ""
    pod_clique_set_generation_hash: Annotated[str, field("Hash of the set's template that is rolled out.")]
    updated_pod_cliques_count: Annotated[int, field("Cliques that are updated.", default=0)] = 0
    total_pod_cliques_count: Annotated[int, field("Cliques of the group.", default=0)] = 0
    ready_replica_indices_selected_to_update: Annotated[
        GroupReplicasSelectedToUpdate | None, field("Ready replicas that the update takes.")
    ] = None


class PodCliqueScalingGroupStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """State of a scaling group."""

    replicas: Annotated[int, field("Replicas that are wanted.")] = 0
    scheduled_replicas: Annotated[int, field("Replicas whose pods have nodes.", default=0)] = 0
    available_replicas: Annotated[int, field("Replicas with enough pods in every clique.", default=0)] = 0
    updated_replicas: Annotated[int, field("Replicas with the current template.", default=0)] = 0
    selector: Annotated[str, field("Selector of the pods, as text.")] = ""
    observed_generation: Annotated[int | None, field("Generation that was last carried out.", format="int64")] = None
    last_errors: Annotated[list[LastError], field("What went wrong in the last reconcile.", atomic=True)] = []
    conditions: Annotated[list[Condition], field("Aspects of its state.", list_map_keys=("type",))] = []
    current_pod_clique_set_generation_hash: Annotated[str, field("Hash of the set's template that it has.")] = ""
    update_progress: Annotated[
        PodCliqueScalingGroupUpdateProgress | None, field("The update since the last change.")
    ] = None
