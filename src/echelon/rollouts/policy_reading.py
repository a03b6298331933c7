"""Reads a policy from a hub as the controller of policies would, so that both come to the same conclusions.

Replicas are in the namespaces of clusters, where few people may look, and so are the hub's definition of policies and
its list of clusters. Whatever cannot be seen is taken from what the policy's own status tells, and said.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

import msgspec

from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.keys import Key
from echelon.api.placement_rule import PLACEMENT_RULE
from echelon.api.policy import POLICY, PolicyStatus
from echelon.api.policy_binding import PLACEMENT_BINDING, POLICY_SET
from echelon.api.rollout import RolloutStrategy
from echelon.api.times import parse_time
from echelon.engine.policy.bindings import PLACEMENT_KIND, PlacementName, Way, ways_of
from echelon.engine.policy.content import PolicyContent, read_content
from echelon.engine.policy.kept_fields import OWN_FIELDS, PENDING_CHANGES, STRATEGY, kept_fields
from echelon.engine.policy.kept_status import with_whole_status
from echelon.engine.policy.names import POLICY_LABEL, ROOT_LABEL, replica_name, root_of
from echelon.engine.policy.raw_policy import RAW_POLICY, RawPolicy
from echelon.engine.policy.replica import read_replica
from echelon.engine.policy.view import PolicyView, read_revision, rule_view
from echelon.engine.rollout.annotations import STATUS_ANNOTATION, WRITTEN_ANNOTATION
from echelon.engine.rollout.model import Phase
from echelon.engine.rollout.references import PlacementReference
from echelon.engine.rollout.stored_revision import StoredRevision
from echelon.engine.rollout.subject import UnreadableHolding
from echelon.kube.client import Page, Reader
from echelon.kube.errors import ApiError, Forbidden, NotFound
from echelon.rollouts.memory import Memory
from echelon.rollouts.policy_told import placed_clusters, told_replicas
from echelon.rollouts.reading import outcomes_of, references, stored_revisions, unbound_clusters

T = TypeVar("T")

_ANY = RolloutStrategy()  # the engine gives all placements of a policy the strategy of that
_LONGEST_LABEL = 63
_WAITS = Phase.TO_APPLY.value


@dataclass(frozen=True)
class PolicyReading:
    """A policy as it is on a hub, with what its replicas say in full."""

    view: PolicyView
    reports: Mapping[str, RawPolicy] = field(default_factory=dict)  # by cluster; none where they may not be seen
    unseen: str = ""  # why replicas may not be seen
    keeps_changes: bool = True  # whether replicas have room for what enforcing would change


def whole_status(policy: RawPolicy) -> PolicyStatus:
    """Return the status of a policy, wherever the hub keeps it."""
    if STATUS_ANNOTATION not in policy.metadata.annotations:
        return policy.status
    nothing = PolicyContent({}, "", "", enforceable=False)
    return with_whole_status(PolicyView(policy, nothing, keeps_status=False)).policy.status


def root_of_replica(document: JSONObject) -> Key | None:
    """Return the policy that an object is the replica of; None if it is a policy of its own."""
    meta = document["metadata"]
    label = (meta.get("labels") or {}).get(ROOT_LABEL)
    return root_of(meta["name"]) if label == meta["name"] else None


async def read_policy(
    client: Reader, document: JSONObject, now: datetime, memory: Memory | None = None
) -> PolicyReading:
    """Return a policy with everything around it."""
    policy = msgspec.convert(document, RawPolicy)
    meta = policy.metadata
    key = Key(meta.namespace, meta.name)
    bindings, listed_sets, kept, is_cluster, page, revisions = await asyncio.gather(
        client.list(PLACEMENT_BINDING, key.namespace),
        _unless(client.list(POLICY_SET, key.namespace), NotFound),
        _kept(client, policy),
        _is_cluster_namespace(client, key.namespace),
        _unless(client.list(RAW_POLICY, fields=f"metadata.name={replica_name(key)}"), Forbidden),
        _revisions(client, policy),
    )
    sets = {each.metadata.name: each for each in (listed_sets.items if listed_sets is not None else ())}
    members = {name: tuple(each.spec.policies) for name, each in sets.items()}
    ways = ways_of(key, bindings.items, sets)
    view = with_whole_status(
        PolicyView(
            policy,
            read_content(key, policy.spec, members),
            ways,
            await _placements(client, key.namespace, ways),
            revisions=revisions,
            set_members=members,
            in_cluster_namespace=is_cluster,
            keeps_strategy=STRATEGY in kept,
            keeps_status=kept >= frozenset(OWN_FIELDS) - {STRATEGY},
        )
    )
    status = view.policy.status
    view = replace(view, outcomes=outcomes_of(meta, status.conditions), unbound=unbound_clusters(status.rollout))
    keeps_changes = PENDING_CHANGES in kept
    if page is None:
        view = replace(view, allow_all=_is_everywhere(each.rollout_status == _WAITS for each in status.status))
        told = replace(view, replicas=told_replicas(view, now))
        unseen = "the replicas in the namespaces of clusters may not be listed: this is what the policy's status says"
        return PolicyReading(told, unseen=unseen, keeps_changes=keeps_changes)
    return await _with_replicas(client, view, page, memory or Memory(), keeps_changes=keeps_changes)


async def read_replicas(client: Reader, reading: PolicyReading, clusters: Iterable[str]) -> PolicyReading:
    """Return a policy with the replicas of some clusters, for whoever may see these but not all."""
    name = replica_name(reading.view.key)
    pages = await asyncio.gather(*(client.list(RAW_POLICY, each, fields=f"metadata.name={name}") for each in clusters))
    reports = {each.metadata.namespace: each for page in pages for each in page.items}
    replicas = {cluster: read_replica(each) for cluster, each in reports.items()}
    return replace(reading, view=replace(reading.view, replicas=replicas), reports=reports, unseen="")


async def _with_replicas(
    client: Reader, view: PolicyView, page: Page[RawPolicy], memory: Memory, *, keeps_changes: bool
) -> PolicyReading:
    """Return a policy with those of the objects of its replicas' name that are its replicas."""
    name, listed = replica_name(view.key), placed_clusters(view)
    there = {each.metadata.namespace for each in page.readable} | {each.metadata.namespace for each in page.unreadable}
    # What stands in a namespace that is no cluster's is somebody else's, though it looks like a replica.
    clusters = await _cluster_names(client) if there - listed else None
    reports = {
        each.metadata.namespace: each
        for each in page.readable
        if each.metadata.namespace in listed
        or (each.metadata.labels.get(ROOT_LABEL) == name and _is_cluster(each.metadata.namespace, clusters))
    }
    unread = {
        each.metadata.namespace: UnreadableHolding(
            parse_time(each.metadata.annotations.get(WRITTEN_ANNOTATION))
            or parse_time(each.metadata.creation_timestamp),
            f"the replica {name} is there and cannot be read: {each.why}",
        )
        for each in page.unreadable
        if _is_cluster(each.metadata.namespace, clusters)
    }
    replicas = {cluster: memory.made(read_replica, each) for cluster, each in reports.items()}
    found = replace(
        view, replicas=replicas, unread=unread, allow_all=_is_everywhere(each.held for each in replicas.values())
    )
    return PolicyReading(found, reports, keeps_changes=keeps_changes)


