"""Which clusters a policy of Karmada's means, where the clusters are ManagedClusters.

A ManagedCluster has no fields for where it is, as Karmada's Cluster has. What it claims of itself and how it is
labelled say the same: the region is the claim `region.open-cluster-management.io`, and so on.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from echelon.api.cluster import ManagedCluster
from echelon.api.karmada_selectors import FIELDS, ClusterAffinity
from echelon.api.label_terms import Requirement
from echelon.api.labels import Selector, SelectorError, from_label_selector
from echelon.engine.workload.names import LONGEST_CLUSTER_NAME

ClusterMatch: TypeAlias = Callable[[ManagedCluster], bool]

# Where to look for a field, the first that has something: a claim, then labels.
_CLAIMS = {"provider": "platform.open-cluster-management.io", "region": "region.open-cluster-management.io"}
_LABELS = {
    "provider": ("cloud",),
    "region": ("topology.kubernetes.io/region", "region"),
    "zone": ("topology.kubernetes.io/zone", "zone"),
}
_OPERATORS = {"In": "in", "NotIn": "notin"}


def can_have_works(cluster: ManagedCluster) -> bool:
    """Whether works can be sent to a cluster at all: it was let in, stays, and its name leaves room for a namespace."""
    meta = cluster.metadata
    return cluster.spec.hub_accepts_client and not meta.deletion_timestamp and len(meta.name) <= LONGEST_CLUSTER_NAME


def affinity_match(affinity: ClusterAffinity | None, path: str = "") -> ClusterMatch:
    """Return what tells whether a cluster is meant; `path` is where the affinity stands. Raises SelectorError."""
    if affinity is None:
        return _everyone
    prefix = f"{path}." if path else ""
    labels = (
        from_label_selector(affinity.label_selector, f"{prefix}labelSelector")
        if affinity.label_selector is not None
        else Selector()
    )
    fields = _field_selector(affinity, prefix)
    names, excluded = frozenset(affinity.cluster_names), frozenset(affinity.exclude)

    def matches(cluster: ManagedCluster) -> bool:
        meta = cluster.metadata
        return (
            meta.name not in excluded
            and (not names or meta.name in names)
            and labels.matches(meta.labels)
            and (not fields.requirements or fields.matches(cluster_fields(cluster)))
        )

    return matches


def cluster_fields(cluster: ManagedCluster) -> Mapping[str, str]:
    """Return provider, region and zone of a cluster, as far as they are known."""
    claims = {claim.name: claim.value for claim in cluster.status.cluster_claims}
    labels = cluster.metadata.labels
    found = {
        each: claims.get(_CLAIMS.get(each, "")) or next((labels[key] for key in _LABELS[each] if labels.get(key)), "")
        for each in FIELDS
    }
    return {each: value for each, value in found.items() if value}


def _field_selector(affinity: ClusterAffinity, prefix: str) -> Selector:
    """Return the terms about fields. A term that nobody understands must not match everybody."""
    terms = affinity.field_selector.match_expressions if affinity.field_selector is not None else []
    for number, term in enumerate(terms):
        where = f"{prefix}fieldSelector.matchExpressions[{number}]"
        if term.key not in FIELDS:
            raise SelectorError(f'{where}.key: it is "{term.key}", and must be one of {", ".join(FIELDS)}')
        if term.operator not in _OPERATORS:
            raise SelectorError(f'{where}.operator: it is "{term.operator}", and must be In or NotIn')
    return Selector(tuple(Requirement(term.key, _OPERATORS[term.operator], tuple(term.values)) for term in terms))


def _everyone(_: ManagedCluster) -> bool:
    return True
