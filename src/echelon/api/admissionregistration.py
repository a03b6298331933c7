"""Policies that a server asks before it stores something: who may write what, said in CEL.

All fields of Kubernetes are here, those that the embedded hub does not honour too: a field that is unknown would be
dropped, and a policy that was only half read is worse than one that was refused.
"""

from typing import Annotated, Any, ClassVar

from echelon.api.base import JSON, APIStruct, JSONObject, field
from echelon.api.kinds import Column, Kind
from echelon.api.meta import Condition, LabelSelector, ObjectMeta
from echelon.api.printing import AGE, at

GROUP = "admissionregistration.k8s.io"


class ParamKind(APIStruct, frozen=True, gc=False, kw_only=True):
    """Kind of the objects that parameterise a policy."""

    api_version: Annotated[str, field("API version of the kind.")] = ""
    kind: Annotated[str, field("The kind.")] = ""

    schema_extra: ClassVar[JSONObject] = {"x-kubernetes-map-type": "atomic"}


class NamedRuleWithOperations(APIStruct, frozen=True, gc=False, kw_only=True):
    """Which requests are meant."""

    resource_names: Annotated[list[str], field("Objects by name; all of them if empty.", atomic=True)] = []
    operations: Annotated[list[str], field("CREATE, UPDATE, DELETE, CONNECT; `*` is all.", atomic=True)] = []
    api_groups: Annotated[list[str], field("API groups; `*` is all.", atomic=True)] = []
    api_versions: Annotated[list[str], field("API versions; `*` is all.", atomic=True)] = []
    resources: Annotated[
        list[str], field("Resources, or with a slash their subresources; `*` is all resources.", atomic=True)
    ] = []
    scope: Annotated[str, field("Cluster, Namespaced, or `*` for both.", default="*")] = "*"

    schema_extra: ClassVar[JSONObject] = {"x-kubernetes-map-type": "atomic"}


class MatchResources(APIStruct, frozen=True, gc=False, kw_only=True):
    """Which requests a policy or a binding is about."""

    namespace_selector: Annotated[
        LabelSelector, field("Labels of the namespace; cluster-scoped objects always match.", default={})
    ] = LabelSelector()
    object_selector: Annotated[LabelSelector, field("Labels of the object, before or after.", default={})] = (
        LabelSelector()
    )
    resource_rules: Annotated[list[NamedRuleWithOperations], field("Requests, one rule suffices.", atomic=True)] = []
    exclude_resource_rules: Annotated[
        list[NamedRuleWithOperations], field("Requests that are not meant, whatever the rules say.", atomic=True)
    ] = []
    match_policy: Annotated[
        str, field("Exact, or Equivalent for requests in other versions too.", default="Equivalent")
    ] = "Equivalent"

    schema_extra: ClassVar[JSONObject] = {"x-kubernetes-map-type": "atomic"}


class Validation(APIStruct, frozen=True, gc=False, kw_only=True):
    """What must be true of a request."""

    expression: Annotated[str, field("CEL expression that must be true.")]
    message: Annotated[str, field("What is said if it is not.")] = ""
    reason: Annotated[str | None, field("Reason of the refusal; Invalid if not given.")] = None
    message_expression: Annotated[str, field("CEL expression that makes the message.")] = ""


class AuditAnnotation(APIStruct, frozen=True, gc=False, kw_only=True):
    """What is noted in the audit log."""

    key: Annotated[str, field("Key of the annotation.")]
    value_expression: Annotated[str, field("CEL expression that makes its value.")]


class MatchCondition(APIStruct, frozen=True, gc=False, kw_only=True):
    """What must be true for a policy to be asked at all."""

    name: Annotated[str, field("Name of the condition.")]
    expression: Annotated[str, field("CEL expression.")]


class Variable(APIStruct, frozen=True, gc=False, kw_only=True):
    """An expression that others can use by name."""

    name: Annotated[str, field("Name, for `variables.name`.")]
    expression: Annotated[str, field("CEL expression.")]

    schema_extra: ClassVar[JSONObject] = {"x-kubernetes-map-type": "atomic"}


class ValidatingAdmissionPolicySpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """What must be true of which requests."""

    param_kind: Annotated[ParamKind | None, field("Kind of the parameters.")] = None
    match_constraints: Annotated[MatchResources | None, field("Which requests are meant.")] = None
    validations: Annotated[list[Validation], field("What must be true of them.", atomic=True)] = []
    failure_policy: Annotated[
        str, field("What an expression without a value means: Fail or Ignore.", default="Fail")
    ] = "Fail"
    audit_annotations: Annotated[list[AuditAnnotation], field("What is noted in the audit log.", atomic=True)] = []
    match_conditions: Annotated[
        list[MatchCondition],
        field("Further conditions on requests; all must hold.", list_map_keys=("name",), patch_merge_key="name"),
    ] = []
    variables: Annotated[
        list[Variable],
        field("Expressions for others to use.", list_map_keys=("name",), patch_merge_key="name"),
    ] = []


