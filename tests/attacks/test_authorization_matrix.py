"""Every verb on every kind and subresource that Echelon gives rights on, in every place, for everybody who might try.

What is asked about comes from the rules themselves, so that nothing is left out, and from a list of what must never be
given. What is expected comes from a table that was written by hand, and the same table holds for a real kube-apiserver.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from echelon.api.authorization import SUBJECT_ACCESS_REVIEW
from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING
from echelon.api.service_accounts import SERVICE_ACCOUNT
from echelon.controllers.cluster.belongings import desired_for_workloads, desired_objects, fixed_roles
from echelon.controllers.running import Controllers
from echelon.install.hub import HUB as INSTALLED
from echelon.kube.client import Client, MergePatch
from echelon.kube.clock import SystemClock
from echelon.kube.errors import AlreadyExists, NotFound
from echelon.kube.metrics import Metrics
from tests.conformance import targets
from tests.conformance.targets import Target
from tests.controllers.strict import STRICT

DOCS = Path(__file__).parents[2] / "docs"
TABLE = Path(__file__).parent / "authorization.tsv"
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "main")
PATIENCE = 120.0
RBAC = "rbac.authorization.k8s.io"
VERBS = {
    "g": "get",
    "l": "list",
    "w": "watch",
    "c": "create",
    "u": "update",
    "p": "patch",
    "d": "delete",
    "D": "deletecollection",
    "b": "bind",
    "e": "escalate",
    "i": "impersonate",
    "a": "approve",
}
# Nobody gets these through Echelon on a hub, so no rule has them.
NEVER = [
    ("", "secrets"),
    ("", "configmaps"),
    ("", "pods/exec"),
    ("", "serviceaccounts/token"),
    ("", "users"),
    ("", "groups"),
    (RBAC, "roles"),
    ("certificates.k8s.io", "certificatesigningrequests/approval"),
    ("cluster.open-cluster-management.io", "managedclustersets/bind"),
    ("register.open-cluster-management.io", "managedclusters/accept"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
]
EVERY_VERB = {*NEVER, ("", "serviceaccounts")}
_APPLIED: tuple[Kind[Any], ...] = (NAMESPACE, SERVICE_ACCOUNT, CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING)
KINDS = {each.kind: each for each in _APPLIED}
A, B, T = (f"matrix-{each}-{WORKER}" for each in ("a", "b", "tenant"))
PLACES = {"-": "", "A": A, "B": B, "T": T, "karmada-es-A": f"karmada-es-{A}", "karmada-es-B": f"karmada-es-{B}"}
PLACES |= {each: each for each in ("kube-system", "echelon-system")}
MEMBER_PLACES = {"-": "", "T": T, **{each: each for each in ("kube-system", "echelon-agent")}}
EVERYBODY = ["system:authenticated"]
HUB, MEMBER = "rights.yaml", "member-rights.yaml"
PAGES = {HUB: PLACES, MEMBER: MEMBER_PLACES}
CAPABILITIES = {"policies": True, "workloads": True}


def account(namespace: str, name: str) -> tuple[str, list[str]]:
    """Return the user that a service account is, and its groups."""
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", *EVERYBODY]
    return f"system:serviceaccount:{namespace}:{name}", groups


# By the name that the table has for them; an agent comes with a certificate or with an account.
SUBJECTS: list[tuple[str, str, list[str]]] = [
    ("stranger", "stranger", EVERYBODY),
    ("anonymous", "system:anonymous", ["system:unauthenticated"]),
    ("tenant", f"tenant-{WORKER}", EVERYBODY),
    ("agent A", "whoever", [f"system:open-cluster-management:{A}", *EVERYBODY]),
    ("agent A", *account(A, "echelon-agent")),
    ("agent B", "whoever", [f"system:open-cluster-management:{B}", *EVERYBODY]),
    ("agent B", *account(B, "echelon-agent")),
    ("nobody", *account(T, "echelon-agent")),  # the agent's name in a namespace of somebody else
    ("nobody", *account(A, "default")),
    ("executor", *account(T, "runner")),
    ("viewer", f"viewer-{WORKER}", EVERYBODY),
    ("editor", f"editor-{WORKER}", EVERYBODY),
    ("owner", f"owner-{WORKER}", EVERYBODY),
    ("fleet admin", f"fleet-admin-{WORKER}", EVERYBODY),
    ("controllers", *account("echelon-system", "echelon-controllers")),
]
# On a member; an agent from whom the role "admin" was taken has what it needs for itself, and nothing for works.
MEMBER_SUBJECTS: list[tuple[str, str, list[str]]] = [
    ("stranger", "stranger", EVERYBODY),
    ("nobody", *account("echelon-agent", "default")),
    ("member agent", *account("echelon-agent", "echelon-agent")),
    ("lean agent", "lean-agent", EVERYBODY),
    ("pod cliques", *account("echelon-system", "echelon-pod-cliques")),
]


@dataclass(frozen=True)
class Question:
    """A request that is never made."""

    where: str
    group: str
    resource: str
    name: str
    verb: str


@cache
def documented(page: str) -> list[JSONObject]:
    """Return the objects of a page that people apply."""
    return list(yaml.safe_load_all((DOCS / page).read_text()))


@cache
def given(page: str) -> list[JSONObject]:
    """Return all rules that Echelon has for anybody on a hub, or on a member."""
    rules = [rule for each in documented(page) for rule in each.get("rules", [])]
    if page == MEMBER:
        return rules
    made = [*fixed_roles(), *desired_objects("A"), *desired_for_workloads("A")]
    bodies = [*(each.body for each in made), *people()]
    return [*rules, *(rule for each in bodies for rule in each.get("rules", []))]


@cache
def people() -> list[JSONObject]:
    """Return the roles for people, as they are installed."""
    installed = INSTALLED.manifests({"image": {"repository": "registry.example/echelon"}, "capabilities": CAPABILITIES})
    named = ("echelon-view", "echelon-rollout-view", "echelon-edit", "echelon-admin", "echelon-fleet-admin")
    found = [each for each in installed if each["kind"] == "ClusterRole" and each["metadata"]["name"] in named]
    assert len(found) == len(named)
    return found


def gathered(role: JSONObject) -> list[str]:
    """Return who has a role for people, by the names of the table: as Kubernetes' own roles gather it."""
    labels = role["metadata"]["labels"]
    words = {"view": "viewer", "edit": "editor", "admin": "owner"}
    return [who for name, who in words.items() if f"{RBAC}/aggregate-to-{name}" in labels]


