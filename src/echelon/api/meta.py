"""The parts that all Kubernetes objects share: metadata, conditions, selectors."""

from typing import Annotated, ClassVar

from echelon.api.base import APIStruct, JSONObject, field
from echelon.api.name_patterns import QUALIFIED_NAME


class OwnerReference(APIStruct, frozen=True, gc=False, kw_only=True):
    """Points at the object that this one belongs to."""

    api_version: Annotated[str, field("API version of the owner.")]
    kind: Annotated[str, field("Kind of the owner.")]
    name: Annotated[str, field("Name of the owner.")]
    uid: Annotated[str, field("UID of the owner.")]
    controller: Annotated[bool, field("Whether the owner is the managing controller.")] = False
    block_owner_deletion: Annotated[
        bool, field("Whether a foreground deletion of the owner waits for this object.")
    ] = False

    schema_extra: ClassVar[JSONObject] = {"x-kubernetes-map-type": "atomic"}


class ManagedFieldsEntry(APIStruct, frozen=True, gc=False, kw_only=True):
    """The fields that one manager set, and how."""

    manager: Annotated[str, field("Who set the fields.")] = ""
    operation: Annotated[str, field("How they were set: Apply or Update.")] = ""
    api_version: Annotated[str, field("API version that the field paths belong to.")] = ""
    time: Annotated[str, field("When this entry last changed.", format="date-time")] = ""
    fields_type: Annotated[str, field("Format of the field set; always FieldsV1.")] = ""
    fields_v1: Annotated[JSONObject, field("The field set.")] = {}
    subresource: Annotated[str, field("Subresource through which the fields were set.")] = ""


class ObjectMeta(APIStruct, frozen=True, gc=False, kw_only=True):
    """Metadata of an object."""

    name: Annotated[str, field("Name, unique within the namespace.")] = ""
    generate_name: Annotated[str, field("Prefix from which the server makes a unique name.")] = ""
    namespace: Annotated[str, field("Namespace of the object; empty for cluster-scoped kinds.")] = ""
    uid: Annotated[str, field("Identity of this object in space and time.")] = ""
    resource_version: Annotated[str, field("Version of the stored object; compare for equality only.")] = ""
    generation: Annotated[int, field("Counts the changes of the desired state.", format="int64")] = 0
    # Servers before Kubernetes 1.34 write null here in pod templates.
    creation_timestamp: Annotated[
        str | None, field("When the object was created.", format="date-time", nullable=True)
    ] = None
    deletion_timestamp: Annotated[str, field("When deletion was asked for.", format="date-time")] = ""
    deletion_grace_period_seconds: Annotated[
        int | None, field("Seconds that the object may take to end.", format="int64")
    ] = None
    labels: Annotated[dict[str, str], field("Labels to select by.")] = {}
    annotations: Annotated[dict[str, str], field("Notes of tools, not for selection.")] = {}
    self_link: Annotated[str, field("No longer used.")] = ""
    finalizers: Annotated[
        list[str], field("What must happen before the object is gone.", list_set=True, patch_strategy="merge")
    ] = []
    owner_references: Annotated[
        list[OwnerReference], field("What this object belongs to.", list_map_keys=("uid",), patch_merge_key="uid")
    ] = []
    # As large as the rest of an object, and nobody here needs to know: a cache would be twice as large for nothing.
    unread: ClassVar[dict[str, object]] = {
        "managedFields": Annotated[list[ManagedFieldsEntry], field("Who manages which fields.", atomic=True)]
    }


class PlainCondition(APIStruct, frozen=True, gc=False, kw_only=True):
    """One aspect of an object's state, as kinds have it that are older than metav1.Condition."""

    type: Annotated[str, field("What the condition is about.")]
    status: Annotated[str, field("True, False or Unknown.")]
    last_transition_time: Annotated[
        str | None, field("When the status last changed.", format="date-time", nullable=True)
    ] = None
    reason: Annotated[str, field("Why, as one word.")] = ""
    message: Annotated[str, field("Why, as a sentence.")] = ""


class ProbedCondition(APIStruct, frozen=True, gc=False, kw_only=True):
    """One aspect of an object's state, with the time at which somebody last looked."""

    type: Annotated[str, field("What the condition is about.")]
    status: Annotated[str, field("True, False or Unknown.")]
    last_probe_time: Annotated[str | None, field("When it was last looked at.", format="date-time", nullable=True)] = (
        None
    )
    last_transition_time: Annotated[
        str | None, field("When the status last changed.", format="date-time", nullable=True)
    ] = None
    reason: Annotated[str, field("Why, as one word.")] = ""
    message: Annotated[str, field("Why, as a sentence.")] = ""


class Condition(APIStruct, frozen=True, gc=False, kw_only=True):
    """One aspect of an object's state, as metav1.Condition has it."""

    type: Annotated[
        str,
        field(
            "What the condition is about, in CamelCase.",
            pattern=f"^{QUALIFIED_NAME}$",
            max_length=316,
        ),
    ]
    status: Annotated[str, field("True, False or Unknown.", enum=("True", "False", "Unknown"))]
    observed_generation: Annotated[
        int, field("Generation that the condition was computed from.", minimum=0, format="int64")
    ] = 0
    last_transition_time: Annotated[str, field("When the status last changed.", format="date-time")]
    reason: Annotated[
        str,
        field(
            "Why, as one word for programs.",
            pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
            min_length=1,
            max_length=1024,
        ),
    ]
    message: Annotated[str, field("Why, as a sentence for people.", max_length=32768)]


class LabelSelectorRequirement(APIStruct, frozen=True, gc=False, kw_only=True):
    """One term of a label selector."""

    key: Annotated[str, field("Label key that the term is about.")]
    operator: Annotated[
        str,
        field(
            "How the key relates to the values: In, NotIn, Exists or DoesNotExist.",
            enum=("In", "NotIn", "Exists", "DoesNotExist"),
        ),
    ]
    values: Annotated[list[str], field("Values for In and NotIn; empty for Exists and DoesNotExist.", atomic=True)] = []


class LabelSelector(APIStruct, frozen=True, gc=False, kw_only=True):
    """Selects objects by their labels; all terms must hold. An empty selector matches everything."""

    match_labels: Annotated[dict[str, str], field("Labels that must have exactly these values.")] = {}
    match_expressions: Annotated[list[LabelSelectorRequirement], field("Terms that must all hold.", atomic=True)] = []

    schema_extra: ClassVar[JSONObject] = {"x-kubernetes-map-type": "atomic"}
