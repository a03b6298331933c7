"""What shells and kubectl are offered when somebody presses Tab."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.shell_completion import ShellComplete
from click.testing import CliRunner
from tests.hub.conftest import HubProcess

from echelon.api import registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.placement import PLACEMENT
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.cli import completing, main
from echelon.kube.config import load
from echelon.kube.http import HttpClient

_KINDS = ("ManagedCluster", "Placement", "ManifestWorkReplicaSet")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    hub = HubProcess(tmp_path_factory.mktemp("hub"), ["--memory"])
    hub.start()
    asyncio.run(_furnish(hub))
    yield hub
    assert hub.stop() == 0


async def _furnish(hub: HubProcess) -> None:
    async with HttpClient(load(hub.kubeconfig)) as client:
        for definition in registry.crds():
            if definition["spec"]["names"]["kind"] in _KINDS:
                await client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)

        async def create(kind: Kind[JSONObject], name: str, namespace: str = "", **body: object) -> None:
            await client.create(kind, {**kind.type_meta, "metadata": {"name": name}, **body}, namespace)

        await create(NAMESPACE.untyped(), "shop")
        await create(PLACEMENT.untyped(), "everywhere", "shop", spec={})
        for name in ("eu-1", "eu-2", "us-1"):
            await create(MANAGED_CLUSTER.untyped(), name, spec={})
        settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
        workload = {"workload": {"manifests": [settings]}}
        spec = {"manifestWorkTemplate": workload, "placementRefs": [{"name": "everywhere"}]}
        for name in ("storefront", "search"):
            await create(MANIFEST_WORK_REPLICA_SET.untyped(), name, "shop", spec=spec)


def offered(*typed: str, hub: HubProcess | None = None) -> list[str]:
    *before, incomplete = typed
    where = ["--kubeconfig", str(hub.kubeconfig)] if hub else []
    shell = ShellComplete(main, {}, "echelon", "")
    return [each.value for each in shell.get_completions([*before[:2], *where, *before[2:]], incomplete)]


def test_verbs_are_offered_everywhere() -> None:
    assert offered("ro") == ["rollout"]
    assert {"list", "status", "watch", "history", "diff", "approve", "undo", "abort"} <= {*offered("rollout", "")}
    assert offered("rollout", "pro") == ["promote"]
    assert "--all-namespaces" in offered("rollout", "list", "--al")


def test_names_are_offered_as_the_hub_has_them(hub: HubProcess) -> None:
    there = ("-n", "shop")
    assert offered("rollout", "status", *there, "", hub=hub) == ["search", "storefront"]
    assert offered("rollout", "undo", *there, "st", hub=hub) == ["storefront"]
    kind = "manifestworkreplicaset"
    assert offered("rollout", "watch", *there, f"{kind}/se", hub=hub) == [f"{kind}/search"]
    assert offered("rollout", "status", "-n", "empty", "", hub=hub) == []
    assert offered("cluster", "show", "eu", hub=hub) == ["eu-1", "eu-2"]
    assert offered("placement", "show", *there, "", hub=hub) == ["everywhere"]
    assert offered("rollout", "list", "-n", "sho", hub=hub) == ["shop"]
    assert offered("rollout", "list", "--context", "", hub=hub) == sorted(
        each["name"] for each in yaml.safe_load(hub.kubeconfig.read_text())["contexts"]
    )


def test_a_name_that_nobody_has_is_followed_by_those_that_may_be_meant(hub: HubProcess) -> None:
    def typed(*arguments: str) -> str:
        done = CliRunner().invoke(main, ["rollout", "status", *arguments, "--kubeconfig", str(hub.kubeconfig)])
        assert done.exit_code == 5, done.output
        return done.output

    assert "; did you mean storefront?" in typed("storefornt", "-n", "shop")
    assert "; did you mean storefront?" in typed("mwrs/storefornt", "-n", "shop")
    assert "there is no namespace shpo; did you mean shop?" in typed("storefront", "-n", "shpo")
    assert "did you mean manifestworkreplicaset?" in typed("manifestworkreplicset/storefront", "-n", "shop")
    assert "did you mean" not in typed("zzz", "-n", "shop")


def test_who_presses_tab_gets_nothing_rather_than_an_error(tmp_path: Path) -> None:
    nowhere = ("--kubeconfig", str(tmp_path / "none"))
    for typed in (("status", ""), ("list", "-n", ""), ("list", "--context", "")):
        assert offered("rollout", typed[0], *nowhere, *typed[1:]) == []


def test_what_a_shell_would_expand_is_not_offered() -> None:
    hostile = ["a b", "$(reboot)", "x;y", "*", "-rf", "..\x1b[2J", "fine", "kind/fine", "me@hub"]
    assert completing._beginning("", hostile) == ["fine", "kind/fine", "me@hub"]


def test_bash_completes_with_what_is_printed_for_it(hub: HubProcess, tmp_path: Path) -> None:
    program = tmp_path / "echelon"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m echelon "$@"\n')
    program.chmod(0o755)
    script = """
    source <(echelon completion bash)
    COMP_WORDS=(echelon rollout undo -n shop st); COMP_CWORD=5
    _echelon_completion echelon
    echo "${COMPREPLY[@]}"
    """
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "KUBECONFIG": str(hub.kubeconfig)}
    done = subprocess.run(
        ["bash", "-c", script], check=True, capture_output=True, text=True, env={**os.environ, **path}
    )
    assert (done.stdout.split(), done.stderr) == (["storefront"], "")


@pytest.mark.parametrize(
    ("shell", "has"), [("zsh", "#compdef echelon"), ("fish", "complete --no-files --command echelon")]
)
def test_zsh_and_fish_get_theirs(shell: str, has: str) -> None:
    done = CliRunner().invoke(main, ["completion", shell])
    assert has in done.output
    assert f"_ECHELON_COMPLETE={shell}_complete" in done.output


def test_kubectl_asks_the_same_for_its_plugin(hub: HubProcess) -> None:
    code = "from echelon.cli.completion import for_kubectl; for_kubectl()"
    command = [sys.executable, "-c", code, "rollout", "status", "-n", "shop", "se"]
    environment = {**os.environ, "KUBECONFIG": str(hub.kubeconfig)}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    assert done.stdout.split() == ["search", ":4"]
