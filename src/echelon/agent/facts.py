"""What a cluster says about itself, from what its API shows: resources, versions and claims.

These are for choosing clusters, so they must not flicker: the same nodes in any order give the same words. A cluster
may have thousands of nodes, so what is said of them is added up node by node, and no node is kept.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

from echelon.api.cluster import ClusterClaim, ManagedClusterClaim
from echelon.api.nodes import Node
from echelon.api.quantity import QuantityError, parse_quantity

ID_CLAIM = "id.k8s.io"
VERSION_CLAIM = "kubeversion.open-cluster-management.io"
PLATFORM_CLAIM = "platform.open-cluster-management.io"
REGION_CLAIM = "region.open-cluster-management.io"
PRODUCT_CLAIM = "product.open-cluster-management.io"
RESERVED = frozenset({ID_CLAIM, VERSION_CLAIM, PLATFORM_CLAIM, REGION_CLAIM, PRODUCT_CLAIM})
MOST_CUSTOM_CLAIMS = 20

_REGION_LABELS = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
_PLATFORMS = {
    "aws": "AWS",
    "azure": "Azure",
    "gce": "GCP",
    "ibm": "IBM",
    "openstack": "OpenStack",
    "vsphere": "VSphere",
    "baremetalhost": "BareMetal",
}
_PRODUCT_LABELS = {
    "eks.amazonaws.com/nodegroup": "EKS",
    "cloud.google.com/gke-nodepool": "GKE",
    "kubernetes.azure.com/cluster": "AKS",
    "node.openshift.io/os_id": "OpenShift",
}
_PRODUCT_VERSIONS = {"-eks-": "EKS", "-gke.": "GKE", "+k3s": "K3S", "+rke2": "RKE2", "+IKS": "IKS"}
_BINARY = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


@dataclass
class Amounts:
    """The sum of each resource over nodes."""

    _sums: dict[str, Fraction] = field(default_factory=dict)
    _binary: dict[str, bool] = field(default_factory=dict)

    def add(self, amount: dict[str, str | int]) -> None:
        """Take in what one node has; what is no quantity is left out."""
        for name, value in amount.items():
            try:
                exact = parse_quantity(value).exact()
            except QuantityError:
                continue
            self._sums[name] = self._sums.get(name, Fraction(0)) + exact
            self._binary[name] = self._binary.get(name, True) and str(value).endswith("i")

    def total(self) -> dict[str, str | int]:
        """Return the sums, as Kubernetes would write them."""
        return {name: _quantity(self._sums[name], binary=self._binary[name]) for name in sorted(self._sums)}


@dataclass
class NodeFigures:
    """What the nodes of a cluster say about it. A cluster of two regions has to say something: the first by name."""

    capacity: Amounts = field(default_factory=Amounts)
    allocatable: Amounts = field(default_factory=Amounts)
    platform: str = ""
    region: str = ""
    product: str = ""

    def add(self, node: Node) -> None:
        """Take in what one node says."""
        self.capacity.add(node.status.capacity)
        self.allocatable.add(node.status.allocatable)
        labels, platform = node.metadata.labels, _PLATFORMS.get(node.spec.provider_id.partition(":")[0], "")
        self.platform = _first((self.platform, platform))
        self.region = _first((self.region, *(labels.get(label, "") for label in _REGION_LABELS)))
        products = (product for label, product in _PRODUCT_LABELS.items() if label in labels)
        self.product = _first((self.product, *products))


def claims(
    nodes: NodeFigures, version: str, cluster_id: str, stated: Iterable[ClusterClaim]
) -> list[ManagedClusterClaim]:
    """Return the claims of a cluster. What is stated on the cluster wins over what was found out."""
    by_version = (product for part, product in _PRODUCT_VERSIONS.items() if part in version)
    found = {
        ID_CLAIM: cluster_id,
        VERSION_CLAIM: version,
        PLATFORM_CLAIM: nodes.platform,
        REGION_CLAIM: nodes.region,
        PRODUCT_CLAIM: nodes.product or next(by_version, ""),
    }
    values = {claim.metadata.name: claim.spec.value for claim in stated}
    custom = sorted(name for name in values if name not in RESERVED)[:MOST_CUSTOM_CLAIMS]
    merged = {**found, **{name: values[name] for name in values if name in RESERVED or name in custom}}
    return [ManagedClusterClaim(name=name, value=value) for name, value in sorted(merged.items()) if value]


def _first(values: Iterable[str]) -> str:
    """Return the first of the values in their order."""
    return min((value for value in values if value), default="")


def _quantity(value: Fraction, *, binary: bool) -> str:
    if value.denominator != 1:
        return f"{ceil(value * 1000)}m"
    whole, unit = value.numerator, ""
    if binary:
        for suffix in _BINARY:
            if whole == 0 or whole % 1024:
                break
            whole, unit = whole // 1024, suffix
    return f"{whole}{unit}"
