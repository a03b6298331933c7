"""Questions about what somebody may do. They are answered when they are created and never stored."""

from typing import Annotated, Any

import msgspec

from echelon.api.base import APIStruct, field
from echelon.api.kinds import Kind
from echelon.api.meta import LabelSelectorRequirement, ObjectMeta


class NonResourceAttributes(APIStruct, frozen=True, gc=False, kw_only=True):
    """A request outside of the API's objects."""

    path: Annotated[str, field("Path of the request.")] = ""
    verb: Annotated[str, field("HTTP verb.")] = ""


class FieldSelectorAttributes(APIStruct, frozen=True, gc=False, kw_only=True):
    """Field selector of a request."""

    raw_selector: Annotated[str, field("The selector as text.")] = ""
    requirements: Annotated[list[LabelSelectorRequirement], field("The selector as terms.", atomic=True)] = []


class LabelSelectorAttributes(APIStruct, frozen=True, gc=False, kw_only=True):
    """Label selector of a request."""

    raw_selector: Annotated[str, field("The selector as text.")] = ""
    requirements: Annotated[list[LabelSelectorRequirement], field("The selector as terms.", atomic=True)] = []


class ResourceAttributes(APIStruct, frozen=True, gc=False, kw_only=True):
    """A request for objects."""

    namespace: Annotated[str, field("Namespace; empty is all of them, or none for cluster-scoped kinds.")] = ""
    verb: Annotated[str, field("API verb, such as get; `*` is all.")] = ""
    group: Annotated[str, field("API group; `*` is all.")] = ""
    version: Annotated[str, field("API version; `*` is all.")] = ""
    resource: Annotated[str, field("Resource; `*` is all.")] = ""
    subresource: Annotated[str, field("Subresource, if any.")] = ""
    name: Annotated[str, field("Name of the object; empty is all.")] = ""
    field_selector: Annotated[FieldSelectorAttributes | None, field("Field selector that narrows the request.")] = None
    label_selector: Annotated[LabelSelectorAttributes | None, field("Label selector that narrows the request.")] = None


class SubjectAccessReviewSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """A question about somebody's rights."""

    resource_attributes: Annotated[ResourceAttributes | None, field("A request for objects.")] = None
    non_resource_attributes: Annotated[
        NonResourceAttributes | None, field("A request outside of the API's objects.")
    ] = None
    user: Annotated[str, field("The user.")] = ""
    groups: Annotated[list[str], field("Groups of the user.", atomic=True)] = []
    extra: Annotated[dict[str, list[str]], field("Further facts about the user, by key.")] = {}
    uid: Annotated[str, field("Id of the user.")] = ""


class SelfSubjectAccessReviewSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """A question about the asker's rights."""

    resource_attributes: Annotated[ResourceAttributes | None, field("A request for objects.")] = None
    non_resource_attributes: Annotated[
        NonResourceAttributes | None, field("A request outside of the API's objects.")
    ] = None


class SubjectAccessReviewStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """Whether a request would be allowed."""

    allowed: Annotated[bool, field("Whether it is allowed.")] = False
    denied: Annotated[bool, field("Whether it is denied outright.")] = False
    reason: Annotated[str, field("Why.")] = ""
    evaluation_error: Annotated[str, field("What went wrong while finding out.")] = ""


class SubjectAccessReview(APIStruct, frozen=True, gc=False, kw_only=True):
    """Asks whether somebody may do something."""

    api_version: str = "authorization.k8s.io/v1"
    kind: str = "SubjectAccessReview"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[SubjectAccessReviewSpec, field("The question.")]
    status: Annotated[SubjectAccessReviewStatus, field("The answer.")] = SubjectAccessReviewStatus()


class SelfSubjectAccessReview(APIStruct, frozen=True, gc=False, kw_only=True):
    """Asks whether the asker may do something."""

    api_version: str = "authorization.k8s.io/v1"
    kind: str = "SelfSubjectAccessReview"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[SelfSubjectAccessReviewSpec, field("The question.")]
    status: Annotated[SubjectAccessReviewStatus, field("The answer.")] = SubjectAccessReviewStatus()


class LocalSubjectAccessReview(APIStruct, frozen=True, gc=False, kw_only=True):
    """Asks whether somebody may do something in a namespace."""

    api_version: str = "authorization.k8s.io/v1"
    kind: str = "LocalSubjectAccessReview"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[SubjectAccessReviewSpec, field("The question.")]
    status: Annotated[SubjectAccessReviewStatus, field("The answer.")] = SubjectAccessReviewStatus()


class SelfSubjectRulesReviewSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """Where the rights are wanted."""

    namespace: Annotated[str, field("The namespace.")] = ""


class ResourceRule(APIStruct, frozen=True, gc=False, kw_only=True):
    """A right to objects."""

    verbs: Annotated[list[str], field("What may be done.", atomic=True)]
    api_groups: Annotated[list[str], field("API groups.", atomic=True)] = []
    resources: Annotated[list[str], field("Resources.", atomic=True)] = []
    resource_names: Annotated[list[str], field("Objects by name; all of them if empty.", atomic=True)] = []


class NonResourceRule(APIStruct, frozen=True, gc=False, kw_only=True):
    """A right outside of the API's objects."""

    verbs: Annotated[list[str], field("What may be done.", atomic=True)]
    non_resource_urls: Annotated[list[str], field("Paths.", atomic=True)] = msgspec.field(
        default_factory=list, name="nonResourceURLs"
    )


class SubjectRulesReviewStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """The rights of the asker."""

    resource_rules: Annotated[list[ResourceRule] | None, field("Rights to objects.", atomic=True, nullable=True)] = []
    non_resource_rules: Annotated[
        list[NonResourceRule] | None, field("Rights outside of the API's objects.", atomic=True, nullable=True)
    ] = []
    incomplete: Annotated[bool, field("Whether there may be more.")] = False
    evaluation_error: Annotated[str, field("What went wrong while finding out.")] = ""


class SelfSubjectRulesReview(APIStruct, frozen=True, gc=False, kw_only=True):
    """Asks what the asker may do in a namespace."""

    api_version: str = "authorization.k8s.io/v1"
    kind: str = "SelfSubjectRulesReview"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[SelfSubjectRulesReviewSpec, field("Where.")]
    status: Annotated[SubjectRulesReviewStatus, field("The answer.")] = SubjectRulesReviewStatus()


GROUP = "authorization.k8s.io"

SUBJECT_ACCESS_REVIEW = Kind(
    GROUP, "v1", "SubjectAccessReview", "subjectaccessreviews", SubjectAccessReview, namespaced=False, builtin=True
)
SELF_SUBJECT_ACCESS_REVIEW = Kind(
    GROUP,
    "v1",
    "SelfSubjectAccessReview",
    "selfsubjectaccessreviews",
    SelfSubjectAccessReview,
    namespaced=False,
    builtin=True,
)
LOCAL_SUBJECT_ACCESS_REVIEW = Kind(
    GROUP, "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews", LocalSubjectAccessReview, builtin=True
)
SELF_SUBJECT_RULES_REVIEW = Kind(
    GROUP,
    "v1",
    "SelfSubjectRulesReview",
    "selfsubjectrulesreviews",
    SelfSubjectRulesReview,
    namespaced=False,
    builtin=True,
)

KINDS: tuple[Kind[Any], ...] = (
    SUBJECT_ACCESS_REVIEW,
    SELF_SUBJECT_ACCESS_REVIEW,
    LOCAL_SUBJECT_ACCESS_REVIEW,
    SELF_SUBJECT_RULES_REVIEW,
)