class ExpressionWarning(APIStruct, frozen=True, gc=False, kw_only=True):
    """An expression that does not fit the types that it is about."""

    field_ref: Annotated[str, field("Path of the expression.")]
    warning: Annotated[str, field("What does not fit.")]


class TypeChecking(APIStruct, frozen=True, gc=False, kw_only=True):
    """Whether expressions fit the types that they are about."""

    expression_warnings: Annotated[list[ExpressionWarning], field("Those that do not.", atomic=True)] = []


class ValidatingAdmissionPolicyStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """State of a policy."""

    observed_generation: Annotated[int, field("Generation that the status was computed from.", format="int64")] = 0
    type_checking: Annotated[TypeChecking | None, field("Whether expressions fit their types.")] = None
    conditions: Annotated[list[Condition], field("Aspects of its state.", list_map_keys=("type",))] = []


class ValidatingAdmissionPolicy(APIStruct, frozen=True, gc=False, kw_only=True):
    """What must be true of requests before anything is stored. It has no effect without a binding."""

    api_version: str = f"{GROUP}/v1"
    kind: str = "ValidatingAdmissionPolicy"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[ValidatingAdmissionPolicySpec, field("The policy.")] = ValidatingAdmissionPolicySpec()
    status: Annotated[ValidatingAdmissionPolicyStatus, field("Its state.")] = ValidatingAdmissionPolicyStatus()


class ParamRef(APIStruct, frozen=True, gc=False, kw_only=True):
    """The parameters of a binding."""

    name: Annotated[str, field("Name of the object.")] = ""
    namespace: Annotated[str, field("Namespace of the object.")] = ""
    selector: Annotated[LabelSelector | None, field("Objects by label.")] = None
    parameter_not_found_action: Annotated[str | None, field("What a missing one means: Allow or Deny.")] = None

    schema_extra: ClassVar[JSONObject] = {"x-kubernetes-map-type": "atomic"}


class ValidatingAdmissionPolicyBindingSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """Puts a policy into force."""

    policy_name: Annotated[str, field("Name of the policy.")] = ""
    param_ref: Annotated[ParamRef | None, field("The parameters.")] = None
    match_resources: Annotated[MatchResources | None, field("Narrows down which requests are meant.")] = None
    validation_actions: Annotated[
        list[str], field("What a validation that is not true causes: Deny, Warn, Audit.", list_set=True)
    ] = []


class ValidatingAdmissionPolicyBinding(APIStruct, frozen=True, gc=False, kw_only=True):
    """Puts a policy into force."""

    api_version: str = f"{GROUP}/v1"
    kind: str = "ValidatingAdmissionPolicyBinding"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[ValidatingAdmissionPolicyBindingSpec, field("The binding.")] = (
        ValidatingAdmissionPolicyBindingSpec()
    )


def _param_kind(obj: JSONObject) -> str:
    kind = at(obj, "spec", "paramKind")
    return f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else "<unset>"


def _param_ref(obj: JSONObject) -> str:
    reference = at(obj, "spec", "paramRef")
    if not reference:
        return "<unset>"
    parts = (reference.get("namespace"), reference.get("name"))
    return "/".join(filter(None, parts)) or "*"


def _count(name: str) -> Any:
    def cell(obj: JSONObject) -> JSON:
        return len(at(obj, "spec", name) or ())

    return cell


VALIDATING_ADMISSION_POLICY = Kind(
    GROUP,
    "v1",
    "ValidatingAdmissionPolicy",
    "validatingadmissionpolicies",
    ValidatingAdmissionPolicy,
    namespaced=False,
    categories=("api-extensions",),
    status=True,
    builtin=True,
    columns=(
        Column("Validations", type="integer", cell=_count("validations")),
        Column("ParamKind", cell=_param_kind),
        AGE,
    ),
)
VALIDATING_ADMISSION_POLICY_BINDING = Kind(
    GROUP,
    "v1",
    "ValidatingAdmissionPolicyBinding",
    "validatingadmissionpolicybindings",
    ValidatingAdmissionPolicyBinding,
    namespaced=False,
    categories=("api-extensions",),
    builtin=True,
    columns=(Column("PolicyName", ".spec.policyName"), Column("ParamRef", cell=_param_ref), AGE),
)

KINDS: tuple[Kind[Any], ...] = (VALIDATING_ADMISSION_POLICY, VALIDATING_ADMISSION_POLICY_BINDING)
