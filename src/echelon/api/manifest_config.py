"""How the manifests of a work are applied, watched, judged and removed.

These options belong to a ManifestWork and, unchanged, to the template of a ManifestWorkReplicaSet. The rules refuse
what the agent would take and then not do: an executor that names nobody, an expression rule without a condition.
"""

from typing import Annotated, ClassVar

import msgspec

from echelon.api.base import APIStruct, JSONObject, Rule, field
from echelon.api.name_patterns import SUBDOMAIN

DNS_SUBDOMAIN = f"^({SUBDOMAIN})$"


class ResourceIdentifier(APIStruct, frozen=True, gc=False, kw_only=True):
    """Points at manifests of the work."""

    group: Annotated[str, field("API group; empty for the core group.")] = ""
    resource: Annotated[str, field("Plural name of the resource.")]
    name: Annotated[str, field("Name of the object; a configuration may use * as a wildcard.")]
    namespace: Annotated[
        str, field("Namespace of the object; empty for cluster-scoped ones. A configuration may use * as a wildcard.")
    ] = ""


class SelectivelyOrphan(APIStruct, frozen=True, gc=False, kw_only=True):
    """Which objects stay when the work is deleted."""

    orphaning_rules: Annotated[
        list[ResourceIdentifier], field("Objects that stay; names match exactly.", atomic=True)
    ] = []


class DeleteOption(APIStruct, frozen=True, gc=False, kw_only=True):
    """What happens to the objects when the work is deleted, and when that is."""

    propagation_policy: Annotated[
        str,
        field(
            "Foreground deletes the objects with the work, Orphan leaves them, SelectivelyOrphan leaves some.",
            default="Foreground",
            enum=("Foreground", "Orphan", "SelectivelyOrphan"),
        ),
    ] = "Foreground"
    selectively_orphans: Annotated[SelectivelyOrphan | None, field("Which objects stay under SelectivelyOrphan.")] = (
        None
    )
    ttl_seconds_after_finished: Annotated[
        int | None,
        field("Deletes the work this many seconds after it is complete; absent keeps it.", format="int64"),
    ] = None


class JsonPath(APIStruct, frozen=True, gc=False, kw_only=True):
    """A value to report."""

    name: Annotated[str, field("Name under which the value is reported.")]
    path: Annotated[str, field("JSONPath of the value in the object, such as .status.phase.")]
    version: Annotated[str, field("API version that the path is for; the newest one when absent.")] = ""


class FeedbackRule(APIStruct, frozen=True, gc=False, kw_only=True):
    """Says which values of an object come back to the hub."""

    type: Annotated[
        str,
        field(
            "WellKnownStatus reports the usual values of common kinds, JSONPaths those listed.",
            enum=("WellKnownStatus", "JSONPaths"),
        ),
    ]
    json_paths: Annotated[list[JsonPath], field("Values to report, for type JSONPaths.", list_map_keys=("name",))] = []


class IgnoreField(APIStruct, frozen=True, gc=False, kw_only=True):
    """Fields that the agent leaves to others on the cluster."""

    condition: Annotated[
        str,
        field(
            "OnSpokePresent leaves them as soon as the object exists, OnSpokeChange once somebody there changed them.",
            default="OnSpokePresent",
            enum=("OnSpokePresent", "OnSpokeChange"),
        ),
    ] = "OnSpokePresent"
    json_paths: Annotated[list[str], field("The fields, as JSONPaths.", atomic=True)] = []
    json_pointers: Annotated[list[str], field("The fields, as JSON pointers.", atomic=True)] = []
    jq_path_expressions: Annotated[list[str], field("The fields, as jq paths.", atomic=True)] = []


class ServerSideApplyConfig(APIStruct, frozen=True, gc=False, kw_only=True):
    """Settings of server-side apply."""

    force: Annotated[bool, field("Takes fields from other managers instead of reporting a conflict.")] = msgspec.field(
        default_factory=bool
    )
    field_manager: Annotated[
        str,
        field(
            "Name under which fields are managed; begins with work-agent.", default="work-agent", pattern="^work-agent"
        ),
    ] = "work-agent"
    ignore_fields: Annotated[
        list[IgnoreField], field("Fields that others may have.", list_map_keys=("condition",))
    ] = []


