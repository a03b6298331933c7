"""The policy that most policies are made of: objects that a cluster must, or must not, have.

It is written on the hub inside of a Policy and lives on the cluster. Spellings differ in case all over the field, so
the words with a meaning are listed in every case that upstream takes; some names of the status begin with a capital
for the same historical reason.
"""

from typing import Annotated, Any, ClassVar

import msgspec

from echelon.api.base import APIStruct, JSONObject, Rule, field
from echelon.api.kinds import Column, Kind
from echelon.api.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from echelon.api.policy import GROUP, REMEDIATION_ACTIONS, ComplianceHistory, PendingChanges

# On the CRDs of kinds that templates of policies can have; agents look for it before they create an object of one.
TEMPLATE_KIND = (f"{GROUP}/policy-type", "template")

_MUST_HAVE = ("MustHave", "Musthave", "musthave", "MustOnlyHave", "Mustonlyhave", "mustonlyhave")
_MUST_NOT_HAVE = ("MustNotHave", "Mustnothave", "mustnothave")
_SEVERITIES = ("low", "Low", "medium", "Medium", "high", "High", "critical", "Critical")
_STATES = ("Compliant", "Pending", "NonCompliant", "Terminating")

# A Go duration or one of the two words, once: upstream's pattern also takes "neverwatch".
_INTERVAL = r"^(([0-9]+(\.[0-9])?(ns|us|ms|s|m|h))+|never|watch)$"


class CustomMessage(APIStruct, frozen=True, gc=False, kw_only=True):
    """Templates for the messages of the policy."""

    compliant: Annotated[str, field("Message while compliant.")] = ""
    noncompliant: Annotated[str, field("Message while not compliant.")] = ""


class EvaluationInterval(APIStruct, frozen=True, gc=False, kw_only=True):
    """How often the policy is evaluated."""

    compliant: Annotated[
        str, field("While compliant: a duration, never, or watch (at every change, the default).", pattern=_INTERVAL)
    ] = ""
    noncompliant: Annotated[
        str,
        field("While not compliant: a duration, never, or watch (at every change, the default).", pattern=_INTERVAL),
    ] = ""


class NamespaceSelector(APIStruct, frozen=True, gc=False, kw_only=True):
    """Selects namespaces for objects that name none."""

    include: Annotated[
        list[Annotated[str, field("A shell-style pattern.", min_length=1)]],
        field("Patterns of names to include.", atomic=True),
    ] = []
    exclude: Annotated[
        list[Annotated[str, field("A shell-style pattern.", min_length=1)]],
        field("Patterns of names to leave out.", atomic=True),
    ] = []
    match_labels: Annotated[dict[str, str] | None, field("Labels that the namespace must have.")] = None
    match_expressions: Annotated[
        list[LabelSelectorRequirement] | None, field("Terms about the namespace's labels.", atomic=True)
    ] = None
    terminating_inclusion: Annotated[str, field("What to do with namespaces that are being deleted.")] = ""


class ObjectTemplate(APIStruct, frozen=True, gc=False, kw_only=True):
    """An object, or a part of one, that the cluster must or must not have."""

    compliance_type: Annotated[
        str,
        field(
            "musthave: the object has at least these fields; mustonlyhave: exactly these; mustnothave: there is none.",
            enum=(*_MUST_HAVE, *_MUST_NOT_HAVE),
        ),
    ]
    metadata_compliance_type: Annotated[
        str, field("The same for labels and annotations; as complianceType when absent.", enum=_MUST_HAVE)
    ] = ""
    object_definition: Annotated[JSONObject, field("The object, or the part of it that counts.", preserve_unknown=True)]
    object_selector: Annotated[
        LabelSelector | None, field("Selects objects by label where the definition has no name.")
    ] = None
    recreate_option: Annotated[
        str,
        field(
            "When to replace an object instead of updating it.", default="None", enum=("None", "IfRequired", "Always")
        ),
    ] = "None"
    record_diff: Annotated[str, field("Where differences are shown.", enum=("Log", "InStatus", "None"))] = ""


class ConfigurationPolicySpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """What the cluster must or must not have."""

    remediation_action: Annotated[
        str, field("Inform only reports, enforce repairs.", default="inform", enum=REMEDIATION_ACTIONS)
    ] = "inform"
    severity: Annotated[str, field("How bad a violation is, for people.", enum=_SEVERITIES)] = ""
    custom_message: Annotated[CustomMessage, field("Templates for the messages.")] = CustomMessage()
    namespace_selector: Annotated[NamespaceSelector, field("Namespaces for objects that name none.")] = (
        NamespaceSelector()
    )
    object_templates: Annotated[list[ObjectTemplate] | None, field("The objects.", max_items=10000, atomic=True)] = (
        msgspec.field(default=None, name="object-templates")
    )
    object_templates_raw: Annotated[
        str | None, field("The objects, as a text that a template engine turns into the list.")
    ] = msgspec.field(default=None, name="object-templates-raw")
    evaluation_interval: Annotated[EvaluationInterval, field("How often the policy is evaluated.")] = (
        EvaluationInterval()
    )
    prune_object_behavior: Annotated[
        str,
        field(
            "Which objects go with the policy: none, those that it created, or all.",
            default="None",
            enum=("None", "DeleteIfCreated", "DeleteAll"),
        ),
    ] = "None"

    schema_extra: ClassVar[JSONObject] = {
        "x-kubernetes-validations": [
            Rule(
                "has(self.object__dash__templates) != has(self.object__dash__templates__dash__raw)",
                "exactly one of object-templates and object-templates-raw is needed",
            )
        ]
    }


