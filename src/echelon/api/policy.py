"""Policies: what must be true on clusters, where, and how far that is.

A Policy is two things: the one that people write, and its replica in each cluster's namespace. Both have the same
type and use different parts of the status. Upstream's validation lives in a webhook that fails open, so that a policy
nobody can enforce is accepted whenever the webhook is away; here it is in the schema.

One check is in an admission policy (`echelon.api.guards`): namespace and name of a policy must fit into a label
together, and a rule of the schema sees of the metadata only the name. The schema refuses what fits in no namespace.
"""

from typing import Annotated, Any, ClassVar, TypeAlias

import msgspec

from echelon.api.base import APIStruct, JSONObject, Rule, field
from echelon.api.kinds import Column, Kind
from echelon.api.meta import Condition, ObjectMeta
from echelon.api.rollout import ROLLOUT_STATUSES, RolloutStrategy, RolloutSummary

GROUP = "policy.open-cluster-management.io"
ROOT_LABEL = f"{GROUP}/root-policy"  # on a replica: <namespace>.<name> of its policy

REMEDIATION_ACTIONS = ("Inform", "inform", "Enforce", "enforce")
COMPLIANCE_STATES = ("Compliant", "Pending", "NonCompliant")


class PolicyDependency(APIStruct, frozen=True, gc=False, kw_only=True):
    """Another policy whose state must be reached first."""

    api_version: Annotated[str, field("API version of the object.")]
    kind: Annotated[str, field("Kind of the object.")]
    name: Annotated[str, field("Name of the object.")]
    namespace: Annotated[str, field("Namespace of the object, where it has one of its own.")] = ""
    compliance: Annotated[str, field("State that it must have.", enum=COMPLIANCE_STATES)]

    schema_extra: ClassVar[JSONObject] = {
        "x-kubernetes-validations": [
            Rule(
                "(self.kind != 'ConfigurationPolicy' && self.kind != 'CertificatePolicy')"
                " || !has(self.__namespace__) || self.__namespace__ == ''",
                "a template's own object is always in the cluster's namespace: leave namespace out",
                ".namespace",
            )
        ]
    }


def _template_definition() -> msgspec.Meta:
    """Describe a template's object: free-form, but for what it cannot do without and what the rule about it sees."""
    described = field("The object to create on the cluster, whole.", preserve_unknown=True)
    said = (described.extra or {})["schema"]
    spec = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"remediationAction": {"type": "string"}},
    }
    word = {"type": "string", "minLength": 1}
    properties = {"apiVersion": word, "kind": word, "spec": spec}
    schema = {**said, "required": ["apiVersion", "kind"], "properties": properties}
    return msgspec.Meta(description=described.description, extra={"schema": schema})


TemplateDefinition: TypeAlias = Annotated[JSONObject, _template_definition()]


class PolicyTemplate(APIStruct, frozen=True, gc=False, kw_only=True):
    """An object that checks or enforces something on the cluster."""

    object_definition: TemplateDefinition
    extra_dependencies: Annotated[
        list[PolicyDependency], field("What this template waits for.", max_items=256, atomic=True)
    ] = []
    ignore_pending: Annotated[bool, field("Whether the policy may be compliant while this template waits.")] = False


class HubTemplateOptions(APIStruct, frozen=True, gc=False, kw_only=True):
    """How templates that the hub fills in are read."""

    service_account_name: Annotated[str, field("Service account whose permissions look-ups on the hub use.")] = ""


class PolicySpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """What must be true on the clusters."""

    disabled: Annotated[bool, field("Takes the policy off every cluster.")]
    remediation_action: Annotated[
        str,
        field(
            "Inform only reports, enforce repairs. Overrides the action of every template.", enum=REMEDIATION_ACTIONS
        ),
    ] = ""
    policy_templates: Annotated[
        list[PolicyTemplate], field("The objects that check or enforce.", max_items=512, atomic=True)
    ] = msgspec.field(name="policy-templates")
    copy_policy_metadata: Annotated[
        bool | None, field("Whether replicas get all labels and annotations of the policy; absent means yes.")
    ] = None
    dependencies: Annotated[
        list[PolicyDependency], field("What every template waits for.", max_items=256, atomic=True)
    ] = []
    hub_template_options: Annotated[
        HubTemplateOptions | None, field("How templates that the hub fills in are read.")
    ] = None
    rollout_strategy: Annotated[
        RolloutStrategy | None,
        field("In which order clusters are enforced; all at once when absent. An addition of Echelon."),
    ] = None

    schema_extra: ClassVar[JSONObject] = {
        "x-kubernetes-validations": [
            Rule(
                "has(self.remediationAction) || self.policy__dash__templates.all(t,"
                " t.objectDefinition.kind != 'ConfigurationPolicy'"
                " || (has(t.objectDefinition.spec) && has(t.objectDefinition.spec.remediationAction)"
                " && t.objectDefinition.spec.remediationAction != ''))",
                "without a remediationAction of the policy, every ConfigurationPolicy template needs its own",
                ".remediationAction",
            )
        ]
    }


class PlacedDecision(APIStruct, frozen=True, gc=False, kw_only=True):
    """A cluster that the policy is placed on."""

    cluster_name: Annotated[str, field("Name of the cluster.")] = ""
    cluster_namespace: Annotated[str, field("Namespace of the cluster.")] = ""


class PolicyExclusion(APIStruct, frozen=True, gc=False, kw_only=True):
    """A cluster that a policy set leaves out."""

    cluster_name: Annotated[str, field("Name of the cluster.")]


