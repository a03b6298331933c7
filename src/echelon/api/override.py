"""Karmada's override policies: what is different in the manifests of some clusters.

`fieldOverrider` reaches into texts inside of fields, such as those of ConfigMaps. Nothing that has such texts is
propagated here: it is kept, and refused where somebody wants it to be applied.
"""

from typing import Annotated, Any

from echelon.api.base import JSON, APIStruct, JSONObject, field
from echelon.api.karmada_selectors import GROUP, ClusterAffinity, ResourceSelector
from echelon.api.kinds import Kind
from echelon.api.meta import ObjectMeta

OPERATORS = ("add", "remove", "replace")


class PlaintextOverrider(APIStruct, frozen=True, gc=False, kw_only=True):
    """Changes a field, as a JSON patch does."""

    path: Annotated[str, field("Path of the field, as a JSON pointer.")]
    operator: Annotated[str, field("What to do with it.", enum=OPERATORS)]
    value: Annotated[JSON, field("Its new value.", preserve_unknown=True)] = None


class ImagePredicate(APIStruct, frozen=True, gc=False, kw_only=True):
    """Which image is meant."""

    path: Annotated[str, field("Path of the field that has the image, as a JSON pointer.")]


class ImageOverrider(APIStruct, frozen=True, gc=False, kw_only=True):
    """Changes a part of images, which are `[registry/]repository[:tag]`."""

    predicate: Annotated[ImagePredicate | None, field("The image; those of all containers if absent.")] = None
    component: Annotated[str, field("The part.", enum=("Registry", "Repository", "Tag"))]
    operator: Annotated[str, field("What to do with it.", enum=OPERATORS)]
    value: Annotated[str, field("Its new value, or what is added to it.")] = ""


class CommandArgsOverrider(APIStruct, frozen=True, gc=False, kw_only=True):
    """Changes the command or the arguments of a container."""

    container_name: Annotated[str, field("Name of the container.")]
    operator: Annotated[str, field("What to do with the items.", enum=("add", "remove"))]
    value: Annotated[list[str], field("Items to append, or to take out.", atomic=True)] = []


class LabelAnnotationOverrider(APIStruct, frozen=True, gc=False, kw_only=True):
    """Changes labels or annotations of the resource."""

    operator: Annotated[str, field("What to do with them.", enum=OPERATORS)]
    value: Annotated[dict[str, str], field("Names and values.")] = {}


class Overriders(APIStruct, frozen=True, gc=False, kw_only=True):
    """Changes, made in this order: images, commands, arguments, labels, annotations, fields."""

    image_overrider: Annotated[list[ImageOverrider], field("Changes of images.", atomic=True)] = []
    command_overrider: Annotated[list[CommandArgsOverrider], field("Changes of commands.", atomic=True)] = []
    args_overrider: Annotated[list[CommandArgsOverrider], field("Changes of arguments.", atomic=True)] = []
    labels_overrider: Annotated[list[LabelAnnotationOverrider], field("Changes of labels.", atomic=True)] = []
    annotations_overrider: Annotated[list[LabelAnnotationOverrider], field("Changes of annotations.", atomic=True)] = []
    field_overrider: Annotated[
        list[JSONObject], field("Changes of documents inside of fields; not supported.", atomic=True)
    ] = []
    plaintext: Annotated[list[PlaintextOverrider], field("Changes of any field.", atomic=True)] = []


class RuleWithCluster(APIStruct, frozen=True, gc=False, kw_only=True):
    """Changes for some clusters."""

    target_cluster: Annotated[ClusterAffinity | None, field("The clusters; all if absent.")] = None
    overriders: Annotated[Overriders, field("The changes.")]


class OverrideSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """What is different where."""

    resource_selectors: Annotated[list[ResourceSelector], field("Resources; all if there is none.", atomic=True)] = []
    override_rules: Annotated[list[RuleWithCluster], field("Changes by cluster.", atomic=True)] = []
    target_cluster: Annotated[ClusterAffinity | None, field("Deprecated: clusters of `overriders`.")] = None
    overriders: Annotated[Overriders, field("Deprecated: changes, where there are no overrideRules.")] = Overriders()


class OverridePolicy(APIStruct, frozen=True, gc=False, kw_only=True):
    """Says what is different in the manifests that some clusters get, for the resources of a namespace."""

    api_version: str = f"{GROUP}/v1alpha1"
    kind: str = "OverridePolicy"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[OverrideSpec, field("What is different.", preserve_unknown=True)]


class ClusterOverridePolicy(APIStruct, frozen=True, gc=False, kw_only=True):
    """Says what is different in the manifests that some clusters get, for the resources of all namespaces."""

    api_version: str = f"{GROUP}/v1alpha1"
    kind: str = "ClusterOverridePolicy"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[OverrideSpec, field("What is different.", preserve_unknown=True)]


OVERRIDE_POLICY = Kind(
    GROUP,
    "v1alpha1",
    "OverridePolicy",
    "overridepolicies",
    OverridePolicy,
    short_names=("op",),
    categories=("karmada-io",),
)
CLUSTER_OVERRIDE_POLICY = Kind(
    GROUP,
    "v1alpha1",
    "ClusterOverridePolicy",
    "clusteroverridepolicies",
    ClusterOverridePolicy,
    namespaced=False,
    short_names=("cop",),
    categories=("karmada-io",),
)

KINDS: tuple[Kind[Any], ...] = (OVERRIDE_POLICY, CLUSTER_OVERRIDE_POLICY)
