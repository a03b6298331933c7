"""Works: what a cluster is asked to run, and the record, on that cluster, of what it runs.

Both ends of a work may be another implementation: a Go hub reads what our agent reports, a Go agent applies what our
hub wrote. Upstream writes the parts of an object's identity even when they are empty, and so does this module: their
defaults come from a factory, which `omit_defaults` never leaves out.
"""

from typing import Annotated, Any, ClassVar, TypeAlias

import msgspec

from echelon.api.base import APIStruct, JSONObject, Rule, field
from echelon.api.kinds import Kind
from echelon.api.manifest_config import DeleteOption, Executor, ManifestConfig
from echelon.api.meta import Condition, ObjectMeta

GROUP = "work.open-cluster-management.io"

Manifest: TypeAlias = Annotated[
    JSONObject,
    field(
        "A whole Kubernetes object.",
        embedded=True,
        preserve_unknown=True,
        rules=(
            Rule(
                "has(self.metadata.name) && self.metadata.name != ''"
                " && (!has(self.metadata.generateName) || self.metadata.generateName == '')",
                "a manifest needs a name of its own, and generateName gives it none",
            ),
        ),
    ),
]


class ManifestsTemplate(APIStruct, frozen=True, gc=False, kw_only=True):
    """The objects to apply."""

    manifests: Annotated[list[Manifest], field("The objects to apply, whole.", max_items=10000, atomic=True)] = []


class ManifestWorkSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """What a cluster is asked to run."""

    workload: Annotated[ManifestsTemplate, field("The objects to apply.")] = ManifestsTemplate()
    delete_option: Annotated[
        DeleteOption | None, field("What happens to the objects when the work is deleted; Foreground when absent.")
    ] = None
    manifest_configs: Annotated[
        list[ManifestConfig],
        field("Options for single manifests; the first match wins.", max_items=1024, atomic=True),
    ] = []
    executor: Annotated[
        Executor | None, field("On whose behalf the agent applies the manifests; the agent's own when absent.")
    ] = None

    schema_extra: ClassVar[JSONObject] = {
        "x-kubernetes-validations": [
            Rule(
                "has(self.workload) && has(self.workload.manifests) && size(self.workload.manifests) > 0",
                "a work needs at least one manifest",
                ".workload",
            )
        ]
    }


class ManifestResourceMeta(APIStruct, frozen=True, gc=False, kw_only=True):
    """Identity of an object, as far as it is known."""

    ordinal: Annotated[int, field("Position of the manifest in the spec.", format="int32")]
    group: Annotated[str, field("API group; empty for the core group.")] = msgspec.field(default_factory=str)
    version: Annotated[str, field("API version.")] = msgspec.field(default_factory=str)
    kind: Annotated[str, field("Kind of the object.")] = msgspec.field(default_factory=str)
    resource: Annotated[str, field("Plural name of the resource.")] = msgspec.field(default_factory=str)
    name: Annotated[str, field("Name of the object.")] = msgspec.field(default_factory=str)
    namespace: Annotated[str, field("Namespace of the object.")] = msgspec.field(default_factory=str)


class FieldValue(APIStruct, frozen=True, gc=False, kw_only=True):
    """A reported value, in the field that its type names."""

    type: Annotated[str, field("Type of the value.", enum=("Integer", "String", "Boolean", "JsonRaw"))]
    integer: Annotated[int | None, field("The value, for type Integer.", format="int64")] = None
    string: Annotated[str | None, field("The value, for type String.")] = None
    boolean: Annotated[bool | None, field("The value, for type Boolean.")] = None
    json_raw: Annotated[str | None, field("The value as JSON, for lists and objects.", max_length=1024)] = None


class FeedbackValue(APIStruct, frozen=True, gc=False, kw_only=True):
    """A value that a feedback rule asked for."""

    name: Annotated[str, field("Name that the rule gave it.")]
    field_value: Annotated[FieldValue, field("The value.")]


class StatusFeedback(APIStruct, frozen=True, gc=False, kw_only=True):
    """The values that feedback rules asked for."""

    values: Annotated[list[FeedbackValue], field("Values by name.", list_map_keys=("name",))] = []


class ManifestCondition(APIStruct, frozen=True, gc=False, kw_only=True):
    """State of one manifest on the cluster."""

    resource_meta: Annotated[ManifestResourceMeta, field("Which object it is.")]
    status_feedback: Annotated[StatusFeedback, field("Values that were asked for.")] = StatusFeedback()
    conditions: Annotated[list[Condition], field("State of the object.", list_map_keys=("type",))] = []


class ManifestResourceStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """State of each manifest."""

    manifests: Annotated[
        list[ManifestCondition], field("State of each manifest, in the spec's order.", atomic=True)
    ] = []


class ManifestWorkStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """What the cluster reports."""

    conditions: Annotated[
        list[Condition], field("State of the work: applied, available, progressing.", list_map_keys=("type",))
    ] = []
    resource_status: Annotated[ManifestResourceStatus, field("State of each manifest.")] = ManifestResourceStatus()


class ManifestWork(APIStruct, frozen=True, gc=False, kw_only=True):
    """Asks the cluster in whose namespace it is to run something."""

    api_version: str = f"{GROUP}/v1"
    kind: str = "ManifestWork"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[ManifestWorkSpec, field("What the cluster is asked to run.")]
    status: Annotated[ManifestWorkStatus, field("What the cluster reports.")] = ManifestWorkStatus()


class AppliedResource(APIStruct, frozen=True, gc=False, kw_only=True):
    """An object that the agent applied."""

    group: Annotated[str, field("API group; empty for the core group.")] = msgspec.field(default_factory=str)
    version: Annotated[str, field("API version.")]
    resource: Annotated[str, field("Plural name of the resource.")]
    name: Annotated[str, field("Name of the object.")]
    namespace: Annotated[str, field("Namespace of the object; empty for cluster-scoped ones.")] = msgspec.field(
        default_factory=str
    )
    uid: Annotated[str, field("UID of the object.")] = ""


class AppliedManifestWorkSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """The work that was applied, and where it came from."""

    hub_hash: Annotated[str, field("Hash of the hub's address.")]
    agent_id: Annotated[str, field("Agent that takes care of it; the hub's hash unless there are several.")] = (
        msgspec.field(default="", name="agentID")
    )
    manifest_work_name: Annotated[str, field("Name of the work on the hub.")]


class AppliedManifestWorkStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """What was applied."""

    applied_resources: Annotated[
        list[AppliedResource], field("Objects that were applied and not yet removed.", atomic=True)
    ] = []
    eviction_start_time: Annotated[
        str, field("Since when the work is missing on the hub, and the objects are to go.", format="date-time")
    ] = ""


class AppliedManifestWork(APIStruct, frozen=True, gc=False, kw_only=True):
    """The agent's record, on the cluster, of what it applied for a work."""

    api_version: str = f"{GROUP}/v1"
    kind: str = "AppliedManifestWork"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[AppliedManifestWorkSpec, field("The work that was applied.")]
    status: Annotated[AppliedManifestWorkStatus, field("What was applied.")] = AppliedManifestWorkStatus()


MANIFEST_WORK = Kind(GROUP, "v1", "ManifestWork", "manifestworks", ManifestWork, status=True)
APPLIED_MANIFEST_WORK = Kind(
    GROUP, "v1", "AppliedManifestWork", "appliedmanifestworks", AppliedManifestWork, namespaced=False, status=True
)

KINDS: tuple[Kind[Any], ...] = (MANIFEST_WORK, APPLIED_MANIFEST_WORK)
