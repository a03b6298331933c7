import json
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from echelon.api import registry
from echelon.cli.crds import crds

PLACEMENTS = "placements.cluster.open-cluster-management.io"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(crds, arguments)


@pytest.fixture(scope="module")
def everything() -> list[dict[str, Any]]:
    return registry.crds()


def test_all_crds_are_printed_as_yaml_documents(everything: list[dict[str, Any]]) -> None:
    result = run()
    assert result.exit_code == 0
    assert list(yaml.load_all(result.output, Loader=yaml.CSafeLoader)) == everything


def test_yaml_has_no_anchors() -> None:
    events = yaml.parse(run("podcliquesets").output, Loader=yaml.CSafeLoader)
    assert not [event for event in events if isinstance(event, yaml.AliasEvent)]


def test_json_is_one_list(everything: list[dict[str, Any]]) -> None:
    result = run("-o", "json")
    assert result.exit_code == 0
    assert json.loads(result.output) == {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": everything}


def test_names_select_in_the_order_of_names(everything: list[dict[str, Any]]) -> None:
    result = run(PLACEMENTS, "managedclusters")
    assert result.exit_code == 0
    printed = [crd["metadata"]["name"] for crd in yaml.safe_load_all(result.output)]
    assert printed == ["managedclusters.cluster.open-cluster-management.io", PLACEMENTS]
    assert len(everything) > 2


def test_an_unknown_name_is_an_error_that_lists_what_exists() -> None:
    result = run("placements", "plaicements")
    assert result.exit_code == 1
    assert result.output.startswith("Error: no CRD named plaicements. There are:\n")
    assert f"  {PLACEMENTS}\n" in result.output
    assert "apiVersion" not in result.output


def test_the_definition_of_sig_multicluster_is_printed_when_asked_for(everything: list[dict[str, Any]]) -> None:
    result = run("--multicluster")
    assert result.exit_code == 0
    (found,) = yaml.load_all(result.output, Loader=yaml.CSafeLoader)
    assert found["metadata"]["name"] == "placementdecisions.multicluster.x-k8s.io"
    (version,) = found["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    assert schema["required"] == ["decisions"]
    assert schema["properties"]["decisions"]["maxItems"] == 100
    reference = schema["properties"]["decisions"]["items"]["properties"]["clusterProfileRef"]
    assert (reference["required"], set(reference["properties"])) == (["name"], {"name", "namespace"})
    assert "subresources" not in version
    assert found not in everything
