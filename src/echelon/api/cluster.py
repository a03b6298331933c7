"""Clusters as the hub knows them: what they are, which sets they belong to, and how an add-on scores them.

The fleet is the largest part of a hub, so these are the objects whose size in memory matters most: what a cluster does
not have costs nothing, because empty parts are shared defaults.
"""

from typing import Annotated, Any, ClassVar

import msgspec

from echelon.api import name_patterns
from echelon.api.base import APIStruct, IntOrString, JSONObject, Rule, field
from echelon.api.kinds import Column, Kind
from echelon.api.meta import Condition, LabelSelector, ObjectMeta

GROUP = "cluster.open-cluster-management.io"
SET_LABEL = f"{GROUP}/clusterset"  # on a cluster: the set that it is in

TAINT_EFFECTS = ("NoSelect", "PreferNoSelect", "NoSelectIfNew")

# A label-style key: an optional DNS prefix with a slash, then a name.
QUALIFIED_NAME = f"^{name_patterns.QUALIFIED_NAME}$"
DNS_LABEL = f"^{name_patterns.LABEL}$"
QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)

Quantity = Annotated[IntOrString, field("A quantity, as Kubernetes writes it.", int_or_string=True, pattern=QUANTITY)]


class ClientConfig(APIStruct, frozen=True, gc=False, kw_only=True):
    """How the hub reaches a cluster's API server."""

    url: Annotated[str, field("Address of the cluster's API server.")]
    ca_bundle: Annotated[
        str, field("CA certificates to trust there, base64; the system's own when absent.", format="byte")
    ] = ""


class Taint(APIStruct, frozen=True, gc=False, kw_only=True):
    """Keeps placements that don't tolerate it away from a cluster."""

    key: Annotated[str, field("Key of the taint.", pattern=QUALIFIED_NAME, max_length=316)]
    value: Annotated[str, field("Value of the taint.", max_length=1024)] = ""
    effect: Annotated[
        str,
        field(
            "NoSelect keeps placements off the cluster and removes it from those that have it, NoSelectIfNew leaves "
            "those alone, PreferNoSelect only makes it a later choice.",
            enum=TAINT_EFFECTS,
        ),
    ]
    time_added: Annotated[
        str | None, field("When the taint was added; stamped by the hub.", format="date-time", nullable=True)
    ] = None


class ManagedClusterSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """What is wanted of a cluster."""

    managed_cluster_client_configs: Annotated[
        list[ClientConfig], field("Addresses under which the hub can reach the cluster.", atomic=True)
    ] = []
    hub_accepts_client: Annotated[bool, field("Whether an administrator of the hub has let the cluster join.")] = (
        msgspec.field(default_factory=bool)
    )
    lease_duration_seconds: Annotated[
        int, field("How often the cluster's agent renews its lease, in seconds.", default=60, format="int32")
    ] = 60
    taints: Annotated[
        list[Taint], field("Taints that placements must tolerate in order to select the cluster.", atomic=True)
    ] = []


class ManagedClusterVersion(APIStruct, frozen=True, gc=False, kw_only=True):
    """Versions of what runs on a cluster."""

    kubernetes: Annotated[str, field("Version of Kubernetes.")] = ""


class ManagedClusterClaim(APIStruct, frozen=True, gc=False, kw_only=True):
    """A fact that a cluster states about itself."""

    name: Annotated[str, field("Name of the claim.", min_length=1, max_length=253)] = ""
    value: Annotated[str, field("Value of the claim.", min_length=1, max_length=1024)] = ""


class ClusterSetManagedNamespace(APIStruct, frozen=True, gc=False, kw_only=True):
    """A namespace that a cluster set manages on this cluster."""

    name: Annotated[str, field("Name of the namespace.", pattern=DNS_LABEL, max_length=63)]
    cluster_set: Annotated[str, field("Set that manages the namespace.")]
    conditions: Annotated[list[Condition], field("State of the namespace.", list_map_keys=("type",))] = []


class ManagedClusterStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """What is known of a cluster."""

    conditions: Annotated[
        list[Condition],
        field(
            "State of the cluster: accepted, joined, available, clock in step, being deleted.",
            list_map_keys=("type",),
        ),
    ] = []
    capacity: Annotated[dict[str, Quantity], field("Resources that the cluster's nodes have in total.")] = {}
    allocatable: Annotated[dict[str, Quantity], field("Resources that workloads can use.")] = {}
    version: Annotated[ManagedClusterVersion, field("Versions of what runs there.")] = ManagedClusterVersion()
    cluster_claims: Annotated[
        list[ManagedClusterClaim], field("Facts that the cluster states about itself.", atomic=True)
    ] = []
    managed_namespaces: Annotated[
        list[ClusterSetManagedNamespace],
        field("Namespaces that the cluster's sets manage on it.", list_map_keys=("clusterSet", "name")),
    ] = []


class ManagedCluster(APIStruct, frozen=True, gc=False, kw_only=True):
    """A cluster of the fleet."""

    api_version: str = f"{GROUP}/v1"
    kind: str = "ManagedCluster"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[ManagedClusterSpec, field("What is wanted of the cluster.")]
    status: Annotated[ManagedClusterStatus, field("What is known of the cluster.")] = ManagedClusterStatus()


class ManagedClusterSelector(APIStruct, frozen=True, gc=False, kw_only=True):
    """Says which clusters are in a set."""

    selector_type: Annotated[
        str,
        field(
            "ExclusiveClusterSetLabel takes the clusters whose clusterset label names this set, LabelSelector those "
            "that the selector matches.",
            default="ExclusiveClusterSetLabel",
            enum=("ExclusiveClusterSetLabel", "LabelSelector"),
        ),
    ] = "ExclusiveClusterSetLabel"
    label_selector: Annotated[
        LabelSelector | None,
        field("Selects the members for type LabelSelector; absent matches nothing, empty matches every cluster."),
    ] = None


class ManagedNamespace(APIStruct, frozen=True, gc=False, kw_only=True):
    """A namespace that a set manages on its members."""

    name: Annotated[str, field("Name of the namespace.", pattern=DNS_LABEL, max_length=63)]


class ManagedClusterSetSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """Members of a set, and what it does on them."""

    cluster_selector: Annotated[
        ManagedClusterSelector,
        field("Says which clusters are in the set.", default={"selectorType": "ExclusiveClusterSetLabel"}),
    ] = ManagedClusterSelector()
    managed_namespaces: Annotated[
        list[ManagedNamespace], field("Namespaces that the set manages on its members.", list_map_keys=("name",))
    ] = []


class ManagedClusterSetStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """What is known of a set."""

    conditions: Annotated[list[Condition], field("Whether the set is empty.", list_map_keys=("type",))] = []


