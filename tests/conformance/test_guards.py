"""Who may bind, join and accept, and what a policy may be called: every server refuses the same with the same words."""

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest

from echelon.api.admissionregistration import VALIDATING_ADMISSION_POLICY, VALIDATING_ADMISSION_POLICY_BINDING
from echelon.api.authorization import SELF_SUBJECT_ACCESS_REVIEW
from echelon.api.base import JSONObject
from echelon.api.cluster import GROUP, MANAGED_CLUSTER, MANAGED_CLUSTER_SET_BINDING, SET_LABEL
from echelon.api.guards import GUARDED, REGISTER_GROUP, guards
from echelon.api.kinds import Kind
from echelon.api.policy import GROUP as POLICY_GROUP
from echelon.api.policy import POLICY, ROOT_LABEL
from echelon.api.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING
from echelon.api.rbac import GROUP as RBAC
from echelon.kube.client import ApplyPatch, Client, MergePatch, WriteOptions
from echelon.kube.errors import ApiError, Forbidden, Invalid, NotFound
from tests.conformance.targets import Target

CLUSTERS = MANAGED_CLUSTER.untyped()
BINDINGS = MANAGED_CLUSTER_SET_BINDING.untyped()
# A server reads new policies and rights a moment after they were made.
READY_SECONDS = 30.0
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "main")
USER = f"owner-of-nothing-{WORKER}"
NO_TEMPLATES: JSONObject = {"disabled": False, "policy-templates": []}
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Guarded:
    """A server that has the policies, as its administrator and as somebody with ordinary rights see it."""

    name: str
    admin: Client
    user: Client


async def _create(client: Client, kind: Kind[Any], name: str, namespace: str = "", **content: Any) -> JSONObject:
    metadata = {"name": name, **content.pop("metadata", {})}
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **content}
    made: JSONObject = await client.create(kind.untyped(), body, namespace)
    return made


def _rule(group: str, resource: str, verbs: str, *names: str) -> JSONObject:
    rule: JSONObject = {"apiGroups": [group], "resources": [resource], "verbs": verbs.split(",")}
    return {**rule, "resourceNames": list(names)} if names else rule


ORDINARY = (
    _rule(GROUP, "managedclusters", "get,create,update,patch,delete"),
    _rule(GROUP, "managedclusters/status", "get,update,patch"),
    _rule(GROUP, "managedclustersetbindings", "get,create,update,patch,delete"),
    _rule(POLICY_GROUP, "policies", "get,create"),
)


@pytest.fixture(scope="module")
def guarded(target: Target, runner: asyncio.Runner) -> Iterator[Guarded]:
    opening = target.as_user(USER)
    server = Guarded(target.name, target.client, runner.run(opening.__aenter__()))
    try:
        runner.run(_install(server))
        yield server
    finally:
        runner.run(_closed(opening))


async def _closed(opening: Any) -> None:
    await opening.__aexit__(None, None, None)


async def _install(server: Guarded) -> None:
    kinds = {each.kind: each for each in (VALIDATING_ADMISSION_POLICY, VALIDATING_ADMISSION_POLICY_BINDING)}
    for document in guards(*GUARDED):
        kind = kinds[document["kind"]].untyped()
        await server.admin.patch(kind, document["metadata"]["name"], ApplyPatch(document, "echelon"))
    async with _rights(server, *ORDINARY), asyncio.timeout(READY_SECONDS):
        while not all(["denied request" in await _dry(server.user, **attempt) for attempt in _ATTEMPTS]):  # noqa: ASYNC110 - elsewhere
            await asyncio.sleep(0.1)


_ATTEMPTS: tuple[JSONObject, ...] = (
    {"kind": MANAGED_CLUSTER, "metadata": {"labels": {SET_LABEL: "nothing"}}, "spec": {"hubAcceptsClient": False}},
    {"kind": MANAGED_CLUSTER, "spec": {"hubAcceptsClient": True}},
    {"kind": MANAGED_CLUSTER_SET_BINDING, "name": "nothing", "namespace": "default", "spec": {"clusterSet": "nothing"}},
    {"kind": POLICY, "name": "n" * 63, "namespace": "default", "spec": NO_TEMPLATES},
)


async def _dry(client: Client, *, kind: Kind[Any], namespace: str = "", **content: Any) -> str:
    metadata = {"name": content.pop("name", "probe"), **content.pop("metadata", {})}
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **content}
    try:
        await client.create(kind.untyped(), body, namespace, options=WriteOptions(dry_run=True))
    except ApiError as error:
        return str(error)
    return ""


@asynccontextmanager
async def _rights(server: Guarded, *rules: JSONObject) -> AsyncIterator[None]:
    """Give somebody rights for a while."""
    name = f"guards-{WORKER}-{server.name}-{next(_numbers)}"
    await _create(server.admin, CLUSTER_ROLE, name, rules=list(rules))
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
    subject = {"apiGroup": RBAC, "kind": "User", "name": USER}
    await _create(server.admin, CLUSTER_ROLE_BINDING, name, roleRef=reference, subjects=[subject])
    try:
        await _in_force(server, rules)
        yield
    finally:
        await server.admin.delete(CLUSTER_ROLE_BINDING, name)
        await server.admin.delete(CLUSTER_ROLE, name)


