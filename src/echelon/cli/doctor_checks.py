"""The checks of `echelon doctor`: what a hub lacks, or would drop."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

import msgspec

from echelon.api import guards
from echelon.api.admissionregistration import VALIDATING_ADMISSION_POLICY, VALIDATING_ADMISSION_POLICY_BINDING
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSON, JSONObject
from echelon.api.cluster import MANAGED_CLUSTER_SET_BINDING
from echelon.api.coordination import LEASE
from echelon.api.grove import POD_CLIQUE_SET, PodCliqueSet
from echelon.api.kinds import Kind
from echelon.api.policy import POLICY
from echelon.api.schema import schema_of
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET, ManifestWorkReplicaSet
from echelon.cli.connection import Connection
from echelon.controllers.pod_clique.rival import LEASE_NAME as GROVE_LEASE
from echelon.controllers.running import NAMES, custom_kinds_of, installing
from echelon.engine.kept_fields import keeps, schema_at
from echelon.engine.policy.kept_fields import OWN_FIELDS, STRATEGY, kept_fields
from echelon.engine.policy.names import STRATEGY_ANNOTATION
from echelon.kube.errors import Forbidden, NotFound
from echelon.kube.http import HttpClient

_PAGE = 500
_APPLY = "kubectl apply --server-side -f -"
_GUARDS = {each.kind: each for each in (VALIDATING_ADMISSION_POLICY, VALIDATING_ADMISSION_POLICY_BINDING)}
_CLIQUE_FIELDS = ("status.outdatedPods", "status.outdatedPodsCount", "status.outdatedSince", "status.currentRevision")
# What a server adds to a policy that leaves it open.
_DEFAULTS = {"matchPolicy": "Equivalent", "scope": "*"}


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one check found."""

    check: str
    state: Literal["ok", "finding", "unknown"]
    message: str
    items: tuple[str, ...] = ()
    fix: str = ""


def examine(connection: Connection) -> list[Finding]:
    """Look at everything that a hub may lack."""
    return asyncio.run(_examine(connection))


async def _examine(connection: Connection) -> list[Finding]:
    async with connection.open() as client:
        found = [await _tried(name, check, client) for name, check in _CHECKS.items()]
    return [each for each in found if each is not None]


async def _tried(name: str, check: "_Check", client: HttpClient) -> Finding | None:
    try:
        return await check(name, client)
    except Forbidden as error:
        return Finding(name, "unknown", f"You may not look at this: {error.message}")


async def _kinds(name: str, client: HttpClient) -> Finding:
    needed = custom_kinds_of(NAMES)
    served = {group: await _served(client, group) for group in {kind.api_version for kind in needed}}
    missing = [kind for kind in needed if kind.plural not in served[kind.api_version]]
    if not missing:
        return Finding(name, "ok", f"The {len(needed)} kinds that the controllers need are served.")
    return Finding(
        name,
        "finding",
        "Kinds that the controllers need are not served:",
        tuple(kind.resource for kind in missing),
        f"{next(iter(installing(missing, NAMES)))} | {_APPLY}",
    )


async def _served(client: HttpClient, api_version: str) -> frozenset[str]:
    try:
        document = await client.document(f"/apis/{api_version}")
    except NotFound:
        return frozenset()
    return frozenset(each["name"] for each in document.get("resources") or ())


async def _guards(name: str, client: HttpClient) -> Finding:
    usual = [kind.resource for kind in custom_kinds_of(NAMES)]
    wrong = await _wrong_guards(client, usual)
    if not wrong:
        return Finding(name, "ok", "The hub asks who may bind a cluster set, join one, and accept a cluster.")
    return Finding(
        name,
        "finding",
        "Whoever may write bindings and clusters can bind and join any cluster set, or accept any cluster:",
        wrong,
        _printed(usual),
    )


async def _wrong_guards(client: HttpClient, guarded: Sequence[str]) -> tuple[str, ...]:
    """Return what is wrong with the admission policies about some resources."""
    wrong = []
    for wanted in guards.guards(*guarded):
        kind, title = _GUARDS[wanted["kind"]], wanted["metadata"]["name"]
        there = await _found(client, kind, title)
        if there is None:
            wrong.append(f"{kind.kind} {title} is missing")
        elif _essence(there.get("spec")) != _essence(wanted["spec"]):
            wrong.append(f"{kind.kind} {title} is not what this version of Echelon installs")
    return tuple(wrong)


def _printed(guarded: Sequence[str]) -> str:
    """Return what installs the admission policies about some resources."""
    names = dict.fromkeys(each["metadata"]["name"] for each in guards.guards(*guarded))
    return f"echelon crds {' '.join(names)} | {_APPLY}"


async def _found(client: HttpClient, kind: Kind[Any], name: str) -> JSONObject | None:
    try:
        found: JSONObject = await client.get(kind.untyped(), name)
    except NotFound:
        return None
    return found


def _essence(value: JSON) -> JSON:
    """Return a value without what means nothing, so that one that went through a server can be compared."""
    if isinstance(value, dict):
        kept = {name: _essence(each) for name, each in value.items() if _DEFAULTS.get(name) != each}
        return {name: each for name, each in kept.items() if each not in ({}, [], "", None)}
    return [_essence(each) for each in value] if isinstance(value, list) else value