@cache
def asked(page: str) -> dict[tuple[str, str], set[str]]:
    """Return every kind and subresource that is asked about, with the names that matter there."""
    found: dict[tuple[str, str], set[str]] = {each: {"", "other"} for each in NEVER}
    for rule in given(page):
        for group, resource in product(rule["apiGroups"], rule["resources"]):
            names = found.setdefault((group, resource), {"", "other"})
            names |= {A if each == "A" else each for each in rule.get("resourceNames", [])}
    for group, resource in list(found):
        plain = (group, resource.partition("/")[0])
        found.setdefault(plain, {"", "other"})
        if plain[1] == "managedclusters":
            found[group, resource] |= {A, B}
    return found


@cache
def table(page: str, who: str) -> frozenset[Question]:
    """Return what somebody may, as the table says; a question about any name where it has no name."""
    allowed: set[Question] = set()
    for line in TABLE.read_text().splitlines():
        if line.startswith("#") or not line:
            continue
        subject, where, what, verbs = line.split("\t")
        if subject != who:
            continue
        what, _, only = what.rstrip("]").partition("[")
        resource, _, group = what.partition(".")
        known = PAGES[page]
        places = list(known) if where == "*" else [where]
        names = {{"A": A, "B": B}.get(only, only)} if only else asked(page).get((group, resource), {"", "other"})
        allowed |= {
            Question(known[place], group, resource, name, VERBS[verb])
            for place, name, verb in product(places, names, verbs)
        }
    return frozenset(allowed)


def questions(page: str, *, thin: bool) -> Iterator[Question]:
    """Yield what is asked of everybody; a real server, which takes its time, is asked once where places are alike."""
    known = PAGES[page]
    for (group, resource), names in asked(page).items():
        alike = ("A", "karmada-es-A") if group == "work.karmada.io" else ("A", "T")
        places = [known[each] for each in alike if each in known] if thin else known.values()
        chosen = names - {"other"} if thin and len(names) == 2 else names
        verbs = (
            VERBS.values() if not thin or group == RBAC or (group, resource) in EVERY_VERB else list(VERBS.values())[:8]
        )
        for where, name, verb in product(places, sorted(chosen), verbs):
            yield Question(where, group, resource, name, verb)


