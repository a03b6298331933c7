"""How many replicas of a workload each cluster gets.

Static weights divide by highest averages, so that the division depends on nothing but the weights: with more replicas
nobody gets fewer. What clusters report changes all the time, and a division that followed it would move pods for
nothing; so by capacity only the difference is divided. Clusters keep what they have, what is missing goes where there
is room, what is too much is taken in proportion.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

from echelon.api.base import JSONObject
from echelon.api.cluster import ManagedCluster
from echelon.api.propagation import ReplicaScheduling, StaticClusterWeight
from echelon.api.quantity import QuantityError, parse_quantity
from echelon.engine.align.apportion import apportion
from echelon.engine.work.health_state import part
from echelon.engine.workload.affinity import affinity_match

DUPLICATED, DIVIDED, AGGREGATED = "Duplicated", "Divided", "Aggregated"
PODS = "pods"

Shares = dict[str, int]


@dataclass(frozen=True)
class Division:
    """Replicas by cluster, and what people should know of them."""

    shares: Shares = field(default_factory=dict)
    without: tuple[str, ...] = ()  # clusters that are selected and get none
    crowded: int = 0  # replicas for which no cluster reports room


def divide(
    total: int,
    scheduling: ReplicaScheduling | None,
    clusters: Sequence[ManagedCluster],
    current: Mapping[str, int],
    *,
    requests: Mapping[str, Fraction],
    kept: Mapping[str, int] | None = None,
) -> Division:
    """Divide replicas among clusters; `current` is what they have, `kept` are further ones that stay as they are.

    `requests` is what a replica asks for. A workload of no replicas at all is everywhere, with none.
    """
    names = [each.metadata.name for each in clusters]
    kept = dict(kept or {})
    if scheduling is None or scheduling.replica_scheduling_type == DUPLICATED or total == 0:
        return Division(dict.fromkeys(names, total) | kept)
    rest = max(0, total - sum(kept.values()))
    there = frozenset(names)
    has = {name: count for name, count in current.items() if count > 0 and name in there}
    weights = scheduling.weight_preference
    crowded = 0
    by_room = scheduling.replica_division_preference == AGGREGATED or (weights is not None and weights.dynamic_weight)
    if by_room and sum(has.values()) == rest:  # nobody has to be asked what it has room for
        shares = dict(has)
    elif scheduling.replica_division_preference == AGGREGATED:
        shares, crowded = by_aggregation(rest, _capacities(clusters, requests), has)
    elif weights is not None and weights.dynamic_weight:
        shares = by_capacity(rest, _capacities(clusters, requests), has)
    else:
        shares = by_weight(rest, static_weights(clusters, weights.static_weight_list if weights else ()), has)
    given = {name: count for name, count in shares.items() if count} | kept
    return Division(given, tuple(name for name in names if name not in given), crowded)


def static_weights(clusters: Iterable[ManagedCluster], rules: Sequence[StaticClusterWeight]) -> Shares:
    """Return the weight of each cluster: that of the first rule that matches, or none; all the same without any."""
    if not rules:
        return {each.metadata.name: 1 for each in clusters}
    compiled = [(affinity_match(rule.target_cluster), rule.weight) for rule in rules]
    found = {
        each.metadata.name: max(0, next((weight for matches, weight in compiled if matches(each)), 0))
        for each in clusters
    }
    return found if any(found.values()) else dict.fromkeys(found, 1)


def by_weight(total: int, weights: Mapping[str, int], current: Mapping[str, int]) -> Shares:
    """Divide in proportion to weights. Where two clusters have the same claim, who has the replica keeps it."""
    everything = sum(weights.values())

    def surplus(name: str) -> tuple[int, str]:
        return weights[name] * total - current.get(name, 0) * everything, name

    order = sorted(weights, key=surplus)
    if len(set(weights.values())) == 1:  # as it mostly is
        each, more = divmod(total, len(order))
        return {name: each + (place < more) for place, name in enumerate(order)}
    shares = apportion(total, [weights[name] for name in order], [0] * len(order), [total] * len(order))
    return dict(zip(order, shares, strict=True))


def by_capacity(total: int, capacities: Mapping[str, int], current: Mapping[str, int]) -> Shares:
    """Divide in proportion to what clusters have room for, and move nothing that is somewhere already."""
    if sum(current.values()) >= total:
        return _shrunk(total, capacities, current)
    weights = capacities if any(capacities.values()) else dict.fromkeys(capacities, 1)
    return _grown(total, weights, current, dict.fromkeys(weights, total))


def by_aggregation(total: int, capacities: Mapping[str, int], current: Mapping[str, int]) -> tuple[Shares, int]:
    """Divide to as few clusters as have room: first to those that have some. Return what no cluster has room for, too.

    What is too much goes from those that have least, so that they become fewer.
    """
    having = sum(current.values())
    if having >= total:
        shares = {name: current.get(name, 0) for name in capacities}
        for name in sorted(current, key=lambda each: (current[each], each)):
            gone = min(shares[name], having - total)
            shares[name] -= gone
            having -= gone
        return shares, 0
    tops = {name: max(capacities[name], current.get(name, 0)) for name in capacities}
    chosen: Shares = {}
    room = 0
    for name in sorted(capacities, key=lambda each: (not current.get(each), -tops[each], each)):
        if current.get(name) or room < total:
            chosen[name] = tops[name]
            room += tops[name]
    crowded = max(0, total - room)
    if crowded:  # pods that wait for room are better than pods that nobody knows of
        chosen = dict.fromkeys(chosen, total)
    weights = {name: capacities[name] for name in chosen}
    weights = weights if any(weights.values()) else dict.fromkeys(chosen, 1)
    shares = _grown(total, weights, current, chosen)
    return {name: shares.get(name, 0) for name in capacities}, crowded


def _grown(total: int, weights: Mapping[str, int], current: Mapping[str, int], tops: Mapping[str, int]) -> Shares:
    names = sorted(weights)
    shares = apportion(
        total,
        [weights[name] for name in names],
        [current.get(name, 0) for name in names],
        [tops[name] for name in names],
    )
    return dict(zip(names, shares, strict=True))


def _shrunk(total: int, names: Iterable[str], current: Mapping[str, int]) -> Shares:
    """Take away in proportion to what clusters have; nobody gets more."""
    order = sorted(current)
    sizes = [current[name] for name in order]
    shares = dict(zip(order, apportion(total, sizes, [0] * len(order), sizes), strict=True))
    return {name: shares.get(name, 0) for name in names}


def _capacities(clusters: Iterable[ManagedCluster], requests: Mapping[str, Fraction]) -> Shares:
    return {each.metadata.name: capacity(each, requests) for each in clusters}


def capacity(cluster: ManagedCluster, requests: Mapping[str, Fraction]) -> int:
    """Return how many replicas fit into a cluster that is empty; 0 where it reports nothing that tells that.

    Clusters report what their nodes have, not what is free. Resources that they do not report are not looked at. Pods
    that ask for nothing are counted by the number of pods, or, where that is not reported, of processor cores.
    """
    reported = cluster.status.allocatable or cluster.status.capacity
    bounds = [
        (amount.numerator * each.denominator) // (amount.denominator * each.numerator)
        for name, each in requests.items()
        if each > 0 and (amount := _amount(reported.get(name))) is not None
    ]
    if (pods := _amount(reported.get(PODS))) is not None:
        bounds.append(int(pods))
    if not bounds and (cores := _amount(reported.get("cpu"))) is not None:
        bounds.append(int(cores))
    return max(0, min(bounds)) if bounds else 0


def pod_requests(template: JSONObject) -> dict[str, Fraction]:
    """Return what a pod of a template asks for: all of its containers together."""
    found: dict[str, Fraction] = {}
    containers = part(template, "spec", "template", "spec").get("containers")
    for container in containers if isinstance(containers, list) else []:
        for name, value in part(container, "resources", "requests").items():
            amount = _amount(value)
            if amount is not None:
                found[name] = found.get(name, Fraction(0)) + amount
    return found


@lru_cache(maxsize=65536)  # clusters are many, and their nodes alike
def _amount(value: object) -> Fraction | None:
    if not isinstance(value, str | int):
        return None
    try:
        return parse_quantity(value).exact()
    except QuantityError:
        return None
