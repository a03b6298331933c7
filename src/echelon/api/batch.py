"""Jobs, which run pods to their end, and CronJobs, which make Jobs at times."""

from typing import Annotated, Any

from echelon.api.base import APIStruct, JSONObject, field
from echelon.api.kinds import Column, Kind
from echelon.api.meta import LabelSelector, ObjectMeta, ProbedCondition
from echelon.api.pods import PodTemplateSpec
from echelon.api.printing import (
    AGE,
    CONTAINERS,
    SELECTOR,
    at,
    containers_at,
    job_completions,
    job_duration,
    job_status,
    or_none,
    selector_text,
)
from echelon.api.references import ObjectReference


class PodFailurePolicyOnExitCodesRequirement(APIStruct, frozen=True, gc=False, kw_only=True):
    """Exit codes that a rule is about."""

    container_name: Annotated[str | None, field("Container that it is about; all of them if empty.")] = None
    operator: Annotated[str, field("In or NotIn.", enum=("In", "NotIn"))]
    values: Annotated[list[int], field("The exit codes.", list_set=True)]


class PodFailurePolicyOnPodConditionsPattern(APIStruct, frozen=True, gc=False, kw_only=True):
    """A pod condition that a rule is about."""

    type: Annotated[str, field("Type of the condition.")]
    status: Annotated[str, field("Status that it must have.", default="True")] = "True"


class PodFailurePolicyRule(APIStruct, frozen=True, gc=False, kw_only=True):
    """What to do when a pod fails in a certain way."""

    action: Annotated[
        str, field("FailJob, FailIndex, Ignore or Count.", enum=("FailJob", "FailIndex", "Ignore", "Count"))
    ]
    on_exit_codes: Annotated[PodFailurePolicyOnExitCodesRequirement | None, field("Exit codes that it applies to.")] = (
        None
    )
    on_pod_conditions: Annotated[
        list[PodFailurePolicyOnPodConditionsPattern], field("Pod conditions that it applies to.", atomic=True)
    ] = []


class PodFailurePolicy(APIStruct, frozen=True, gc=False, kw_only=True):
    """How failed pods count."""

    rules: Annotated[list[PodFailurePolicyRule], field("Rules; the first that fits decides.", atomic=True)]


class SuccessPolicyRule(APIStruct, frozen=True, gc=False, kw_only=True):
    """When a Job has succeeded early."""

    succeeded_indexes: Annotated[str | None, field("These indexes suffice.")] = None
    succeeded_count: Annotated[int | None, field("So many indexes suffice.")] = None


class SuccessPolicy(APIStruct, frozen=True, gc=False, kw_only=True):
    """When a Job has succeeded early."""

    rules: Annotated[list[SuccessPolicyRule], field("Rules; one suffices.", atomic=True)]


class JobSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """Pods that run to their end."""

    parallelism: Annotated[int, field("Pods that run at a time.", default=1, minimum=0)] = 1
    completions: Annotated[int | None, field("Pods that must succeed.", minimum=0)] = None
    active_deadline_seconds: Annotated[int | None, field("Seconds after which the Job is failed.", format="int64")] = (
        None
    )
    pod_failure_policy: Annotated[PodFailurePolicy | None, field("How failed pods count.")] = None
    success_policy: Annotated[SuccessPolicy | None, field("When the Job has succeeded early.")] = None
    backoff_limit: Annotated[int, field("Retries before the Job is failed.", default=6, minimum=0)] = 6
    backoff_limit_per_index: Annotated[int | None, field("Retries of each index.", minimum=0)] = None
    max_failed_indexes: Annotated[int | None, field("Failed indexes before the Job is failed.", minimum=0)] = None
    selector: Annotated[LabelSelector | None, field("Pods that belong to it; made by the server.")] = None
    manual_selector: Annotated[bool, field("Whether the selector is the user's.", default=False)] = False
    template: Annotated[PodTemplateSpec, field("The pods to run.")]
    ttl_seconds_after_finished: Annotated[
        int | None, field("Seconds that the Job is kept after its end.", minimum=0)
    ] = None
    completion_mode: Annotated[
        str, field("NonIndexed or Indexed.", default="NonIndexed", enum=("NonIndexed", "Indexed"))
    ] = "NonIndexed"
    suspend: Annotated[bool, field("Whether no pods are made.", default=False)] = False
    pod_replacement_policy: Annotated[
        str | None, field("When a replacement is made: TerminatingOrFailed or Failed.")
    ] = None
    managed_by: Annotated[str | None, field("Controller that runs the Job.")] = None
    scheduling: Annotated[JSONObject | None, field("How its pods are scheduled together.")] = None