async def _in_force(server: Guarded, rules: tuple[JSONObject, ...]) -> None:
    last = rules[-1]
    resource, _, subresource = last["resources"][0].partition("/")
    asked = {
        "verb": last["verbs"][0],
        "group": last["apiGroups"][0],
        "resource": resource,
        "subresource": subresource,
        "name": (last.get("resourceNames") or [""])[0],
    }
    kind = SELF_SUBJECT_ACCESS_REVIEW
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "spec": {"resourceAttributes": asked}}
    async with asyncio.timeout(READY_SECONDS):
        while not (await server.user.create(kind, body)).status.allowed:  # noqa: ASYNC110 - elsewhere
            await asyncio.sleep(0.05)


@asynccontextmanager
async def _cluster(server: Guarded, *, set_: str = "", accepted: bool = False) -> AsyncIterator[str]:
    """A cluster that the administrator made."""
    name = f"guarded-{WORKER}-{server.name}-{next(_numbers)}"
    labels = {SET_LABEL: set_} if set_ else {}
    await _create(server.admin, MANAGED_CLUSTER, name, metadata={"labels": labels}, spec={"hubAcceptsClient": accepted})
    try:
        yield name
    finally:
        with suppress(NotFound):  # a test may have deleted it
            await server.admin.delete(CLUSTERS, name)


def _denied(policy: str, why: str) -> str:
    return f"ValidatingAdmissionPolicy '{policy}' with binding '{policy}' denied request: {why}"


async def test_a_set_is_bound_only_by_those_who_may_bind_it(guarded: Guarded, namespace: str) -> None:
    async with _rights(guarded, *ORDINARY):
        with pytest.raises(Forbidden) as refused:
            await _create(guarded.user, BINDINGS, "payments", namespace, spec={"clusterSet": "payments"})
    why = (
        f"user {USER} may not bind the cluster set payments: that needs the verb create on "
        f"managedclustersets/bind.{GROUP} named payments"
    )
    message = _denied("echelon-bind-cluster-set", why)
    assert refused.value.message == f'managedclustersetbindings.{GROUP} "payments" is forbidden: {message}'
    status = refused.value.status()
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    assert status["details"]["causes"] == [{"message": message}]
    bind = _rule(GROUP, "managedclustersets/bind", "create", "payments")
    async with _rights(guarded, *ORDINARY, bind):
        await _create(guarded.user, BINDINGS, "payments", namespace, spec={"clusterSet": "payments"})
        with pytest.raises(Forbidden, match="may not bind the cluster set other"):
            await _create(guarded.user, BINDINGS, "other", namespace, spec={"clusterSet": "other"})


async def test_who_may_not_bind_may_still_change_the_rest_of_a_binding(guarded: Guarded, namespace: str) -> None:
    await _create(guarded.admin, BINDINGS, "payments", namespace, spec={"clusterSet": "payments"})
    async with _rights(guarded, *ORDINARY):
        await guarded.user.patch(
            BINDINGS, "payments", MergePatch({"metadata": {"labels": {"team": "blue"}}}), namespace
        )
        with pytest.raises(ApiError, match=r"clusterSet|may not bind the cluster set other"):
            await guarded.user.patch(BINDINGS, "payments", MergePatch({"spec": {"clusterSet": "other"}}), namespace)


async def test_a_binding_that_is_applied_is_checked_too(guarded: Guarded, namespace: str) -> None:
    body = {
        "apiVersion": BINDINGS.api_version,
        "kind": BINDINGS.kind,
        "metadata": {"name": "payments", "namespace": namespace},
        "spec": {"clusterSet": "payments"},
    }
    async with _rights(guarded, *ORDINARY):
        with pytest.raises(Forbidden, match="may not bind the cluster set payments"):
            await guarded.user.patch(BINDINGS, "payments", ApplyPatch(body, "somebody"), namespace)


async def test_a_cluster_joins_and_leaves_only_sets_that_the_one_who_moves_it_may_join(guarded: Guarded) -> None:
    red, blue = (_rule(GROUP, "managedclustersets/join", "create", name) for name in ("red", "blue"))
    to_blue = MergePatch({"metadata": {"labels": {SET_LABEL: "blue"}}})
    async with _cluster(guarded, set_="red") as name:
        async with _rights(guarded, *ORDINARY, blue):
            with pytest.raises(Forbidden) as refused:
                await guarded.user.patch(CLUSTERS, name, to_blue)
            with pytest.raises(Forbidden, match="take a cluster out of the cluster set red"):
                await guarded.user.patch(CLUSTERS, name, MergePatch({"metadata": {"labels": {SET_LABEL: None}}}))
        why = (
            f"user {USER} may not take a cluster out of the cluster set red: that needs the verb create on "
            f"managedclustersets/join.{GROUP} named red"
        )
        message = _denied("echelon-join-cluster-set", why)
        assert refused.value.message == f'managedclusters.{GROUP} "{name}" is forbidden: {message}'
        async with _rights(guarded, *ORDINARY, red):
            with pytest.raises(Forbidden, match="put a cluster into the cluster set blue"):
                await guarded.user.patch(CLUSTERS, name, to_blue)
        async with _rights(guarded, *ORDINARY, red, blue):
            await guarded.user.patch(CLUSTERS, name, to_blue)


