"""CustomResourceDefinitions.

The schema inside a version is kept as plain JSON: it contains itself, and its reader is the schema compiler.
"""

from typing import Annotated, Any

import msgspec

from echelon.api.base import APIStruct, JSONObject, field
from echelon.api.kinds import Column, Kind
from echelon.api.meta import ObjectMeta


class CustomResourceDefinitionNames(APIStruct, frozen=True, gc=False, kw_only=True):
    """What a kind is called."""

    plural: Annotated[str, field("Name in URLs.")]
    singular: Annotated[str, field("Name of one.")] = ""
    short_names: Annotated[list[str], field("Short names for the command line.", atomic=True)] = []
    kind: Annotated[str, field("Kind, in CamelCase.")]
    list_kind: Annotated[str, field("Kind of a list.")] = ""
    categories: Annotated[list[str], field("Groups of resources, such as all.", atomic=True)] = []


class ServiceReference(APIStruct, frozen=True, gc=False, kw_only=True):
    """A service that is called."""

    namespace: Annotated[str, field("Namespace of the service.")]
    name: Annotated[str, field("Name of the service.")]
    path: Annotated[str | None, field("Path to call.")] = None
    port: Annotated[int, field("Port to call.", default=443)] = 443


class WebhookClientConfig(APIStruct, frozen=True, gc=False, kw_only=True):
    """How a webhook is called."""

    url: Annotated[str | None, field("URL outside of the cluster.")] = None
    service: Annotated[ServiceReference | None, field("Service in the cluster.")] = None
    ca_bundle: Annotated[str, field("CA certificates to trust, in base64.", format="byte")] = ""


class WebhookConversion(APIStruct, frozen=True, gc=False, kw_only=True):
    """Conversion by a webhook."""

    client_config: Annotated[WebhookClientConfig | None, field("How it is called.")] = None
    conversion_review_versions: Annotated[list[str], field("Review versions that it understands.", atomic=True)]


class CustomResourceConversion(APIStruct, frozen=True, gc=False, kw_only=True):
    """How objects change their version."""

    strategy: Annotated[str, field("None or Webhook.", enum=("None", "Webhook"))]
    webhook: Annotated[WebhookConversion | None, field("The webhook, with Webhook.")] = None


class CustomResourceColumnDefinition(APIStruct, frozen=True, gc=False, kw_only=True):
    """A column of `kubectl get`."""

    name: Annotated[str, field("Heading.")]
    type: Annotated[str, field("Type of the value.")]
    format: Annotated[str, field("Format of the value.")] = ""
    description: Annotated[str, field("What it shows.")] = ""
    priority: Annotated[int, field("0 is always shown, more only with wide output.")] = 0
    json_path: Annotated[str, field("Where the value is.")]


class SelectableField(APIStruct, frozen=True, gc=False, kw_only=True):
    """A field for field selectors."""

    json_path: Annotated[str, field("Where the field is.")]


class CustomResourceSubresourceScale(APIStruct, frozen=True, gc=False, kw_only=True):
    """Where the scale subresource finds its numbers."""

    spec_replicas_path: Annotated[str, field("Where the wanted number is.")]
    status_replicas_path: Annotated[str, field("Where the observed number is.")]
    label_selector_path: Annotated[str | None, field("Where the selector is.")] = None


class CustomResourceSubresources(APIStruct, frozen=True, gc=False, kw_only=True):
    """Subresources of a kind."""

    status: Annotated[JSONObject | None, field("The status subresource.")] = None
    scale: Annotated[CustomResourceSubresourceScale | None, field("The scale subresource.")] = None


class CustomResourceValidation(APIStruct, frozen=True, gc=False, kw_only=True):
    """Schema of a version."""

    open_api_v3_schema: Annotated[JSONObject | None, field("The schema.")] = msgspec.field(
        default=None, name="openAPIV3Schema"
    )


class CustomResourceDefinitionVersion(APIStruct, frozen=True, gc=False, kw_only=True):
    """A version of a kind."""

    name: Annotated[str, field("Name of the version, such as v1alpha1.")]
    served: Annotated[bool, field("Whether the version is served.")]
    storage: Annotated[bool, field("Whether objects are stored in this version.")]
    deprecated: Annotated[bool, field("Whether clients are warned.")] = False
    deprecation_warning: Annotated[str | None, field("The warning.")] = None
    schema: Annotated[CustomResourceValidation | None, field("Schema of the version.")] = None
    subresources: Annotated[CustomResourceSubresources | None, field("Its subresources.")] = None
    additional_printer_columns: Annotated[
        list[CustomResourceColumnDefinition], field("Columns of `kubectl get`.", atomic=True)
    ] = []
    selectable_fields: Annotated[
        list[SelectableField], field("Fields for field selectors.", max_items=8, atomic=True)
    ] = []


class CustomResourceDefinitionSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """A kind that users define."""

    group: Annotated[str, field("API group.")]
    names: Annotated[CustomResourceDefinitionNames, field("What the kind is called.")]
    scope: Annotated[str, field("Namespaced or Cluster.", enum=("Namespaced", "Cluster"))]
    versions: Annotated[list[CustomResourceDefinitionVersion], field("The versions.", min_items=1, atomic=True)]
    conversion: Annotated[
        CustomResourceConversion, field("How objects change their version.", default={"strategy": "None"})
    ] = CustomResourceConversion(strategy="None")
    preserve_unknown_fields: Annotated[bool, field("No longer used; must be false.")] = False


class CustomResourceDefinitionCondition(APIStruct, frozen=True, gc=False, kw_only=True):
    """One aspect of a definition's state."""

    type: Annotated[str, field("What the condition is about.")]
    status: Annotated[str, field("True, False or Unknown.")]
    last_transition_time: Annotated[
        str | None, field("When the status last changed.", format="date-time", nullable=True)
    ] = None
    reason: Annotated[str, field("Why, as one word.")] = ""
    message: Annotated[str, field("Why, as a sentence.")] = ""
    observed_generation: Annotated[int, field("Generation that it was computed from.", format="int64")] = 0


class CustomResourceDefinitionStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """State of a definition."""

    conditions: Annotated[
        list[CustomResourceDefinitionCondition] | None,
        field("Aspects of its state.", list_map_keys=("type",), nullable=True),
    ] = []
    accepted_names: Annotated[CustomResourceDefinitionNames | None, field("Names in use.")] = None
    stored_versions: Annotated[
        list[str] | None, field("Versions in which objects may be stored.", atomic=True, nullable=True)
    ] = []
    observed_generation: Annotated[int, field("Generation that the status was computed from.", format="int64")] = 0


class CustomResourceDefinition(APIStruct, frozen=True, gc=False, kw_only=True):
    """A kind that users define."""

    api_version: str = "apiextensions.k8s.io/v1"
    kind: str = "CustomResourceDefinition"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[CustomResourceDefinitionSpec, field("The kind.")]
    status: Annotated[CustomResourceDefinitionStatus, field("Its state.")] = CustomResourceDefinitionStatus()


CUSTOM_RESOURCE_DEFINITION = Kind(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    CustomResourceDefinition,
    namespaced=False,
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    status=True,
    builtin=True,
    columns=(Column("Created At", ".metadata.creationTimestamp"),),
)

KINDS: tuple[Kind[Any], ...] = (CUSTOM_RESOURCE_DEFINITION,)
