"""A team that has `edit` in one namespace sees and steers its rollouts there, and nothing elsewhere.

Its rights are those of the installed roles for people, and of what Kubernetes' own role `edit` has beside them.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from echelon.api.base import JSONObject
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.cli import main
from echelon.cli.demo import apply
from echelon.cli.rollout import rollout
from echelon.fleet.local import Local, Settings
from echelon.hub.access.kubeconfig import ClusterEntry, ContextEntry, UserEntry, merge_kubeconfig
from echelon.install.hub import HUB
from echelon.kube.client import MergePatch
from echelon.rollouts.steering import VERBS

EXAMPLES = Path(__file__).parents[2] / "examples"
FLEET = "4 clusters; regions us; environments staging/production; image *:bad* fails on all"
OURS, THEIRS = "payments", "observability"
PATIENCE_SECONDS = 120.0
RBAC = "rbac.authorization.k8s.io"


def _role() -> list[JSONObject]:
    """Return what somebody who has `edit` in the namespace has of the installed roles, gathered as Kubernetes does."""
    installed = HUB.manifests({"image": {"repository": "registry.example/echelon"}})
    gathered = [each for each in installed if f"{RBAC}/aggregate-to-edit" in each["metadata"].get("labels", {})]
    built_in = [
        {"apiGroups": ["apps"], "resources": ["controllerrevisions"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["get", "list", "watch"]},
    ]
    meta = {"name": "dev", "namespace": OURS}
    rules = [rule for each in gathered for rule in each["rules"]] + built_in
    return [
        {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": meta, "rules": rules},
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "dev"},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "dev"}],
        },
    ]


class Team:
    """Types commands, as somebody."""

    def __init__(self, local: Local, directory: Path) -> None:
        self._keys = local.hub.keys
        self._url = local.hub.url()
        self._directory = directory

    def kubeconfig(self, user: str, *groups: str) -> Path:
        path, now = self._directory / user, datetime.now(UTC)
        if not path.exists():
            issued = self._keys.client_certificate(user, groups, now)
            merge_kubeconfig(
                path,
                [ClusterEntry("hub", self._url, self._keys.authority.certificate_pem)],
                [UserEntry(user, certificate_pem=issued.certificate_pem, key_pem=issued.key_pem)],
                [ContextEntry("hub", "hub", user)],
                "hub",
            )
        return path

    async def types(self, *arguments: str, namespace: str = OURS, user: str = "dev", groups: Any = ()) -> Result:
        way = ("--kubeconfig", str(self.kubeconfig(user, *groups)), "-n", namespace)
        return await asyncio.to_thread(CliRunner().invoke, main, ["rollout", *arguments, *way])

    async def done(self, *arguments: str) -> str:
        result = await self.types(*arguments)
        assert result.exit_code == 0, f"{arguments}: {result.output}"
        return result.output

    async def counts(self, user: str = "dev", groups: Any = ()) -> tuple[str, dict[str, int]]:
        """Return the state of the rollout and how many clusters stand where, as a user sees them."""
        result = await self.types("status", "payments", "-o", "json", user=user, groups=groups)
        told = json.loads(result.stdout)
        return told["state"], {name: number for name, number in told["counts"].items() if number}

    async def until(self, state: str, **counts: int) -> None:
        wanted = (state, {name.replace("_", " "): number for name, number in counts.items()})
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await self.counts() != wanted:  # noqa: ASYNC110 - objects have no event
                await asyncio.sleep(0.2)
        # Who sees everything sees the same.
        assert await self.counts("root", ["system:masters"]) == wanted


def _told(directory: Path, story: Callable[[Local, Team], Awaitable[None]]) -> None:
    async def run() -> None:
        local = await Local.start(Settings(FLEET))
        try:
            await local.wait_joined()
            client = local.hub.client(field_manager="kubectl")
            for name in ("with-approval", "everywhere"):
                await apply(client, yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text()))
            await apply(client, _role())
            await story(local, Team(local, directory))
        finally:
            await local.stop()

    asyncio.run(run())


@pytest.mark.long
def test_every_verb_works_in_the_namespace_and_none_elsewhere(tmp_path: Path) -> None:
    async def story(local: Local, team: Team) -> None:
        await team.until("awaiting approval", done=2, waiting=2)
        assert "may not be listed" in await team.done("status", "payments")
        await team.done("approve", "payments", "--group", "production")
        await team.until("complete", done=4)
        # A change that is stopped on the way, and taken back.
        change = {"manifests": [_pod("pods.example/web:bad")]}
        body = {"spec": {"manifestWorkTemplate": {"workload": change}}}
        await local.hub.client().patch(MANIFEST_WORK_REPLICA_SET, "payments", MergePatch(body), OURS)
        await team.done("pause", "payments")
        await team.done("resume", "payments")
        await team.done("retry", "payments")
        await team.done("promote", "payments")
        await team.done("abort", "payments")
        await team.done("undo", "payments")
        await team.until("complete", done=4)
        await team.done("watch", "payments")
        assert "+" in (await team.types("diff", "payments")).output
        told = json.loads(await team.done("history", "payments", "-o", "json"))
        actions = [action for revision in told for action in revision["actions"]]
        assert {"approve", "pause", "resume", "abort", "undo"} <= {each["verb"] for each in actions}
        assert {each["by"] for each in actions} == {"dev"}
        assert "payments" in await team.done("list")
        verbs = {"watch", "status", "history", "diff", *VERBS}
        assert verbs | {"list", "outdated"} == set(rollout.commands), "there are no others"
        for verb in sorted(verbs):
            refused = await team.types(verb, "node-agent", namespace=THEIRS)
            assert refused.exit_code == 6, f"{verb}: {refused.output}"
            assert "forbidden" in refused.output, f"{verb}: {refused.output}"
        assert (await team.types("list", namespace=THEIRS)).exit_code == 6
        assert (await team.types("list", "-A", namespace="")).exit_code == 6

    _told(tmp_path, story)


def _pod(image: str) -> JSONObject:
    labels = {"app": "limits"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "limits", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": image}]},
            },
        },
    }