class TemplateCondition(APIStruct, frozen=True, gc=False, kw_only=True):
    """What the latest evaluation of an object template found."""

    type: Annotated[str, field("notification or violation.")]
    status: Annotated[str, field("Always True.")] = ""
    reason: Annotated[str, field("What was found, in short.")] = ""
    message: Annotated[str, field("What was found, for people.")] = ""
    last_transition_time: Annotated[str, field("When this was first found.", format="date-time")] = ""


class Validity(APIStruct, frozen=True, gc=False, kw_only=True):
    """Not used any more."""

    valid: Annotated[bool | None, field("Not used any more.")] = None
    reason: Annotated[str, field("Not used any more.")] = ""


class TemplateStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """State of an object template."""

    compliant: Annotated[str, field("State of the object template.", enum=_STATES)] = msgspec.field(
        default="", name="Compliant"
    )
    validity: Annotated[Validity | None, field("Not used any more.")] = msgspec.field(default=None, name="Validity")
    conditions: Annotated[list[TemplateCondition], field("What was found.", atomic=True)] = []


class RelatedMetadata(APIStruct, frozen=True, gc=False, kw_only=True):
    """Name of a related object."""

    name: Annotated[str, field("Name; a dash where none was found.")] = ""
    namespace: Annotated[str, field("Namespace.")] = ""


class RelatedResource(APIStruct, frozen=True, gc=False, kw_only=True):
    """Identity of a related object."""

    api_version: Annotated[str, field("API version.")] = ""
    kind: Annotated[str, field("Kind.")] = ""
    metadata: Annotated[RelatedMetadata, field("Its name.")] = RelatedMetadata()


class RelatedProperties(APIStruct, frozen=True, gc=False, kw_only=True):
    """What the policy did with a related object."""

    created_by_policy: Annotated[bool | None, field("Whether this policy created it.")] = None
    uid: Annotated[str, field("UID of the object that it created.")] = ""
    diff: Annotated[str, field("How the object differs from the definition.")] = ""
    matches_after_dry_run: Annotated[bool, field("Whether the server found no difference where a comparison did.")] = (
        False
    )


class RelatedObject(APIStruct, frozen=True, gc=False, kw_only=True):
    """An object that the policy looked at."""

    object: Annotated[RelatedResource, field("Which object.")] = RelatedResource()
    compliant: Annotated[str, field("Its state.")] = ""
    reason: Annotated[str, field("Why.")] = ""
    properties: Annotated[RelatedProperties | None, field("What the policy did with it.")] = None


class ConfigurationPolicyStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """What the latest evaluation found."""

    compliant: Annotated[str, field("State of the policy.", enum=_STATES)] = ""
    compliancy_details: Annotated[list[TemplateStatus], field("State of each object template.", atomic=True)] = []
    last_evaluated: Annotated[str, field("When it was last evaluated.")] = ""
    last_evaluated_generation: Annotated[int, field("Generation that was evaluated.", format="int64")] = 0
    related_objects: Annotated[list[RelatedObject], field("Objects that it looked at.", atomic=True)] = []
    history: Annotated[list[ComplianceHistory], field("Its latest reports, newest first.", atomic=True)] = []
    pending_changes: PendingChanges = []


class ConfigurationPolicy(APIStruct, frozen=True, gc=False, kw_only=True):
    """Says which objects a cluster must, or must not, have."""

    api_version: str = f"{GROUP}/v1"
    kind: str = "ConfigurationPolicy"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[ConfigurationPolicySpec | None, field("What the cluster must or must not have.")] = None
    status: Annotated[ConfigurationPolicyStatus, field("What the latest evaluation found.")] = (
        ConfigurationPolicyStatus()
    )

    # Not `required` in the schema's sense: upstream stores policies without a spec, and they must stay readable.
    schema_extra: ClassVar[JSONObject] = {
        "x-kubernetes-validations": [Rule("has(self.spec)", "a configuration policy needs a spec", ".spec")]
    }


CONFIGURATION_POLICY = Kind(
    GROUP,
    "v1",
    "ConfigurationPolicy",
    "configurationpolicies",
    ConfigurationPolicy,
    status=True,
    columns=(Column("Compliance state", ".status.compliant"),),
    crd_labels=(TEMPLATE_KIND,),
)

KINDS: tuple[Kind[Any], ...] = (CONFIGURATION_POLICY,)
