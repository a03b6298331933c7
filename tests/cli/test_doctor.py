"""`echelon doctor`: against hubs that lack one thing or another, with rights and without."""

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.hub.api import MERGE_PATCH, Api
from tests.hub.conftest import HubProcess

from echelon.api import guards, registry
from echelon.api.base import JSONObject
from echelon.api.crd import crd
from echelon.api.grove import POD_CLIQUE_SET
from echelon.api.policy import POLICY
from echelon.cli import main

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
SETS = "manifestworkreplicasets.work.open-cluster-management.io"
BINDINGS = "/apis/cluster.open-cluster-management.io/v1beta2/namespaces/default/managedclustersetbindings"


CLUSTERS = tuple(f"hub-{number}" for number in range(10))


@dataclass(frozen=True)
class OneHub:
    """A logical cluster, which is a hub of its own."""

    kubeconfig: Path
    name: str

    @property
    def api(self) -> Api:
        return Api.of(self.kubeconfig, self.name)

    def doctor(self, *options: str, kubeconfig: Path | None = None) -> Result:
        which = ["--kubeconfig", str(kubeconfig or self.kubeconfig), "--context", f"echelon-{self.name}"]
        return CliRunner().invoke(main, ["doctor", *which, *options])

    def found(self, code: int = 1) -> dict[str, Any]:
        result = self.doctor("-o", "json")
        assert result.exit_code == code, result.output
        return {each["check"]: each for each in json.loads(result.output)}


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[HubProcess, Iterator[str]]]:
    """One hub, with a logical cluster for each test."""
    options = [option for name in CLUSTERS for option in ("--cluster", name)]
    running = HubProcess(tmp_path_factory.mktemp("doctor"), ["--memory", *options])
    running.start()
    yield running, iter(CLUSTERS)
    assert running.stop() == 0


@pytest.fixture
def hub(process: tuple[HubProcess, Iterator[str]]) -> OneHub:
    running, names = process
    return OneHub(running.kubeconfig, next(names))


def install(api: Api, *, without: tuple[str, ...] = ()) -> None:
    for definition in registry.crds():
        if (
            "open-cluster-management" in definition["metadata"]["name"]
            and definition["metadata"]["name"] not in without
        ):
            api.ok("POST", CRDS, definition)


def guard(api: Api) -> None:
    for document in guards.guards(*guards.GUARDED):
        api.ok("POST", POLICIES.removesuffix("policies") + _plural(document), document)


def _plural(document: JSONObject) -> str:
    return "policies" if document["kind"].endswith("Policy") else "policybindings"


def bind(api: Api, name: str) -> None:
    body = {
        "apiVersion": "cluster.open-cluster-management.io/v1beta2",
        "kind": "ManagedClusterSetBinding",
        "metadata": {"name": name},
        "spec": {"clusterSet": name},
    }
    api.ok("POST", BINDINGS, body)


def test_a_hub_that_has_everything_is_well(hub: OneHub) -> None:
    api = hub.api
    install(api)
    guard(api)
    assert {each["state"] for each in hub.found(0).values()} == {"ok"}
    said = hub.doctor()
    assert said.exit_code == 0
    assert said.output.splitlines()[0] == "ok        The 8 kinds that the controllers need are served."


def test_a_hub_that_has_nothing_is_told_what_to_install(hub: OneHub) -> None:
    checks = hub.found()
    assert checks["kinds"]["state"] == checks["policies"]["state"] == "finding"
    assert len(checks["kinds"]["items"]) == 8
    assert checks["kinds"]["fix"] == "echelon crds | kubectl apply --server-side -f -"
    assert len(checks["policies"]["items"]) == 8
    assert not {"policy-names", "policy-fields"} & checks.keys(), "nobody asked for policies"
    said = hub.doctor()
    assert said.exit_code == 1
    assert max(map(len, said.output.splitlines())) <= 80
    assert "echelon crds echelon-bind-cluster-set echelon-join-cluster-set \\\n" in said.output


def test_a_missing_kind_and_what_installs_it_are_named(hub: OneHub) -> None:
    install(hub.api, without=(SETS,))
    kinds = hub.found()["kinds"]
    assert kinds["items"] == [SETS]
    assert kinds["fix"] == f"echelon crds {SETS} | kubectl apply --server-side -f -"


def test_bindings_that_nobody_checked_are_named(hub: OneHub) -> None:
    api = hub.api
    install(api)
    bind(api, "early")
    assert hub.found()["bindings"]["items"] == ["default/early"]
    guard(api)
    bindings = hub.found()["bindings"]
    assert (bindings["state"], bindings["items"]) == ("finding", ["default/early"])


