"""The charts are what their source makes, and Helm makes of them what `echelon install manifests` prints."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from tools import charts

from echelon.api.base import JSONObject
from echelon.cli import main
from echelon.install.agent import MEMBER
from echelon.install.hub import HUB
from echelon.install.installation import Installation
from tests.environment import Programs
from tests.environment.access import Access
from tests.environment.fixtures import lacking

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
WHICH = {"hub": HUB, "agent": MEMBER}
LEAST: dict[str, JSONObject] = {
    "hub": {"image": {"repository": "registry.example/echelon"}},
    "agent": {"image": {"repository": "registry.example/echelon"}, "cluster": "west-1"},
}
PINNED = {"digest": "sha256:" + "ab" * 32}
# What breaks out of its place, if anything does.
NASTY = "a\"b'c: #d\n- {{ .Values.cluster }} \\ %v </&> é 1e6"
EVERYTHING: dict[str, JSONObject] = {
    "hub": {
        "image": {"repository": "registry.example:5000/echelon", **PINNED, "pullPolicy": "Always"},
        "replicas": 3,
        "capabilities": {"policies": True, "workloads": True, "multicluster": True},
        "removalGraceSeconds": 1000000,
        "silentShare": 0.25,
        "maxRemovals": "7",
        "trustDecisions": True,
        "allowAll": True,
        "adoptBindings": True,
        "imagePullSecrets": [{"name": "registry"}],
        "extraArgs": ["--verbose", NASTY],
        "podAnnotations": {"note": NASTY},
        "nodeSelector": {"disk": "true"},
        "tolerations": [{"key": "only", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "system-cluster-critical",
        "serviceAccount": {"annotations": {"role": NASTY}},
        "resources": {"limits": {"memory": None, "cpu": 2}},
        "networkPolicy": {
            "metricsFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
            "egress": [{"ports": [{"port": 6443}]}],
        },
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "prometheusRule": {"enabled": True},
        "dashboard": {"enabled": True},
        "web": {"enabled": True, "tlsSecret": NASTY, "from": [{"podSelector": {}}], "url": 'https://a.example/"b: #c'},
    },
    "agent": {
        "image": {"repository": "registry.example/echelon", **PINNED},
        "cluster": "west-1.example",
        "hub": {"kubeconfig": f"apiVersion: v1\n{NASTY}", "kubeconfigSecret": "own"},
        "capabilities": {"policies": False, "workloads": False, "podCliques": True},
        "podCliques": {"initImage": "registry.example/echelon:1"},
        "rights": {"admin": False},
        "extraArgs": ["--agent-id=one"],
        "serviceMonitor": {"enabled": True},
        "prometheusRule": {"enabled": True},
    },
}
NOTHING: dict[str, JSONObject] = {
    "hub": {
        "crds": {"install": False},
        "admissionPolicies": {"install": False},
        "peopleRoles": {"install": False},
        "podDisruptionBudget": {"enabled": False},
        "networkPolicy": {"enabled": False},
    },
    "agent": {"crds": {"install": False}, "networkPolicy": {"enabled": False}, "hub": {"kubeconfigSecret": ""}},
}
INVITED: dict[str, JSONObject] = {
    "hub": {"web": {"enabled": True, "url": "https://fleet.example"}},
    "agent": {"hub": {"invitation": NASTY, "invitationSecret": "invitation"}},
}
CASES = [
    pytest.param(which, merged, id=f"{which}, {name}")
    for which in WHICH
    for name, merged in (
        ("least", LEAST[which]),
        ("everything", EVERYTHING[which]),
        ("little", {**LEAST[which], **NOTHING[which]}),
        ("invited", {**LEAST[which], **INVITED[which]}),
    )
]


class Helm:
    """Runs Helm where it keeps nothing."""

    def __init__(self, program: Path, home: Path) -> None:
        self._program = program
        self._home = home

    def __call__(self, *arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        places = {name: str(self._home) for name in ("HOME", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")}
        command = [str(self._program), *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, env=places)


@pytest.fixture
def helm(kubernetes: Programs, tmp_path: Path) -> Helm:
    if not kubernetes.has(["helm"]):
        lacking("no helm: run `make kubernetes`, which builds one where there is Go")
    return Helm(kubernetes.path("helm"), tmp_path)


def _chart(installation: Installation) -> str:
    return str(charts.CHARTS / installation.name)


def _objects(documents: Iterator[Any]) -> list[JSONObject]:
    """Return objects in an order that does not depend on who wrote them."""
    found = [each for each in documents if each is not None]
    return sorted(found, key=lambda each: (each["kind"], each["metadata"]["name"]))


def _rules(documents: list[JSONObject]) -> Iterator[tuple[str, JSONObject]]:
    for each in documents:
        if each["kind"] in ("ClusterRole", "Role"):
            for rule in each["rules"]:
                yield each["metadata"]["name"], rule


def test_what_is_committed_is_what_the_source_makes() -> None:
    for installation in WHICH.values():
        there = charts.CHARTS / installation.name
        made = installation.chart()
        found = {str(path.relative_to(there)): path.read_text() for path in there.rglob("*") if path.is_file()}
        assert found.keys() == made.keys(), "run make charts"
        assert [path for path in made if found[path] != made[path]] == [], "run make charts"


@pytest.mark.parametrize(("which", "values"), CASES)
def test_helm_makes_of_a_chart_what_is_printed(helm: Helm, which: str, values: JSONObject) -> None:
    asked = ("template", "any", _chart(WHICH[which]), "--namespace", "elsewhere", "--values", "-")
    made = helm(*asked, stdin=json.dumps(values))
    assert made.returncode == 0, made.stderr
    printed = WHICH[which].manifests(values, "elsewhere")
    assert printed[0]["kind"] == "Namespace"
    rendered = _objects(yaml.load_all(made.stdout, Loader=LOADER))
    assert rendered == _objects(iter(printed[1:]))


@pytest.mark.parametrize("which", WHICH)
def test_a_chart_has_nothing_to_complain_about(helm: Helm, which: str) -> None:
    linted = helm("lint", "--strict", _chart(WHICH[which]), "--values", "-", stdin=json.dumps(LEAST[which]))
    assert linted.returncode == 0, linted.stdout + linted.stderr


@pytest.mark.parametrize("which", WHICH)
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"replica": 3}, "replica"),
        ({"image": {"repository": "x", "tags": "1"}}, "tags"),
        ({"logLevel": "loud"}, "logLevel"),
        ({"crds": {"install": "no"}}, "install"),
        ({"image": {"repository": ""}}, "repository"),
        ({"image": {"repository": "x", "tag": 'a b"c'}}, "tag"),
        ({"image": {"repository": "x", "digest": "sha256:abc"}}, "digest"),
    ],
)
def test_settings_that_do_not_exist_or_fit_are_refused(helm: Helm, which: str, wrong: JSONObject, told: str) -> None:
    values = json.dumps({**LEAST[which], **wrong})
    made = helm("template", "any", _chart(WHICH[which]), "--values", "-", stdin=values)
    assert made.returncode != 0
    assert told in made.stderr
    settings = [f"{key}={json.dumps(value)}" for key, value in {**LEAST[which], **wrong}.items()]
    said = CliRunner().invoke(main, ["install", "manifests", which, *(f"--set={each}" for each in settings)])
    assert said.exit_code == 1
    assert told in said.output
    assert f"echelon install values {which}" in said.output


def test_an_invitation_is_in_its_secret_and_nowhere_else() -> None:
    made = MEMBER.manifests({**LEAST["agent"], **INVITED["agent"]})
    # As JSON has it, between its quotes.
    assert [each["kind"] for each in made if json.dumps(NASTY)[1:-1] in json.dumps(each)] == ["Secret"]
    assert [each["stringData"] for each in made if each["kind"] == "Secret"] == [{"invitation": NASTY}]
    (pod,) = [each["spec"]["template"]["spec"] for each in made if each["kind"] == "Deployment"]
    (container,) = pod["containers"]
    assert "--join=$(ECHELON_INVITATION)" in container["args"]
    assert not [each for each in container["args"] if each.startswith("--hub-kubeconfig")]
    assert [each["name"] for each in pod["volumes"]] == ["tmp"]


@pytest.mark.parametrize("which", WHICH)
def test_no_rule_has_a_wildcard_and_nobody_may_become_more_than_he_is(which: str) -> None:
    documents = WHICH[which].manifests(EVERYTHING[which])
    for role, rule in _rules(documents):
        for field in ("apiGroups", "resources", "verbs"):
            assert "*" not in rule[field], f"{role}: {rule}"
        assert "nonResourceURLs" not in rule, f"{role}: {rule}"
        assert not {"impersonate"} & set(rule["verbs"]), f"{role}: {rule}"


@pytest.mark.parametrize("which", WHICH)
def test_pods_run_as_nobody_on_a_root_that_can_only_be_read(which: str) -> None:
    pods = [
        each["spec"]["template"]["spec"]
        for each in WHICH[which].manifests(EVERYTHING[which])
        if each["kind"] == "Deployment"
    ]
    assert pods
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            own = container["securityContext"]
            assert own["readOnlyRootFilesystem"] is True
            assert own["allowPrivilegeEscalation"] is False
            assert own["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("which", WHICH)
def test_pods_are_probed_and_nobody_comes_in_but_to_what_is_probed(which: str) -> None:
    made = WHICH[which].manifests(EVERYTHING[which])
    guarded = [each["spec"] for each in made if each["kind"] == "NetworkPolicy"]
    for each in (one for one in made if one["kind"] == "Deployment"):
        (container,) = each["spec"]["template"]["spec"]["containers"]
        assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
        assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
        labels = each["spec"]["template"]["metadata"]["labels"]
        (mine,) = [one for one in guarded if one["podSelector"]["matchLabels"].items() <= labels.items()]
        assert "Ingress" in mine["policyTypes"]
        ports = [port["port"] for rule in mine["ingress"] for port in rule["ports"]]
        assert ports == [container["livenessProbe"]["httpGet"]["port"]]


def test_what_has_two_processes_is_drained_one_by_one_and_measured() -> None:
    made = [*HUB.manifests(EVERYTHING["hub"]), *MEMBER.manifests(EVERYTHING["agent"])]
    told = {
        kind: {
            each["spec"]["selector"]["matchLabels"]["app.kubernetes.io/component"]
            for each in made
            if each["kind"] == kind
        }
        for kind in ("PodDisruptionBudget", "ServiceMonitor")
    }
    assert told["PodDisruptionBudget"] == {"controllers", "pod-cliques"}
    assert told["ServiceMonitor"] == {"controllers", "agent", "pod-cliques"}


@pytest.mark.parametrize("replicas", [1, 2])
def test_nodes_can_be_drained_whatever_the_number_of_replicas(replicas: int) -> None:
    made = HUB.manifests({**LEAST["hub"], "replicas": replicas})
    (budget,) = [each["spec"] for each in made if each["kind"] == "PodDisruptionBudget"]
    assert budget["maxUnavailable"] == 1
    assert "minAvailable" not in budget, "one of one could never go"


def test_an_image_that_is_pinned_is_asked_for_by_its_digest() -> None:
    digest = f"sha256:{'a' * 64}"
    made = HUB.manifests({"image": {"repository": "example.com/echelon", "tag": "9", "digest": digest}})
    (pod,) = [each["spec"]["template"]["spec"] for each in made if each["kind"] == "Deployment"]
    assert [each["image"] for each in pod["containers"]] == [f"example.com/echelon@{digest}"]


@pytest.mark.parametrize("which", WHICH)
def test_programs_take_the_arguments_that_they_are_given(which: str) -> None:
    """They are parsed, and nothing is run: a help that was asked for comes after all options were read."""
    values = {**EVERYTHING[which], "extraArgs": []}
    for each in WHICH[which].manifests(values):
        if each["kind"] == "Deployment":
            (container,) = each["spec"]["template"]["spec"]["containers"]
            command, *options = container["args"]
            context = main.make_context("echelon", [command, "--help"], resilient_parsing=True)
            found = main.get_command(context, command)
            assert found is not None
            found.make_context(command, list(options), parent=context)


@pytest.mark.parametrize(
    ("which", "values"),
    [pytest.param(which, values, id=which) for which, values in EVERYTHING.items()],
)
def test_a_real_server_takes_everything(control_plane: Access, kubectl: str, which: str, values: JSONObject) -> None:
    """But for the kinds of the Prometheus operator, which it does not have."""
    namespace = f"dry-run-{which}"
    run = [kubectl, "--kubeconfig", str(control_plane.kubeconfig)]
    subprocess.run([*run, "create", "namespace", namespace], check=True, capture_output=True)
    printed = [
        each
        for each in WHICH[which].manifests(values, namespace)
        if not each["apiVersion"].startswith("monitoring.coreos.com/")
    ]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": printed})
    applied = [*run, "apply", "--server-side", "--dry-run=server", "--validate=strict", "--force-conflicts", "-f", "-"]
    done = subprocess.run(applied, input=listed, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == len(printed)
