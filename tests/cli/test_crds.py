import json
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from tests.controllers import hub as hubs
from tests.hub.api import Api
from tests.hub.conftest import HubProcess

from echelon.api import guards, registry
from echelon.cli.crds import crds
from echelon.cli.demo import apply
from echelon.fleet import loop
from echelon.kube.errors import AlreadyExists

PLACEMENTS = "placements.cluster.open-cluster-management.io"
CLONE_SETS = "clonesets.apps.kruise.io"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(crds, arguments)


@pytest.fixture(scope="module")
def everything() -> list[dict[str, Any]]:
    return registry.crds()


def printed(*arguments: str) -> list[dict[str, Any]]:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return list(yaml.load_all(result.stdout, Loader=yaml.CSafeLoader))


def names(documents: list[dict[str, Any]], kind: str = "CustomResourceDefinition") -> list[str]:
    return [each["metadata"]["name"] for each in documents if each["kind"] == kind]


USUAL = [
    "addonplacementscores.cluster.open-cluster-management.io",
    "managedclusters.cluster.open-cluster-management.io",
    "managedclustersetbindings.cluster.open-cluster-management.io",
    "managedclustersets.cluster.open-cluster-management.io",
    "manifestworkreplicasets.work.open-cluster-management.io",
    "manifestworks.work.open-cluster-management.io",
    "placementdecisions.cluster.open-cluster-management.io",
    PLACEMENTS,
]


def test_what_the_usual_controllers_need_is_printed_and_then_the_policies_about_it() -> None:
    documents = printed()
    assert [each["kind"] for each in documents] == (
        ["CustomResourceDefinition"] * 8 + ["ValidatingAdmissionPolicy"] * 4 + ["ValidatingAdmissionPolicyBinding"] * 4
    )
    assert names(documents) == USUAL
    clusters = ["echelon-join-cluster-set", "echelon-accept-cluster", "echelon-cluster-name"]
    policies = ["echelon-bind-cluster-set", *clusters]
    assert names(documents, "ValidatingAdmissionPolicy") == policies
    assert names(documents, "ValidatingAdmissionPolicyBinding") == policies
    assert {each["metadata"]["labels"]["app.kubernetes.io/managed-by"] for each in documents} == {"echelon"}


def test_no_policy_has_an_expression_with_more_checks_than_a_server_takes() -> None:
    policies = [each for each in printed(*guards.NAMES) if each["kind"] == "ValidatingAdmissionPolicy"]
    assert len(policies) == len(guards.NAMES)
    for policy in policies:
        assert policy["spec"]["failurePolicy"] == "Fail"
        (rule,) = policy["spec"]["matchConstraints"]["resourceRules"]
        assert not [name for name in rule["resources"] if "/" in name]
        for validation in policy["spec"]["validations"]:
            assert (checks := validation["expression"].count(".check(")) <= 2
            assert validation["reason"] == ("Forbidden" if checks else "Invalid")
            assert rule["operations"] == (["CREATE", "UPDATE"] if checks else ["CREATE"])


def test_other_controllers_get_what_they_need_and_no_more() -> None:
    assert printed("--controllers", "work-expiry") == [
        crd for crd in registry.crds() if crd["metadata"]["name"] == "manifestworks.work.open-cluster-management.io"
    ]
    shared = printed("--controllers", "cluster-sets, multicluster")
    assert names(shared) == [
        *USUAL[1:4],
        "placementdecisions.cluster.open-cluster-management.io",
        PLACEMENTS,
        "placementdecisions.multicluster.x-k8s.io",
    ]
    refused = run("--controllers", "placments")
    assert refused.exit_code == 2
    assert "there is no controller 'placments'" in refused.output


def test_what_controllers_of_policies_need_is_printed_with_its_guard_when_they_are_named() -> None:
    documents = printed("--controllers", "policies,policy-sets")
    assert names(documents) == [
        *USUAL[1:4],
        "placementbindings.policy.open-cluster-management.io",
        "placementdecisions.cluster.open-cluster-management.io",
        PLACEMENTS,
        "policies.policy.open-cluster-management.io",
        "policysets.policy.open-cluster-management.io",
    ]
    for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
        assert names(documents, kind) == [*guards.NAMES[:4], "echelon-policy-name"]
    assert not [name for name in names(printed()) if "policy.open" in name or "apps.open" in name]


def test_what_federated_workloads_need_is_printed_when_they_are_named() -> None:
    documents = printed("--controllers", "workloads")
    found = names(documents)
    assert [name for name in found if name.endswith((".karmada.io", ".echelon.dev"))] == [
        "clusteroverridepolicies.policy.karmada.io",
        "clusterpropagationpolicies.policy.karmada.io",
        "overridepolicies.policy.karmada.io",
        "propagationpolicies.policy.karmada.io",
        "resourcebindings.work.karmada.io",
        "rolloutledgers.echelon.dev",
        "works.work.karmada.io",
    ]
    assert {PLACEMENTS, "managedclusters.cluster.open-cluster-management.io"} <= set(found)
    assert not [name for name in names(printed()) if "karmada" in name]