class PolicyPlacement(APIStruct, frozen=True, gc=False, kw_only=True):
    """A way by which the policy gets to clusters."""

    placement_binding: Annotated[str, field("Name of the binding.")] = ""
    placement: Annotated[str, field("Name of the placement.")] = ""
    placement_rule: Annotated[str, field("Name of the placement rule, where one is still used.")] = ""
    policy_set: Annotated[str, field("Policy set through which the policy is bound.")] = ""
    exclusions: Annotated[list[PolicyExclusion], field("Clusters that the set leaves out.", atomic=True)] = []
    decisions: Annotated[list[PlacedDecision], field("Clusters that it is placed on.", atomic=True)] = []


class RemainingBinding(APIStruct, frozen=True, gc=False, kw_only=True):
    """A binding that still places the policy on a cluster which another one excludes."""

    placement_binding: Annotated[str, field("Name of the binding.")] = ""


RolloutStatus: TypeAlias = Annotated[
    str, field("Where the rollout stands here. An addition of Echelon.", enum=ROLLOUT_STATUSES)
]
RolloutTransition: TypeAlias = Annotated[
    str, field("When rolloutStatus last changed. An addition of Echelon.", format="date-time")
]


class ClusterCompliance(APIStruct, frozen=True, gc=False, kw_only=True):
    """State of the policy on one cluster."""

    clustername: Annotated[str, field("Name of the cluster.")] = ""
    clusternamespace: Annotated[str, field("Namespace of the cluster.")] = ""
    compliant: Annotated[str, field("State of the policy there.")] = ""
    rollout_status: RolloutStatus = ""
    rollout_last_transition_time: RolloutTransition = ""
    remaining_bindings: Annotated[
        list[RemainingBinding], field("Bindings that still place the policy there.", atomic=True)
    ] = []


class ComplianceHistory(APIStruct, frozen=True, gc=False, kw_only=True):
    """A report of a template."""

    last_timestamp: Annotated[str, field("When it was made.", format="date-time")] = ""
    message: Annotated[str, field("What it says; begins with the state.")] = ""
    event_name: Annotated[str, field("Name of the event that brought it.")] = ""


class PendingChange(APIStruct, frozen=True, gc=False, kw_only=True):
    """What enforcing a template would change on the cluster."""

    api_version: Annotated[str, field("API version of the object.")] = ""
    kind: Annotated[str, field("Kind of the object.")] = ""
    namespace: Annotated[str, field("Namespace of the object, if it has one.")] = ""
    name: Annotated[str, field("Name of the object.")] = ""
    change: Annotated[str, field("What would become of it.", enum=("Create", "Update", "Delete"))]
    diff: Annotated[str, field("The change as a unified diff, cut where it is long, without the data of Secrets.")] = ""


PendingChanges: TypeAlias = Annotated[
    list[PendingChange],
    field("What enforcing would change, while it is not enforced. An addition of Echelon.", max_items=20, atomic=True),
]


class TemplateDetails(APIStruct, frozen=True, gc=False, kw_only=True):
    """State of one template, on a replica."""

    template_meta: Annotated[
        JSONObject, field("Metadata of the template's object; only the name is used.", preserve_unknown=True)
    ] = {}
    compliant: Annotated[str, field("State of the template.")] = ""
    history: Annotated[list[ComplianceHistory], field("Its latest reports, newest first.", atomic=True)] = []
    pending_changes: PendingChanges = []


class PolicyStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """How far the policy is: `placement` and `status` on the policy itself, `details` on its replicas."""

    compliant: Annotated[str, field("State of the policy as a whole.", enum=COMPLIANCE_STATES)] = ""
    rollout_status: RolloutStatus = ""
    rollout_last_transition_time: RolloutTransition = ""
    placement: Annotated[list[PolicyPlacement], field("How the policy gets to clusters.", atomic=True)] = []
    status: Annotated[list[ClusterCompliance], field("State on each cluster.", atomic=True)] = []
    details: Annotated[list[TemplateDetails], field("State of each template.", atomic=True)] = []
    observed_generation: Annotated[
        int, field("Generation of the replica that its agent reports on. An addition of Echelon.", format="int64")
    ] = 0
    conditions: Annotated[
        list[Condition], field("State of the rollout. An addition of Echelon.", list_map_keys=("type",))
    ] = []
    rollout: Annotated[
        RolloutSummary | None, field("How far the rollout is, cluster by cluster. An addition of Echelon.")
    ] = None


class Policy(APIStruct, frozen=True, gc=False, kw_only=True):
    """Says what must be true on the clusters that it is bound to."""

    api_version: str = f"{GROUP}/v1"
    kind: str = "Policy"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[PolicySpec, field("What must be true on the clusters.")]
    status: Annotated[PolicyStatus, field("How far the policy is.")] = PolicyStatus()

    schema_extra: ClassVar[JSONObject] = {
        "x-kubernetes-validations": [
            Rule("size(self.metadata.name) <= 63", "the name of a policy must be no more than 63 characters")
        ]
    }


POLICY = Kind(
    GROUP,
    "v1",
    "Policy",
    "policies",
    Policy,
    short_names=("plc",),
    status=True,
    columns=(
        Column("Remediation action", ".spec.remediationAction"),
        Column("Compliance state", ".status.compliant"),
        Column("Rollout status", ".status.rolloutStatus"),
        Column("Age", ".metadata.creationTimestamp", type="date"),
    ),
)

KINDS: tuple[Kind[Any], ...] = (POLICY,)