async def _bindings(name: str, client: HttpClient) -> Finding:
    """Find bindings that are not younger than the policy: a policy checks what is written after it."""
    since = await _guarded_since(client)
    older: list[str] = []
    continue_ = ""
    try:
        while True:
            page = await client.list(MANAGED_CLUSTER_SET_BINDING, limit=_PAGE, continue_=continue_)
            metas = [each.metadata for each in page.items]
            older += [f"{m.namespace}/{m.name}" for m in metas if not since or (m.creation_timestamp or "") <= since]
            if not (continue_ := page.continue_):
                break
    except NotFound:
        return Finding(name, "ok", "There are no bindings of cluster sets.")
    if not older:
        return Finding(name, "ok", "Every binding of a cluster set was checked when it was made.")
    what = "These bindings are older than the policy, so nobody asked who may make them"
    return Finding(name, "finding", f"{what}; look whether their namespaces should have the sets:", tuple(older))


async def _guarded_since(client: HttpClient) -> str:
    """Return since when bindings are checked; empty if they are not."""
    times = []
    for wanted in guards.guards(MANAGED_CLUSTER_SET_BINDING.resource):
        there = await _found(client, _GUARDS[wanted["kind"]], wanted["metadata"]["name"])
        times.append(there["metadata"]["creationTimestamp"] if there is not None else "")
    return max(times) if all(times) else ""


async def _status(name: str, client: HttpClient) -> Finding:
    kind, path = MANIFEST_WORK_REPLICA_SET, "status.rollout"
    there = await _found(client, CUSTOM_RESOURCE_DEFINITION, kind.resource)
    if there is None:
        return Finding(name, "unknown", f"There is no definition of {kind.resource} to look at.")
    if keeps(there, kind.version, path, schema_at(schema_of(ManifestWorkReplicaSet), path)):
        return Finding(name, "ok", "The status of a work set keeps what Echelon writes into it.")
    return Finding(
        name,
        "finding",
        f"The definition of {kind.resource} is not Echelon's and drops status.rollout. Rollouts work; what kubectl "
        "shows is reduced to conditions and summaries, without the state and the reason of each cluster.",
    )


async def _policy_names(name: str, client: HttpClient) -> Finding | None:
    if await _found(client, CUSTOM_RESOURCE_DEFINITION, POLICY.resource) is None:
        return None  # a hub without policies lacks nothing
    wrong = await _wrong_guards(client, [POLICY.resource])
    if not wrong:
        return Finding(name, "ok", "The hub refuses policies whose names do not fit into a label.")
    return Finding(
        name,
        "finding",
        "A policy whose namespace and name are too long for a label is taken, and reaches no cluster:",
        wrong,
        _printed([POLICY.resource]),
    )


async def _policy_fields(name: str, client: HttpClient) -> Finding | None:
    there = await _found(client, CUSTOM_RESOURCE_DEFINITION, POLICY.resource)
    if there is None:
        return None
    kept = kept_fields(there)
    dropped = tuple(path for path in OWN_FIELDS if path not in kept)
    if not dropped:
        return Finding(name, "ok", "Policies keep their rollout strategy, and what Echelon writes into their status.")
    said = f"The definition of {POLICY.resource} is not Echelon's. "
    if STRATEGY in dropped:
        said += (
            f"It drops the rollout strategy, which the annotation {STRATEGY_ANNOTATION} has to carry; a policy without "
            "that annotation is held. "
        )
    if dropped != (STRATEGY,):
        said += "What kubectl shows of a rollout is reduced. "
    return Finding(name, "finding", f"{said}These fields are dropped:", dropped)


async def _clique_fields(name: str, client: HttpClient) -> Finding | None:
    kind = POD_CLIQUE_SET
    there = await _found(client, CUSTOM_RESOURCE_DEFINITION, kind.resource)
    if there is None:
        return None  # a cluster without sets lacks nothing
    own = schema_of(PodCliqueSet)
    dropped = tuple(path for path in _CLIQUE_FIELDS if not keeps(there, kind.version, path, schema_at(own, path)))
    if not dropped:
        return Finding(name, "ok", "PodCliqueSets keep what Echelon writes into their status.")
    return Finding(
        name,
        "finding",
        f"The definition of {kind.resource} is not Echelon's. Sets are looked after all the same; which pods are "
        "outdated is told by echelon rollout outdated, and not in the status. These fields are dropped:",
        dropped,
    )


async def _clique_rival(name: str, client: HttpClient) -> Finding | None:
    if await _found(client, CUSTOM_RESOURCE_DEFINITION, POD_CLIQUE_SET.resource) is None:
        return None
    leases = (await client.list(LEASE, fields=f"metadata.name={GROVE_LEASE}")).items
    holders = tuple(
        f"{each.spec.holder_identity} holds the lease {each.metadata.namespace}/{GROVE_LEASE}"
        for each in leases
        if each.spec.holder_identity
    )
    if not holders:
        return Finding(name, "ok", "Grove's own operator does not look after PodCliqueSets here.")
    what = "Grove's own operator looks after PodCliqueSets here, and while it does nobody else will"
    return Finding(name, "finding", f"{what}; stop it where `echelon run --controllers pod-cliques` is to:", holders)


_Check = Callable[[str, HttpClient], Awaitable[Finding | None]]
_CHECKS: dict[str, _Check] = {
    "kinds": _kinds,
    "policies": _guards,
    "bindings": _bindings,
    "status": _status,
    "policy-names": _policy_names,
    "policy-fields": _policy_fields,
    "pod-clique-fields": _clique_fields,
    "pod-clique-rival": _clique_rival,
}