class UncountedTerminatedPods(APIStruct, frozen=True, gc=False, kw_only=True):
    """Ended pods that are not in the counts yet."""

    succeeded: Annotated[list[str], field("UIDs of pods that succeeded.", list_set=True)] = []
    failed: Annotated[list[str], field("UIDs of failed pods.", list_set=True)] = []


class JobStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """State of a Job."""

    conditions: Annotated[
        list[ProbedCondition], field("Aspects of its state.", atomic=True, patch_merge_key="type")
    ] = []
    start_time: Annotated[str, field("When it was taken up.", format="date-time")] = ""
    completion_time: Annotated[str, field("When it succeeded.", format="date-time")] = ""
    active: Annotated[int, field("Pods that run.")] = 0
    succeeded: Annotated[int, field("Pods that succeeded.")] = 0
    failed: Annotated[int, field("Pods that failed.")] = 0
    terminating: Annotated[int | None, field("Pods that are ending.")] = None
    completed_indexes: Annotated[str, field("Indexes that succeeded.")] = ""
    failed_indexes: Annotated[str | None, field("Indexes that failed.")] = None
    uncounted_terminated_pods: Annotated[
        UncountedTerminatedPods | None, field("Ended pods that are not in the counts yet.")
    ] = None
    ready: Annotated[int | None, field("Pods that are ready.")] = None


class Job(APIStruct, frozen=True, gc=False, kw_only=True):
    """Pods that run to their end."""

    api_version: str = "batch/v1"
    kind: str = "Job"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[JobSpec, field("The pods that are wanted.")]
    status: Annotated[JobStatus, field("Its state.")] = JobStatus()


class JobTemplateSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """The Jobs that a CronJob makes."""

    metadata: Annotated[ObjectMeta, field("Labels and annotations of the Jobs.")] = ObjectMeta()
    spec: Annotated[JobSpec, field("What the Jobs do.")]


class CronJobSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """Jobs that begin at times."""

    schedule: Annotated[str, field("When: minute, hour, day of month, month, day of week.")]
    time_zone: Annotated[str | None, field("Time zone of the schedule.")] = None
    starting_deadline_seconds: Annotated[int | None, field("How late a Job may begin.", format="int64")] = None
    concurrency_policy: Annotated[
        str,
        field(
            "What to do while a Job runs: Allow, Forbid or Replace.",
            default="Allow",
            enum=("Allow", "Forbid", "Replace"),
        ),
    ] = "Allow"
    suspend: Annotated[bool, field("Whether no Jobs are made.", default=False)] = False
    job_template: Annotated[JobTemplateSpec, field("The Jobs to make.")]
    successful_jobs_history_limit: Annotated[int, field("Jobs that are kept when done.", default=3, minimum=0)] = 3
    failed_jobs_history_limit: Annotated[int, field("Failed Jobs that are kept.", default=1, minimum=0)] = 1


class CronJobStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """State of a CronJob."""

    active: Annotated[list[ObjectReference], field("Jobs that run.", atomic=True)] = []
    last_schedule_time: Annotated[str | None, field("When a Job was made last.", format="date-time")] = None
    last_successful_time: Annotated[str | None, field("When a Job succeeded last.", format="date-time")] = None


class CronJob(APIStruct, frozen=True, gc=False, kw_only=True):
    """Jobs that begin at times."""

    api_version: str = "batch/v1"
    kind: str = "CronJob"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[CronJobSpec, field("When, and which.")]
    status: Annotated[CronJobStatus, field("Its state.")] = CronJobStatus()


JOB = Kind(
    "batch",
    "v1",
    "Job",
    "jobs",
    Job,
    categories=("all",),
    status=True,
    builtin=True,
    columns=(
        Column("Status", cell=job_status),
        Column("Completions", cell=job_completions),
        Column("Duration", cell=job_duration),
        AGE,
        *CONTAINERS,
        SELECTOR,
    ),
    selectable_fields=("status.successful",),
)

CRON_JOB = Kind(
    "batch",
    "v1",
    "CronJob",
    "cronjobs",
    CronJob,
    short_names=("cj",),
    categories=("all",),
    status=True,
    builtin=True,
    columns=(
        Column("Schedule", ".spec.schedule"),
        Column("Timezone", cell=or_none("spec", "timeZone")),
        Column("Suspend", cell=lambda obj: str(bool(at(obj, "spec", "suspend")))),
        Column("Active", type="integer", cell=lambda obj: len(at(obj, "status", "active") or ())),
        Column("Last Schedule", ".status.lastScheduleTime", type="date"),
        AGE,
        *containers_at("spec", "jobTemplate", "spec", "template", "spec", "containers"),
        Column(
            "Selector", priority=1, cell=lambda obj: selector_text(at(obj, "spec", "jobTemplate", "spec", "selector"))
        ),
    ),
)

KINDS: tuple[Kind[Any], ...] = (JOB, CRON_JOB)