class ManagedClusterSet(APIStruct, frozen=True, gc=False, kw_only=True):
    """A set of clusters that namespaces can be given access to."""

    api_version: str = f"{GROUP}/v1beta2"
    kind: str = "ManagedClusterSet"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[
        ManagedClusterSetSpec,
        field(
            "Members of the set, and what it does on them.",
            default={"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}},
        ),
    ] = ManagedClusterSetSpec()
    status: Annotated[ManagedClusterSetStatus, field("What is known of the set.")] = ManagedClusterSetStatus()


class ManagedClusterSetBindingSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """The set that is bound."""

    cluster_set: Annotated[str, field("Name of the set.", min_length=1, max_length=253)]


class ManagedClusterSetBindingStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """What is known of a binding."""

    conditions: Annotated[list[Condition], field("Whether the set exists.", list_map_keys=("type",))] = []


class ManagedClusterSetBinding(APIStruct, frozen=True, gc=False, kw_only=True):
    """Lets the placements of a namespace select from a set. It has the name of the set."""

    api_version: str = f"{GROUP}/v1beta2"
    kind: str = "ManagedClusterSetBinding"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[ManagedClusterSetBindingSpec, field("The set that is bound.")]
    status: Annotated[ManagedClusterSetBindingStatus, field("What is known of the binding.")] = (
        ManagedClusterSetBindingStatus()
    )

    schema_extra: ClassVar[JSONObject] = {
        "x-kubernetes-validations": [
            Rule(
                "self.metadata.name == self.spec.clusterSet",
                "a binding must have the name of the cluster set that it binds",
                ".spec.clusterSet",
            )
        ]
    }


class AddOnPlacementScoreItem(APIStruct, frozen=True, gc=False, kw_only=True):
    """One score of a cluster."""

    name: Annotated[str, field("Name of the score.")]
    value: Annotated[int, field("The score; higher is better.", format="int32", minimum=-100, maximum=100)]


class AddOnPlacementScoreStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """The scores, and how long they hold."""

    conditions: Annotated[list[Condition], field("State of the scoring.", list_map_keys=("type",))] = []
    scores: Annotated[
        list[AddOnPlacementScoreItem], field("Scores of the cluster, by name.", list_map_keys=("name",))
    ] = []
    valid_until: Annotated[
        str, field("When the scores expire; absent means never. Expired scores count as zero.", format="date-time")
    ] = ""


class AddOnPlacementScore(APIStruct, frozen=True, gc=False, kw_only=True):
    """Scores that an add-on gives to the cluster in whose namespace this is."""

    api_version: str = f"{GROUP}/v1alpha1"
    kind: str = "AddOnPlacementScore"
    metadata: ObjectMeta = ObjectMeta()
    status: Annotated[AddOnPlacementScoreStatus, field("The scores, and how long they hold.")] = (
        AddOnPlacementScoreStatus()
    )


class ClusterClaimSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """What is claimed."""

    value: Annotated[str, field("Value of the claim.", min_length=1, max_length=1024)]


class ClusterClaim(APIStruct, frozen=True, gc=False, kw_only=True):
    """A fact that a cluster states about itself, kept on the cluster; its agent copies it to the hub."""

    api_version: str = f"{GROUP}/v1alpha1"
    kind: str = "ClusterClaim"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[ClusterClaimSpec, field("What is claimed.")]


AGE = Column("Age", ".metadata.creationTimestamp", type="date")

MANAGED_CLUSTER = Kind(
    GROUP,
    "v1",
    "ManagedCluster",
    "managedclusters",
    ManagedCluster,
    namespaced=False,
    short_names=("mcl", "mcls"),
    status=True,
    columns=(
        Column("Hub Accepted", ".spec.hubAcceptsClient", type="boolean"),
        Column("Managed Cluster URLs", ".spec.managedClusterClientConfigs[*].url"),
        Column("Joined", '.status.conditions[?(@.type=="ManagedClusterJoined")].status'),
        Column("Available", '.status.conditions[?(@.type=="ManagedClusterConditionAvailable")].status'),
        AGE,
    ),
)
MANAGED_CLUSTER_SET = Kind(
    GROUP,
    "v1beta2",
    "ManagedClusterSet",
    "managedclustersets",
    ManagedClusterSet,
    namespaced=False,
    short_names=("mclset", "mclsets"),
    status=True,
    columns=(Column("Empty", '.status.conditions[?(@.type=="ClusterSetEmpty")].status'), AGE),
)
MANAGED_CLUSTER_SET_BINDING = Kind(
    GROUP,
    "v1beta2",
    "ManagedClusterSetBinding",
    "managedclustersetbindings",
    ManagedClusterSetBinding,
    short_names=("mclsetbinding", "mclsetbindings"),
    status=True,
)
ADD_ON_PLACEMENT_SCORE = Kind(
    GROUP, "v1alpha1", "AddOnPlacementScore", "addonplacementscores", AddOnPlacementScore, status=True
)
CLUSTER_CLAIM = Kind(GROUP, "v1alpha1", "ClusterClaim", "clusterclaims", ClusterClaim, namespaced=False)

KINDS: tuple[Kind[Any], ...] = (
    MANAGED_CLUSTER,
    MANAGED_CLUSTER_SET,
    MANAGED_CLUSTER_SET_BINDING,
    ADD_ON_PLACEMENT_SCORE,
    CLUSTER_CLAIM,
)