class ManifestUpdateStrategy(APIStruct, frozen=True, gc=False, kw_only=True):
    """How a manifest that changed reaches the object."""

    type: Annotated[
        str,
        field(
            "Update replaces the object's fields, CreateOnly leaves an existing object alone, ServerSideApply applies, "
            "ReadOnly only looks.",
            default="Update",
            enum=("Update", "CreateOnly", "ServerSideApply", "ReadOnly"),
        ),
    ] = "Update"
    server_side_apply: Annotated[ServerSideApplyConfig | None, field("Settings for type ServerSideApply.")] = None


class ConditionRule(APIStruct, frozen=True, gc=False, kw_only=True):
    """Makes a condition from the state of an object."""

    condition: Annotated[
        str,
        field(
            "Type of the condition. Progressing and Degraded steer rollouts; an object that is Complete is left alone.",
            max_length=316,
        ),
    ]
    type: Annotated[
        str,
        field(
            "CEL evaluates expressions, WellKnownConditions knows when common kinds are complete.",
            enum=("CEL", "WellKnownConditions"),
        ),
    ]
    cel_expressions: Annotated[
        list[str], field("Expressions over `object`; the condition is true when all of them are.", atomic=True)
    ] = []
    message: Annotated[str, field("Message of the condition.")] = ""
    message_expression: Annotated[
        str, field("Expression over `object` and `result` that gives the message instead.")
    ] = ""

    schema_extra: ClassVar[JSONObject] = {
        "x-kubernetes-validations": [
            Rule("self.type != 'CEL' || self.condition != ''", "a CEL rule needs a condition", ".condition")
        ]
    }


class ManifestConfig(APIStruct, frozen=True, gc=False, kw_only=True):
    """Options for the manifests that an identifier matches; the first match that sets an option wins."""

    resource_identifier: Annotated[ResourceIdentifier, field("Manifests that the options are for.")]
    feedback_rules: Annotated[list[FeedbackRule], field("Values that come back to the hub.", atomic=True)] = []
    update_strategy: Annotated[
        ManifestUpdateStrategy | None, field("How a changed manifest reaches the object; Update when absent.")
    ] = None
    condition_rules: Annotated[
        list[ConditionRule],
        field("Conditions made from the state of the object.", list_map_keys=("condition",), max_items=64),
    ] = []
    feedback_scrape_type: Annotated[
        str,
        field(
            "Poll reads the object from time to time, Watch at every change.", default="Poll", enum=("Poll", "Watch")
        ),
    ] = "Poll"


class ServiceAccountSubject(APIStruct, frozen=True, gc=False, kw_only=True):
    """A service account on the cluster."""

    namespace: Annotated[
        str, field("Namespace of the service account.", pattern=DNS_SUBDOMAIN, min_length=1, max_length=253)
    ]
    name: Annotated[str, field("Name of the service account.", pattern=DNS_SUBDOMAIN, min_length=1, max_length=253)]


class ExecutorSubject(APIStruct, frozen=True, gc=False, kw_only=True):
    """Whose permissions count."""

    type: Annotated[str, field("Kind of the subject.", enum=("ServiceAccount",))]
    service_account: Annotated[ServiceAccountSubject | None, field("The service account, for type ServiceAccount.")] = (
        None
    )

    schema_extra: ClassVar[JSONObject] = {
        "x-kubernetes-validations": [
            Rule(
                "self.type != 'ServiceAccount' || has(self.serviceAccount)",
                "type ServiceAccount needs the service account",
                ".serviceAccount",
            )
        ]
    }


class Executor(APIStruct, frozen=True, gc=False, kw_only=True):
    """On whose behalf the agent applies the manifests."""

    subject: Annotated[ExecutorSubject, field("Whose permissions must suffice for every manifest.")]