async def test_a_cluster_that_is_made_in_a_set_needs_the_right_to_join_it(guarded: Guarded) -> None:
    labelled: JSONObject = {"metadata": {"labels": {SET_LABEL: "red"}}, "spec": {"hubAcceptsClient": False}}
    async with _rights(guarded, *ORDINARY):
        assert "may not put a cluster into the cluster set red" in await _dry(
            guarded.user, kind=MANAGED_CLUSTER, **labelled
        )
        assert await _dry(guarded.user, kind=MANAGED_CLUSTER, spec={"hubAcceptsClient": False}) == ""


async def test_a_cluster_is_accepted_only_by_those_who_may_accept_it(guarded: Guarded) -> None:
    accept = MergePatch({"spec": {"hubAcceptsClient": True}})
    async with _cluster(guarded) as name:
        async with _rights(guarded, *ORDINARY):
            with pytest.raises(Forbidden) as refused:
                await guarded.user.patch(CLUSTERS, name, accept)
        why = (
            f"user {USER} may not accept the cluster {name}: that needs the verb update on "
            f"managedclusters/accept.{REGISTER_GROUP} named {name}"
        )
        message = _denied("echelon-accept-cluster", why)
        assert refused.value.message == f'managedclusters.{GROUP} "{name}" is forbidden: {message}'
        async with _rights(guarded, *ORDINARY, _rule(REGISTER_GROUP, "managedclusters/accept", "update", name)):
            await guarded.user.patch(CLUSTERS, name, accept)


async def test_other_changes_of_a_cluster_and_its_status_need_no_further_right(guarded: Guarded) -> None:
    async with _cluster(guarded, set_="red", accepted=True) as name, _rights(guarded, *ORDINARY):
        await guarded.user.patch(CLUSTERS, name, MergePatch({"metadata": {"labels": {"region": "eu"}}}))
        await guarded.user.patch(CLUSTERS, name, MergePatch({"spec": {"leaseDurationSeconds": 30}}))
        await guarded.user.patch(
            CLUSTERS, name, MergePatch({"status": {"version": {"kubernetes": "v1"}}}), subresource="status"
        )
        await guarded.user.patch(CLUSTERS, name, MergePatch({"spec": {"hubAcceptsClient": False}}))
        with pytest.raises(Forbidden, match="may not accept the cluster"):
            await guarded.user.patch(CLUSTERS, name, MergePatch({"spec": {"hubAcceptsClient": True}}))
        await guarded.user.delete(CLUSTERS, name)


async def test_namespace_and_name_of_a_policy_must_fit_into_a_label_together(guarded: Guarded, namespace: str) -> None:
    longest = "p" * (62 - len(namespace))
    await _create(guarded.admin, POLICY, longest, namespace, spec=NO_TEMPLATES)
    with pytest.raises(Invalid) as refused:
        await _create(guarded.admin, POLICY, f"{longest}p", namespace, spec=NO_TEMPLATES)
    why = (
        "namespace and name of a policy must be no more than 62 characters together, and have 63: "
        f"{namespace} and {longest}p"
    )
    message = _denied("echelon-policy-name", why)
    assert refused.value.message == f'policies.{POLICY_GROUP} "{longest}p" is forbidden: {message}'


async def test_a_generated_name_of_a_policy_is_measured_as_it_comes_out(guarded: Guarded, namespace: str) -> None:
    asked = "p" * (62 - len(namespace))  # and some more letters come behind it
    body = {**POLICY.type_meta, "metadata": {"generateName": asked}, "spec": NO_TEMPLATES}
    with pytest.raises(Invalid, match="must be no more than 62 characters together, and have 6"):
        await guarded.admin.create(POLICY.untyped(), body, namespace)


async def test_a_replica_may_be_named_after_the_longest_policy(guarded: Guarded, namespace: str) -> None:
    name = f"{namespace}.{'p' * (62 - len(namespace))}"
    with pytest.raises(Invalid, match="must be no more than 62 characters together"):
        await _create(guarded.admin, POLICY, name, namespace, spec=NO_TEMPLATES)
    labelled = {"labels": {ROOT_LABEL: name}}
    await _create(guarded.admin, POLICY, name, namespace, metadata=labelled, spec=NO_TEMPLATES)


async def test_a_policy_from_before_its_name_was_measured_stays_changeable(guarded: Guarded, namespace: str) -> None:
    name = "p" * 63
    labelled = {"labels": {ROOT_LABEL: "was.a-replica"}}
    await _create(guarded.admin, POLICY, name, namespace, metadata=labelled, spec=NO_TEMPLATES)
    without = MergePatch({"metadata": {"labels": {ROOT_LABEL: None}}, "spec": {"disabled": True}})
    await guarded.admin.patch(POLICY.untyped(), name, without, namespace)