async def answer(client: Client, user: str, groups: list[str], question: Question) -> bool:
    resource, _, subresource = question.resource.partition("/")
    attributes = {
        "namespace": question.where,
        "verb": question.verb,
        "group": question.group,
        "resource": resource,
        "subresource": subresource,
        "name": question.name,
    }
    spec = {"user": user, "groups": groups, "resourceAttributes": attributes}
    found = await client.create(SUBJECT_ACCESS_REVIEW, {**SUBJECT_ACCESS_REVIEW.type_meta, "spec": spec})
    return found.status.allowed


async def differences(client: Client, page: str, who: str, user: str, groups: list[str], *, thin: bool) -> list[str]:
    """Return where the server says something else than the table."""
    expected, found = table(page, who), list[str]()
    todo = iter(list(questions(page, thin=thin)))

    async def ask() -> None:
        for question in todo:
            if await answer(client, user, groups, question) != (question in expected):
                found.append(f"{user}: {question}, expected {question in expected}")

    await asyncio.gather(*(ask() for _ in range(16)))
    return found


async def make(client: Client, kind: Any, body: JSONObject, namespace: str = "") -> None:
    with suppress(AlreadyExists):
        await client.create(kind.untyped(), {**kind.type_meta, **body}, namespace)


@asynccontextmanager
async def furnished(target: Target) -> AsyncIterator[Client]:
    """A hub with the rights of the documentation, two accepted clusters, a tenant and an executor."""
    client = target.client
    for document in documented(HUB):
        await make(client, KINDS[document["kind"]], document, document["metadata"].get("namespace", ""))
    await make(client, NAMESPACE, {"metadata": {"name": T}})
    user = {"kind": "User", "apiGroup": RBAC, "name": f"tenant-{WORKER}"}
    for part in ("view", "edit"):  # of which the role "edit" is made up, where a controller does so
        role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": f"system:aggregate-to-{part}"}
        await make(client, ROLE_BINDING, {"metadata": {"name": part}, "subjects": [user], "roleRef": role}, T)
    verbs = ["get", "create", "update", "patch", "delete"]
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]
    await make(client, ROLE, {"metadata": {"name": "runner"}, "rules": rules}, T)
    runner = {"kind": "ServiceAccount", "name": "runner", "namespace": T}
    own = {"apiGroup": RBAC, "kind": "Role", "name": "runner"}
    await make(client, ROLE_BINDING, {"metadata": {"name": "runner"}, "subjects": [runner], "roleRef": own}, T)
    for each in people():
        name = each["metadata"]["name"]
        # Without the labels by which a server would gather them into the roles of others here.
        await make(client, CLUSTER_ROLE, {**each, "metadata": {"name": f"matrix:{name}"}})
        ref = {"apiGroup": RBAC, "kind": "ClusterRole", "name": f"matrix:{name}"}
        for who in gathered(each):
            user = {"kind": "User", "apiGroup": RBAC, "name": f"{who}-{WORKER}"}
            await make(
                client, ROLE_BINDING, {"metadata": {"name": f"{who}-{name}"}, "subjects": [user], "roleRef": ref}, T
            )
        if not gathered(each):
            user = {"kind": "User", "apiGroup": RBAC, "name": f"fleet-admin-{WORKER}"}
            body = {"metadata": {"name": f"matrix:{name}:{WORKER}"}, "subjects": [user], "roleRef": ref}
            await make(client, CLUSTER_ROLE_BINDING, body)
    for name in (A, B):
        await make(client, MANAGED_CLUSTER, {"metadata": {"name": name}, "spec": {"hubAcceptsClient": True}})
    chance = Random(1)  # noqa: S311 - jitter is no secret
    controllers = Controllers(
        client,
        SystemClock(),
        ["cluster-registration"],
        random=chance,
        metrics=Metrics(),
        instance="matrix",
        settings=STRICT,
    )
    serving = asyncio.create_task(controllers.run())
    try:
        await accepted(client)
        yield client
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await leave(client)


async def accepted(client: Client) -> None:
    async with asyncio.timeout(PATIENCE):
        for name, space in product((A, B), ("{}", "karmada-es-{}")):
            while True:
                try:
                    await client.get(ROLE_BINDING, f"open-cluster-management:{name}:agent", space.format(name))
                    await client.get(CLUSTER_ROLE_BINDING, f"open-cluster-management:managedcluster:{name}")
                    break
                except NotFound:
                    await asyncio.sleep(0.05)
        # A server hears of new rights a moment after they were made.
        asked_last = Question(f"karmada-es-{B}", "work.karmada.io", "works/status", "", "get")
        while True:
            if await answer(client, "w", [f"system:open-cluster-management:{B}"], asked_last):
                return
            await asyncio.sleep(0.05)