def _is_cluster(namespace: str, clusters: frozenset[str] | None) -> bool:
    return clusters is None or namespace in clusters


def _is_everywhere(held: Iterable[bool]) -> bool:
    """Whether the controllers take policies without a strategy for such that go everywhere: only they are told that.

    Where they do not, they hold replicas; `held` tells of each. It matters only where strategies are dropped.
    """
    held = list(held)
    return bool(held) and not any(held)


async def _is_cluster_namespace(client: Reader, namespace: str) -> bool:
    """Whether only replicas belong there. Who may not know that will be told by the policy's conditions."""
    try:
        await client.get(MANAGED_CLUSTER.untyped(), namespace)
    except (NotFound, Forbidden):
        return False
    return True


async def _cluster_names(client: Reader) -> frozenset[str] | None:
    """Return the clusters of the hub; None if they may not be seen."""
    page = await _unless(client.list(MANAGED_CLUSTER.untyped()), Forbidden, NotFound)
    return None if page is None else frozenset(each["metadata"]["name"] for each in page.items)


async def _placements(client: Reader, namespace: str, ways: Iterable[Way]) -> dict[PlacementName, PlacementReference]:
    names = list(dict.fromkeys(way.placement for way in ways))
    placements = [each for each in names if each.kind == PLACEMENT_KIND]
    found = dict(
        zip(placements, await references(client, namespace, ((each.name, _ANY) for each in placements)), strict=True)
    )
    for name in names:
        if name.kind == PLACEMENT_KIND:
            continue
        rule = await _unless(client.get(PLACEMENT_RULE, name.name, namespace), NotFound)
        clusters = frozenset(each.cluster_name for each in rule.status.decisions) if rule is not None else None
        placement = rule_view(clusters - {""}) if clusters is not None else None
        found[name] = PlacementReference(name.title, _ANY, placement)
    return found


async def _revisions(client: Reader, policy: RawPolicy) -> tuple[StoredRevision, ...]:
    meta = policy.metadata
    name = replica_name(Key(meta.namespace, meta.name))
    if len(name) > _LONGEST_LABEL:  # so no revision can have it as its label
        return ()
    return await stored_revisions(client, meta, f"{POLICY_LABEL}={name}", read_revision)


async def _kept(client: Reader, policy: RawPolicy) -> frozenset[str]:
    """Return which of Echelon's fields the hub keeps in policies, as its definition of them says.

    Who may not see that can tell only from where the controller has put the status.
    """
    try:
        return kept_fields(await client.get(CUSTOM_RESOURCE_DEFINITION.untyped(), POLICY.resource))
    except NotFound:  # the hub serves policies by itself, and whole
        return frozenset(OWN_FIELDS)
    except Forbidden:
        return frozenset() if STATUS_ANNOTATION in policy.metadata.annotations else frozenset(OWN_FIELDS)


async def _unless(asked: Awaitable[T], *refusals: type[ApiError]) -> T | None:
    """Return an answer, or nothing where that was refused in one of these ways."""
    try:
        return await asked
    except refusals:
        return None