def test_what_sets_of_pod_cliques_need_is_printed_when_they_are_named() -> None:
    assert names(printed("--controllers", "pod-cliques")) == [
        "podcliques.grove.io",
        "podcliquescalinggroups.grove.io",
        "podcliquesets.grove.io",
        "podgangs.scheduler.grove.io",
    ]
    assert not [name for name in names(printed()) if "grove" in name]


def test_everything_is_printed_when_asked_for(everything: list[dict[str, Any]]) -> None:
    documents = printed("--all")
    assert documents[: len(everything)] == everything
    assert documents[len(everything) :] == guards.guards(*guards.GUARDED)


def test_what_an_agent_needs_on_its_own_cluster_is_printed_when_asked_for() -> None:
    assert names(printed("--member")) == [
        "appliedmanifestworks.work.open-cluster-management.io",
        "clusterclaims.cluster.open-cluster-management.io",
        "configurationpolicies.policy.open-cluster-management.io",
        "policies.policy.open-cluster-management.io",
    ]


def test_two_ways_to_choose_are_a_mistake_of_usage() -> None:
    assert run("placements", "--all").exit_code == 2
    assert run("--member", "--multicluster").exit_code == 2


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    running = HubProcess(tmp_path_factory.mktemp("hub"), ["--memory"])
    running.start()
    yield running
    assert running.stop() == 0


def make(hub: HubProcess, name: str, **changed: Any) -> None:
    definition = next(crd for crd in registry.crds() if crd["metadata"]["name"] == name)
    Api.of(hub.kubeconfig).ok("POST", DEFINITIONS, {**definition, **changed}, fieldManager="somebody")


def test_a_definition_that_is_somebody_else_s_is_left_out(hub: HubProcess) -> None:
    make(hub, PLACEMENTS, metadata={"name": PLACEMENTS, "labels": {"owner": "somebody"}})
    labels = {"app.kubernetes.io/part-of": "echelon", "app.kubernetes.io/managed-by": "Helm"}
    make(hub, USUAL[1], metadata={"name": USUAL[1], "labels": labels})  # as the chart leaves it
    make(hub, USUAL[2], metadata={"name": USUAL[2], "labels": {"app.kubernetes.io/managed-by": "echelon"}})
    result = run("--kubeconfig", str(hub.kubeconfig))
    assert result.exit_code == 0
    documents = list(yaml.load_all(result.stdout, Loader=yaml.CSafeLoader))
    assert names(documents) == USUAL[:-1]
    assert len(documents) == 7 + 8
    assert f"{PLACEMENTS} is left out" in result.stderr
    assert f"kubectl label crd {PLACEMENTS} app.kubernetes.io/part-of=echelon" in result.stderr


def test_what_is_printed_replaces_no_schema_of_somebody_else_in_silence(hub: HubProcess, kubectl: str) -> None:
    definition = next(crd for crd in registry.crds() if crd["metadata"]["name"] == CLONE_SETS)
    (version,) = definition["spec"]["versions"]
    theirs = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    make(
        hub,
        CLONE_SETS,
        metadata={"name": CLONE_SETS},
        spec={**definition["spec"], "versions": [{**version, "schema": theirs}]},
    )
    command = [kubectl, "--kubeconfig", str(hub.kubeconfig), "apply", "--server-side", "-f", "-"]
    done = subprocess.run(
        command, input=run("clonesets").stdout, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert 'conflict with "somebody"' in done.stderr
    there = Api.of(hub.kubeconfig).ok("GET", f"{DEFINITIONS}/{CLONE_SETS}")
    assert there["spec"]["versions"][0]["schema"] == theirs


def test_yaml_has_no_anchors() -> None:
    events = yaml.parse(run("podcliquesets").output, Loader=yaml.CSafeLoader)
    assert not [event for event in events if isinstance(event, yaml.AliasEvent)]


def test_json_is_one_list(everything: list[dict[str, Any]]) -> None:
    result = run("-o", "json", "--all")
    assert result.exit_code == 0
    items = [*everything, *guards.guards(*guards.GUARDED)]
    assert json.loads(result.output) == {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}


def test_names_select_in_the_order_of_names(everything: list[dict[str, Any]]) -> None:
    result = run(PLACEMENTS, "managedclusters")
    assert result.exit_code == 0
    found = [crd["metadata"]["name"] for crd in yaml.safe_load_all(result.output)]
    assert found == ["managedclusters.cluster.open-cluster-management.io", PLACEMENTS]
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


def test_what_another_has_made_can_be_applied_without_a_conflict() -> None:
    """`echelon up` makes them itself; who follows a page applies them again."""
    documents = printed("--all")

    async def story() -> None:
        async with hubs.hub() as here:
            for each in documents:
                group, version = each["apiVersion"].split("/")
                kind = registry.by_gvk(group, version, each["kind"])
                assert kind is not None
                with suppress(AlreadyExists):
                    await here.client.create(kind.untyped(), each)
            await apply(here.client, documents)

    loop.run(story())
