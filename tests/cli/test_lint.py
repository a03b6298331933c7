"""`echelon lint` as people use it."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.hub.conftest import HubProcess

from echelon.api import registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.cluster import GROUP, MANAGED_CLUSTER, MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.placement import PLACEMENT
from echelon.cli import main
from echelon.kube.client import MergePatch
from echelon.kube.config import load
from echelon.kube.http import HttpClient

EXAMPLES = Path(__file__).parents[2] / "examples"
OLD = """
apiVersion: work.open-cluster-management.io/v1alpha1
kind: ManifestWorkReplicaSet
metadata: {name: web, namespace: apps}
spec:
  placementRefs: [{name: p, rolloutStrategy: {rolloutType: All}}]
"""
ZERO = OLD.replace("{rolloutType: All}", "{type: Progressive, progressive: {maxConcurrency: 0}}")


def lint(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(main, ["lint", *arguments], input=text)


def test_a_problem_is_one_line_and_the_exit_code_is_one() -> None:
    done = lint("-f", "-", text=OLD)
    assert done.exit_code == 1
    (line,) = done.output.splitlines()
    assert line.startswith("-: ManifestWorkReplicaSet/web: spec.placementRefs[0].rolloutStrategy.rolloutType: ")
    assert line.endswith("type now")


def test_a_warning_is_no_error() -> None:
    done = lint("-f", "-", text=ZERO)
    assert done.exit_code == 0
    assert "maxConcurrency: warning: zero" in done.output


def test_directories_are_looked_through_and_programs_get_json(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "old.yml").write_text(OLD)
    (tmp_path / "zero.yaml").write_text(ZERO)
    (tmp_path / "notes.txt").write_text("rolloutType: [")
    done = lint("-f", str(tmp_path), "-o", "json")
    assert done.exit_code == 1
    assert [(Path(each["file"]).name, each["severity"]) for each in json.loads(done.output)] == [
        ("old.yml", "error"),
        ("zero.yaml", "warning"),
    ]


@pytest.mark.parametrize(("arguments", "text"), [(["-f", "/nowhere.yaml"], None), (["-f", "-"], "a: [b")])
def test_what_cannot_be_read_is_named(arguments: list[str], text: str | None) -> None:
    done = lint(*arguments, text=text)
    assert done.exit_code in (1, 2)
    assert "nowhere" in done.output or "-: " in done.output


def test_the_examples_have_no_errors() -> None:
    assert lint("-f", str(EXAMPLES)).exit_code == 0


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
            if definition["spec"]["group"] == GROUP:
                await client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)

        async def create(kind: Kind[JSONObject], name: str, namespace: str = "", **body: object) -> None:
            await client.create(kind, {**kind.type_meta, "metadata": {"name": name}, **body}, namespace)

        for name in ("apps", "bare"):
            await create(NAMESPACE.untyped(), name)
        everyone = {"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {}}}
        await create(MANAGED_CLUSTER_SET.untyped(), "everyone", spec=everyone)
        await create(MANAGED_CLUSTER_SET_BINDING.untyped(), "everyone", "apps", spec={"clusterSet": "everyone"})
        await create(MANAGED_CLUSTER.untyped(), "eu-1", spec={})
        await client.patch(MANAGED_CLUSTER, "eu-1", MergePatch({"metadata": {"labels": {"region": "eu"}}}))
        await create(PLACEMENT.untyped(), "there", "apps", spec={})


def placement(name: str, spec: str, namespace: str = "apps") -> str:
    tolerant = f"{spec[:-1]}, tolerations: [{{operator: Exists}}]}}".replace("{, ", "{")
    meta = f"{{name: {name}, namespace: {namespace}}}"
    return f"---\napiVersion: {GROUP}/v1beta1\nkind: Placement\nmetadata: {meta}\nspec: {tolerant}\n"


def on_hub(hub: HubProcess, text: str, *arguments: str) -> list[str]:
    return lint("--hub", "--kubeconfig", str(hub.kubeconfig), "-f", "-", *arguments, text=text).output.splitlines()


def selecting(region: str) -> str:
    return f"{{predicates: [{{requiredClusterSelector: {{labelSelector: {{matchLabels: {{region: {region}}}}}}}}}]}}"


def test_a_selector_that_no_cluster_of_the_hub_matches_is_a_warning(hub: HubProcess) -> None:
    assert on_hub(hub, placement("p", selecting("eu"))) == []
    (line,) = on_hub(hub, placement("p", selecting("ue")))
    assert "Placement/p: spec: warning: it selects no cluster of this hub: no cluster matches" in line
    (line,) = on_hub(hub, placement("p", "{}", "bare"))
    assert line.endswith("no cluster set is bound to namespace bare")
    assert on_hub(hub, placement("p", "{numberOfClusters: 0}")) == [], "nobody is meant"


def test_a_set_and_a_binding_in_the_files_count(hub: HubProcess) -> None:
    binding = f"apiVersion: {GROUP}/v1beta2\nkind: ManagedClusterSetBinding\n"
    binding += "metadata: {name: everyone, namespace: bare}\nspec: {clusterSet: everyone}\n"
    assert on_hub(hub, binding + placement("p", "{}", "bare")) == []


def test_a_group_that_nobody_of_the_hub_is_in_is_a_warning(hub: HubProcess) -> None:
    groups = "[{groupName: eu, groupClusterSelector: {labelSelector: {matchLabels: {region: eu}}}},"
    groups += " {groupName: canary, groupClusterSelector: {labelSelector: {matchLabels: {canary: 'true'}}}}]"
    (line,) = on_hub(hub, placement("p", f"{{decisionStrategy: {{groupStrategy: {{decisionGroups: {groups}}}}}}}"))
    assert "decisionGroups[1]: warning: group canary has none of the clusters" in line


def test_placements_of_the_hub_are_known_and_others_are_missed(hub: HubProcess) -> None:
    mandatory = "{type: Progressive, progressive: {maxConcurrency: 1, mandatoryDecisionGroups: [{groupName: canari}]}}"
    text = OLD.replace("{rolloutType: All}", mandatory).replace(", namespace: apps", "")
    missed, unknown = (text.replace("name: p,", f"name: {name},") for name in ("nowhere", "there"))
    (line,) = on_hub(hub, missed, "-n", "apps")
    assert "placementRefs[0].name: there is no placement nowhere in namespace apps" in line
    (line,) = on_hub(hub, unknown, "-n", "apps")
    assert "placement there has no group canari" in line