def test_a_policy_that_somebody_weakened_is_named(hub: OneHub) -> None:
    api = hub.api
    install(api)
    guard(api)
    weaker = {"spec": {"matchConstraints": {"objectSelector": {"matchLabels": {"strict": "true"}}}}}
    api.ok("PATCH", f"{POLICIES}/echelon-accept-cluster", weaker, MERGE_PATCH)
    api.ok("DELETE", f"{POLICIES.removesuffix('policies')}policybindings/echelon-join-cluster-set")
    assert hub.found()["policies"]["items"] == [
        "ValidatingAdmissionPolicy echelon-accept-cluster is not what this version of Echelon installs",
        "ValidatingAdmissionPolicyBinding echelon-join-cluster-set is missing",
    ]


def test_a_definition_that_drops_the_state_of_each_cluster_is_told(hub: OneHub) -> None:
    api = hub.api
    install(api, without=(SETS,))
    guard(api)
    definition = deepcopy(next(crd for crd in registry.crds() if crd["metadata"]["name"] == SETS))
    (version,) = definition["spec"]["versions"]
    del version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["rollout"]
    api.ok("POST", CRDS, definition)
    checks = hub.found()
    assert checks["status"]["state"] == "finding"
    assert "drops status.rollout" in checks["status"]["message"]
    assert [name for name, each in checks.items() if each["state"] != "ok"] == ["status"]


def test_a_definition_of_policies_that_drops_the_strategy_is_named_and_what_helps(hub: OneHub) -> None:
    api = hub.api
    install(api, without=(POLICY.resource,))
    definition = crd(POLICY)
    properties = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    del properties["spec"]["properties"]["rolloutStrategy"]
    del properties["status"]["properties"]["conditions"]
    api.ok("POST", CRDS, definition)
    guard(api)
    checks = hub.found()
    assert [name for name, each in checks.items() if each["state"] != "ok"] == ["policy-fields"]
    found = checks["policy-fields"]
    assert found["items"] == ["spec.rolloutStrategy", "status.conditions"]
    assert "the annotation echelon.dev/rollout-strategy has to carry" in found["message"]
    assert "What kubectl shows of a rollout is reduced." in found["message"]


def test_a_hub_that_does_not_measure_the_names_of_policies_is_told_what_to_install(hub: OneHub) -> None:
    api = hub.api
    install(api)
    guard(api)
    api.ok("DELETE", f"{POLICIES}/echelon-policy-name")
    checks = hub.found()
    assert [name for name, each in checks.items() if each["state"] != "ok"] == ["policy-names"]
    found = checks["policy-names"]
    assert found["items"] == ["ValidatingAdmissionPolicy echelon-policy-name is missing"]
    assert found["fix"] == "echelon crds echelon-policy-name | kubectl apply --server-side -f -"


def test_a_foreign_definition_of_sets_and_groves_operator_at_work_are_named(hub: OneHub) -> None:
    api = hub.api
    install(api)
    guard(api)
    assert not [name for name in hub.found(0) if name.startswith("pod-clique")], "nobody asked for sets"
    definition = crd(POD_CLIQUE_SET)
    del definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"][
        "outdatedPods"
    ]
    api.ok("POST", CRDS, definition)
    spec = {"holderIdentity": "grove-7f9"}
    meta = {"name": "grove-operator-leader-election"}
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}
    api.ok("POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases", body)
    checks = hub.found()
    told = {name: each["items"] for name, each in checks.items() if each["state"] != "ok"}
    assert told == {
        "pod-clique-fields": ["status.outdatedPods"],
        "pod-clique-rival": ["grove-7f9 holds the lease default/grove-operator-leader-election"],
    }


def test_what_the_user_may_not_see_is_unknown_and_not_well(hub: OneHub, tmp_path: Path) -> None:
    api = hub.api
    install(api)
    guard(api)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "guest"}}
    api.ok("POST", "/api/v1/namespaces/default/serviceaccounts", account)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = api.ok("POST", "/api/v1/namespaces/default/serviceaccounts/guest/token", request)
    admin = hub.kubeconfig.read_text()
    guest = tmp_path / "guest"
    guest.write_text(re.sub(r"token: \S+", f"token: {answer['status']['token']}", admin))
    result = hub.doctor("-o", "json", kubeconfig=guest)
    assert result.exit_code == 1
    states = {each["check"]: each["state"] for each in json.loads(result.output)}
    assert states.pop("kinds") == "ok"
    policies = ("policies", "bindings", "status", "policy-names", "policy-fields")
    assert states == dict.fromkeys((*policies, "pod-clique-fields", "pod-clique-rival"), "unknown")
