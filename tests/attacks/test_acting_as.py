"""What an agent with the rights of `member-rights.yaml` finds out by acting as an executor, on both servers."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from echelon.agent.executor import ExecutorCheck, NotAllowed
from echelon.api.base import JSONObject
from echelon.api.manifest_config import ServiceAccountSubject
from echelon.api.namespaces import NAMESPACE
from echelon.api.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING
from echelon.cli.agent_process import Impersonating
from echelon.engine.work.updating import DesiredObject
from echelon.hub.access.kubeconfig import ClusterEntry, ContextEntry, UserEntry, merge_kubeconfig
from echelon.kube.client import Client
from echelon.kube.config import load
from echelon.kube.http import HttpClient
from tests.attacks.hub import AttackedHub, attacked_hub
from tests.attacks.test_authorization_matrix import RBAC, documented, make

UNIQUE = f"{os.environ.get('PYTEST_XDIST_WORKER', 'main')}-{os.getpid()}"
APPS = f"acting-{UNIQUE}"
RUNNER = ServiceAccountSubject(namespace=APPS, name="runner")
ALL = ["create", "update", "patch", "get", "delete"]
PATIENCE = 60.0

# Writes a kubeconfig for a user in some groups.
Kubeconfig = Callable[[str, list[str]], Path]


def of_hub(running: AttackedHub, directory: Path) -> Kubeconfig:
    def write(user: str, groups: list[str]) -> Path:
        keys, path = running.hub.keys, directory / f"{user}.yaml"
        issued = keys.client_certificate(user, groups, datetime.now(UTC))
        cluster = ClusterEntry("hub", f"https://127.0.0.1:{running.hub.port}", keys.authority.certificate_pem)
        known = UserEntry(user, certificate_pem=issued.certificate_pem, key_pem=issued.key_pem)
        merge_kubeconfig(path, [cluster], [known], [ContextEntry("hub", "hub", user)], "hub")
        return path

    return write


@pytest.fixture(scope="module", params=["hub", "kubernetes"])
def kubeconfig(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubeconfig]:
    directory = tmp_path_factory.mktemp("acting")
    if request.param == "hub":
        with attacked_hub(directory) as running:
            yield of_hub(running, directory)
    else:
        yield request.getfixturevalue("control_plane").kubeconfig_for


def rule(resource: str, verbs: list[str], group: str = "") -> JSONObject:
    return {"apiGroups": [group], "resources": [resource], "verbs": verbs}


def role(*rules: JSONObject) -> DesiredObject:
    """A role that a work brings."""
    metadata = {"name": "granted", "namespace": APPS}
    manifest = {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": metadata, "rules": list(rules)}
    return DesiredObject(ROLE, manifest, APPS, {}, owned_by_work=True)


@dataclass(frozen=True)
class Member:
    """A cluster, and an agent there that may what it is given."""

    admin: Client
    check: ExecutorCheck


@asynccontextmanager
async def member(kubeconfig: Kubeconfig, agent: str, roles: list[str]) -> AsyncIterator[Member]:
    async with AsyncExitStack() as stack:
        admin = await stack.enter_async_context(HttpClient(load(kubeconfig("root", ["system:masters"]))))
        await make(admin, NAMESPACE, {"metadata": {"name": APPS}})
        rules = [rule("roles", ALL, RBAC), rule("configmaps", ["get"])]
        await make(admin, ROLE, {"metadata": {"name": "runner"}, "rules": rules}, APPS)
        runner = {"kind": "ServiceAccount", "name": "runner", "namespace": APPS}
        own = {"apiGroup": RBAC, "kind": "Role", "name": "runner"}
        await make(admin, ROLE_BINDING, {"metadata": {"name": "runner"}, "subjects": [runner], "roleRef": own}, APPS)
        for document in documented("member-rights.yaml"):
            if document["kind"] == "ClusterRole":
                await make(admin, CLUSTER_ROLE, document)
        for each in roles:
            body = {
                "metadata": {"name": f"{agent}:{each}"},
                "subjects": [{"kind": "User", "apiGroup": RBAC, "name": agent}],
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": each},
            }
            await make(admin, CLUSTER_ROLE_BINDING, body)
        config = load(kubeconfig(agent, []))
        way = await stack.enter_async_context(HttpClient(config))
        check = ExecutorCheck(way, Impersonating(config, stack).client)
        yield Member(admin, check)


async def refused(asked: Callable[[], Awaitable[None]], word: str) -> str:
    """Return why something is refused; a server hears of new rights a moment after they were made."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await asked()
            except NotAllowed as error:
                if word in str(error):
                    return str(error)
            await asyncio.sleep(0.05)


# What the role "admin" is made up of; nobody does so on a server without controllers.
ADMIN = [f"system:aggregate-to-{each}" for each in ("view", "edit", "admin")]


def test_the_documented_rights_tell_what_an_account_grants(kubeconfig: Kubeconfig) -> None:
    async def main() -> None:
        async with member(kubeconfig, f"documented-{UNIQUE}", ["echelon-agent", *ADMIN]) as here:
            more = role(rule("secrets", ["get"]))
            said = await refused(lambda: here.check.check(more, RUNNER), "escalation")
            assert "attempting to grant RBAC permissions not currently held" in said
            await here.check.check(role(rule("configmaps", ["get"])), RUNNER)
            await here.admin.create(ROLE.untyped(), more.manifest, APPS)  # somebody's, and then it is a change
            try:
                await here.check.check(role(rule("configmaps", ["get"])), RUNNER)
                await refused(lambda: here.check.check(role(rule("secrets", ["list"])), RUNNER), "escalation")
            finally:
                await here.admin.delete(ROLE, "granted", APPS)

    asyncio.run(main())


def test_an_agent_that_may_not_act_as_accounts_says_what_it_lacks(kubeconfig: Kubeconfig) -> None:
    async def main() -> None:
        async with member(kubeconfig, f"lacking-{UNIQUE}", ["echelon-agent"]) as here:
            fine = role(rule("configmaps", ["get"]))
            said = await refused(lambda: here.check.check(fine, RUNNER), "impersonate")
            assert 'only by an agent that may "impersonate" serviceaccounts' in said
            assert f'User "lacking-{UNIQUE}" cannot impersonate' in said
            assert "escalation" not in said

    asyncio.run(main())