async def leave(client: Client) -> None:
    """Take the clusters away; nobody ends their namespaces on a server that has no controllers."""
    for name in (A, B):
        await client.patch(MANAGED_CLUSTER, name, MergePatch({"metadata": {"finalizers": None}}))
        await client.delete(MANAGED_CLUSTER, name)
        for binding in (f"open-cluster-management:managedcluster:{name}",):
            await client.delete(CLUSTER_ROLE_BINDING, binding)
            await client.delete(CLUSTER_ROLE, binding)


@pytest.mark.parametrize("server", ["in-process", pytest.param("kubernetes", marks=pytest.mark.full)])
def test_everybody_may_what_the_table_says_and_nothing_else(server: str, request: pytest.FixtureRequest) -> None:
    opening: AbstractAsyncContextManager[Target] = (
        targets.kubernetes(request.getfixturevalue("control_plane")) if server == "kubernetes" else targets.in_process()
    )

    async def main() -> list[str]:
        async with opening as target:
            await targets.serve_crds(target.client)
            async with furnished(target) as client:
                thin = server == "kubernetes"
                subjects = {each[0]: each for each in SUBJECTS}.values() if thin else SUBJECTS
                return [line for subject in subjects for line in await differences(client, HUB, *subject, thin=thin)]

    wrong = asyncio.run(main())
    assert wrong == [], f"{len(wrong)} differ"


async def furnish_member(client: Client) -> None:
    """Give the rights of the documentation on a member, and to somebody only those that no work needs."""
    for document in documented(MEMBER):
        await make(client, KINDS[document["kind"]], document, document["metadata"].get("namespace", ""))
    agent = {"kind": "ServiceAccount", "name": "echelon-agent", "namespace": "echelon-agent"}
    lean = {"kind": "User", "apiGroup": RBAC, "name": "lean-agent"}
    # The role "admin" is made up of these, where a controller does so.
    parts = [(agent, f"system:aggregate-to-{each}") for each in ("view", "edit", "admin")]
    for subject, role in (*parts, (lean, "echelon-agent")):
        ref = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
        body = {"metadata": {"name": f"matrix:{subject['name']}:{role}"}, "subjects": [subject], "roleRef": ref}
        await make(client, CLUSTER_ROLE_BINDING, body)
    async with asyncio.timeout(PATIENCE):  # a server hears of new rights a moment after they were made
        while True:
            if await answer(client, "lean-agent", EVERYBODY, Question("", "", "nodes", "", "list")):
                return
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("server", ["in-process", pytest.param("kubernetes", marks=pytest.mark.full)])
def test_accounts_of_members_may_what_the_table_says_and_nothing_else(
    server: str, request: pytest.FixtureRequest
) -> None:
    opening: AbstractAsyncContextManager[Target] = (
        targets.kubernetes(request.getfixturevalue("control_plane")) if server == "kubernetes" else targets.in_process()
    )

    async def main() -> list[str]:
        async with opening as target:
            await furnish_member(target.client)
            thin = server == "kubernetes"
            return [
                line
                for subject in MEMBER_SUBJECTS
                for line in await differences(target.client, MEMBER, *subject, thin=thin)
            ]

    wrong = asyncio.run(main())
    assert wrong == [], f"{len(wrong)} differ, beginning with {wrong[:20]}"


def test_the_table_is_about_what_is_asked() -> None:
    lines = [line.split("\t") for line in TABLE.read_text().splitlines() if line and not line.startswith("#")]
    of_member = {who for who, *_ in MEMBER_SUBJECTS}
    for page, subjects in ((HUB, {who for who, *_ in SUBJECTS}), (MEMBER, of_member)):
        known = {f"{resource}.{group}".rstrip(".") for group, resource in asked(page)}
        assert {what.partition("[")[0] for who, _, what, _ in lines if who in subjects} <= known
        assert subjects & {who for who, *_ in lines}
    assert {who for who, *_ in lines} <= {who for who, *_ in SUBJECTS} | of_member
    assert len(asked(HUB)) * len(SUBJECTS) * len(VERBS) * len(PLACES) > 50_000
