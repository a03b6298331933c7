"""What a cluster says about itself, from what its API shows: resources, versions and claims.

These are for choosing clusters, so they must not flicker: the same nodes in any order give the same words.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import ceil

from echelon.api.cluster import ClusterClaim, ManagedClusterClaim
from echelon.api.nodes import Node
from echelon.engine.placement.quantity import QuantityError, parse_quantity

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


def total(amounts: Iterable[dict[str, str | int]]) -> dict[str, str | int]:
    """Return the sum of each resource over nodes, as Kubernetes would write it."""
    sums: dict[str, Fraction] = {}
    binary: dict[str, bool] = {}
    for amount in amounts:
        for name, value in amount.items():
            try:
                exact = parse_quantity(value).exact()
            except QuantityError:
                continue
            sums[name] = sums.get(name, Fraction(0)) + exact
            binary[name] = binary.get(name, True) and str(value).endswith("i")
    return {name: _written(sums[name], binary=binary[name]) for name in sorted(sums)}


def claims(
    nodes: Sequence[Node], version: str, cluster_id: str, stated: Iterable[ClusterClaim]
) -> list[ManagedClusterClaim]:
    """Return the claims of a cluster. What is stated on the cluster wins over what was found out."""
    found = {
        ID_CLAIM: cluster_id,
        VERSION_CLAIM: version,
        PLATFORM_CLAIM: _one(_PLATFORMS.get(node.spec.provider_id.partition(":")[0], "") for node in nodes),
        REGION_CLAIM: _one(node.metadata.labels.get(label, "") for node in nodes for label in _REGION_LABELS),
        PRODUCT_CLAIM: _product(nodes, version),
    }
    said = {claim.metadata.name: claim.spec.value for claim in stated}
    custom = sorted(name for name in said if name not in RESERVED)[:MOST_CUSTOM_CLAIMS]
    merged = {**found, **{name: said[name] for name in said if name in RESERVED or name in custom}}
    return [ManagedClusterClaim(name=name, value=value) for name, value in sorted(merged.items()) if value]


def _product(nodes: Sequence[Node], version: str) -> str:
    labelled = _one(
        product for node in nodes for label, product in _PRODUCT_LABELS.items() if label in node.metadata.labels
    )
    return labelled or next((product for part, product in _PRODUCT_VERSIONS.items() if part in version), "")


def _one(values: Iterable[str]) -> str:
    """Return the first of the values in their order; a cluster of two regions has to say something."""
    return min((value for value in values if value), default="")


def _written(value: Fraction, *, binary: bool) -> str:
    if value.denominator != 1:
        return f"{ceil(value * 1000)}m"
    whole, unit = value.numerator, ""
    if binary:
        for suffix in _BINARY:
            if whole == 0 or whole % 1024:
                break
            whole, unit = whole // 1024, suffix
    return f"{whole}{unit}"
