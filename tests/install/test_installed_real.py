"""What the charts install is enough, and not more than that: judged by the audit logs of real servers.

A story in which everything happens that controllers and agents are there for runs with the accounts and the arguments
of the charts. No call may be refused. What roles allow and nobody did is either listed with a reason, or too much.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
import yaml

from echelon.api.base import JSONObject
from echelon.install.agent import MEMBER as MEMBER_CHART
from echelon.install.hub import HUB as HUB_CHART
from echelon.rollouts.steering import VERBS
from tests.environment import Programs
from tests.environment.fixtures import REQUIRED
from tests.install.audited_calls import granted
from tests.install.installed import (
    AGENT,
    AGENT_ON_HUB,
    AGENT_USER,
    CONTROLLERS_USER,
    HUB,
    MEMBER,
    SYSTEM,
    Installed,
)

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "helm")
ROOT = Path(__file__).parents[2]
UNUSED = Path(__file__).parent / "unused_rules.yaml"
VALUES: dict[str, JSONObject] = {
    "echelon": {
        "image": {"repository": "registry.example/echelon"},
        "capabilities": {"policies": True, "workloads": True, "multicluster": True},
    },
    "echelon-agent": {"image": {"repository": "registry.example/echelon"}, "cluster": MEMBER},
}
WORK_SET = ("manifestworkreplicaset", "node-agent", "observability")
POLICY = ("policies.policy.open-cluster-management.io", "session-limits", "guardrails")
WORKLOAD = ("deployment", "demo", "budgets")
_SETTINGS: list[JSONObject] = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "node-agent"}},
    {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "node-agent"},
        "data": {"a": "1"},
    },
]

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("installed")]


@pytest.fixture(scope="module")
def joined(kubernetes: Programs, kubectl: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """A hub with two processes, and a cluster with its agent."""
    if not kubernetes.has(PROGRAMS):
        told = f"no real fleet: {kubernetes.directory} does not have all of {', '.join(PROGRAMS)}"
        pytest.fail(told, pytrace=False) if os.environ.get(REQUIRED) else pytest.skip(told)
    with Installed(kubernetes, kubectl, tmp_path_factory.mktemp("installed"), VALUES) as running:
        _join(running)
        yield running


@pytest.fixture(scope="module")
def lived(joined: Installed) -> Installed:
    """The same, after everything has happened; apart, for a test that takes too long is ended."""
    _live(joined)
    return joined


def _join(here: Installed) -> None:
    """Install the hub with two processes, accept a cluster, and install its agent."""
    here.install("echelon", HUB, SYSTEM)
    for number in (1, 2):
        here.start(f"controllers-{number}", "echelon-controllers", HUB, SYSTEM)
    cluster = {
        "apiVersion": "cluster.open-cluster-management.io/v1",
        "kind": "ManagedCluster",
        "metadata": {"name": MEMBER, "labels": {"canary": "true", "region": "eu"}},
        "spec": {"hubAcceptsClient": True},
    }
    here.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(cluster))
    here.until_true("HubAcceptedManagedCluster", "managedcluster", MEMBER)
    here.install("echelon-agent", MEMBER, AGENT)
    hub = here.identity("echelon-agent", MEMBER, HUB)
    here.start("agent", "echelon-agent", MEMBER, AGENT, hub_kubeconfig=str(hub))
    here.until_true("ManagedClusterConditionAvailable", "managedcluster", MEMBER)


def _live(here: Installed) -> None:
    """Roll everything out that can be, change it, take it back, change leaders, and let the cluster go."""
    for example in ("everywhere", "policy-drift-in-waves", "deployment-one-budget"):
        here.kubectl("apply", "-f", str(ROOT / "examples" / f"{example}.yaml"))
    for each in (WORK_SET, POLICY):
        here.until_true("PlacementRolledOut", *each)
    here.until(lambda: _available(here) == 10, "the federated workload does not come up")
    here.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(_policy_set()))
    # Another leader goes on, with another revision of everything.
    here.processes["controllers-1"].process.terminate()
    here.processes["controllers-1"].process.wait()
    template = {"workload": {"manifests": _SETTINGS}}
    changes: list[tuple[tuple[str, str, str], JSONObject]] = [
        (WORK_SET, {"spec": {"manifestWorkTemplate": template}}),
        (POLICY, {"spec": {"remediationAction": "inform"}}),
        (WORKLOAD, {"spec": {"template": {"metadata": {"labels": {"round": "2"}}}}}),
    ]
    for (kind, name, namespace), patch in changes:
        here.kubectl("patch", kind, name, "-n", namespace, "--type=merge", "-p", json.dumps(patch))
    for each in (WORK_SET, POLICY):
        here.until_true("PlacementRolledOut", *each)
    here.until(lambda: _updated(here) == 10, "the federated workload is not updated")
    here.start("controllers-1", "echelon-controllers", HUB, SYSTEM)
    # Drift on the member is put back.
    here.kubectl(
        "patch", "configmap", "settings", "-n", "node-agent", "--type=merge", "-p", '{"data":{"a":"b"}}', where=MEMBER
    )
    here.until(lambda: here.get("configmap", "settings", "node-agent", MEMBER)["data"] == {"a": "1"}, "drift stays")
    # Everything goes, and then the cluster.
    here.delete("policysets.policy.open-cluster-management.io", "all", "guardrails")
    here.delete(*POLICY)
    here.delete(*WORKLOAD)
    here.delete(*WORK_SET)
    here.until(lambda: not here.get("configmap", "settings", "node-agent", MEMBER), "what was rolled out stays")
    here.until(lambda: not here.get("deployment", "demo", "budgets", MEMBER), "the workload stays")
    for kind, namespace in (
        ("manifestworks", MEMBER),
        (POLICY[0], MEMBER),
        ("works.work.karmada.io", f"karmada-es-{MEMBER}"),
    ):
        here.until_gone(kind, namespace)
    # The agent goes first: what it may do on the hub is taken away with its cluster.
    here.processes["agent"].process.terminate()
    here.processes["agent"].process.wait()
    here.kubectl("delete", "managedcluster", MEMBER, "--wait=false")
    here.until(lambda: not here.get("managedcluster", MEMBER), "the cluster stays")


def _policy_set() -> JSONObject:
    return {
        "apiVersion": "policy.open-cluster-management.io/v1beta1",
        "kind": "PolicySet",
        "metadata": {"name": "all", "namespace": "guardrails"},
        "spec": {"policies": ["session-limits"]},
    }


def _available(here: Installed) -> int:
    found: int = here.get("deployment", "demo", "budgets", MEMBER).get("status", {}).get("availableReplicas", 0)
    return found


def _updated(here: Installed) -> int:
    found = here.get("deployment", "demo", "budgets", MEMBER)
    if found.get("spec", {}).get("template", {}).get("metadata", {}).get("labels", {}).get("round") != "2":
        return 0
    updated: int = found.get("status", {}).get("updatedReplicas", 0)
    return updated


def test_what_people_may_do_in_a_namespace_follows_from_kubernetes_own_roles(joined: Installed) -> None:
    for namespace in ("team-a", "team-b"):
        joined.kubectl("create", "namespace", namespace)
    joined.kubectl("create", "rolebinding", "dev", "--clusterrole=edit", "--user=dev", "-n", "team-a")
    joined.kubectl("create", "rolebinding", "guest", "--clusterrole=view", "--user=guest", "-n", "team-a")

    def may(user: str, verb: str, what: str, namespace: str) -> bool:
        return joined.ask("auth", "can-i", verb, what, "-n", namespace, kubeconfig=joined.user(user))[0] == 0

    joined.until(lambda: may("dev", "patch", "manifestworkreplicasets", "team-a"), "edit is not gathered")
    for what in ("placements", "manifestworkreplicasets", "policies.policy.open-cluster-management.io"):
        for verb in ("create", "patch", "delete"):
            assert may("dev", verb, what, "team-a")
            assert not may("dev", verb, what, "team-b")
            assert not may("guest", verb, what, "team-a")
        # What may have Secrets in it is not for everybody who may look.
        assert may("guest", "get", what, "team-a") == (what == "placements")
        assert not may("guest", "get", what, "team-b")
    assert not may("dev", "patch", "placementdecisions.cluster.open-cluster-management.io", "team-a")
    assert not may("dev", "create", "managedclustersetbindings", "team-a")
    assert not may("dev", "get", "managedclusters", "team-a")


def test_every_verb_works_for_a_team_in_its_namespace_and_none_elsewhere(joined: Installed) -> None:
    here = yaml.safe_load_all((ROOT / "examples" / "everywhere.yaml").read_text().replace("observability", "team-c"))
    *around, work_set = here
    joined.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(around))
    joined.kubectl("create", "namespace", "team-d")
    joined.kubectl("create", "rolebinding", "ann", "--clusterrole=edit", "--user=ann", "-n", "team-c")
    ann = joined.user("ann")

    def types(verb: str, *more: str, namespace: str = "team-c") -> tuple[int, str]:
        return joined.echelon("rollout", verb, *more, "-n", namespace, kubeconfig=ann)

    def applies(value: str) -> bool:
        content = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "team-c", "namespace": "default"}}
        work_set["spec"]["manifestWorkTemplate"]["workload"]["manifests"] = [{**content, "data": {"a": value}}]
        return joined.ask("apply", "-f", "-", kubeconfig=ann, stdin=yaml.safe_dump(work_set))[0] == 0

    name = work_set["metadata"]["name"]
    joined.until(lambda: applies("1"), "edit is not gathered")
    assert types("watch", name, "--timeout", "120")[0] == 0
    assert applies("2")
    assert types("watch", name, "--timeout", "120")[0] == 0
    # What is complete has nothing to approve or to abort; to be told so takes the right to ask.
    codes = {"approve": 1, "abort": 1, "diff": 1}
    verbs = (*VERBS, "status", "history", "diff", "watch")
    for verb in verbs:
        code, said = types(verb, name)
        assert code == codes.get(verb, 0), f"{verb}: {said}"
    told = json.loads(types("history", name, "-o", "json")[1])
    actions = {(each["verb"], each["by"]) for revision in told for each in revision["actions"]}
    # Whether there was something to promote or to try again depends on how far it was when that was asked.
    assert actions >= {("pause", "ann"), ("resume", "ann"), ("undo", "ann")}
    assert {by for _, by in actions} == {"ann"}
    for verb in verbs:
        code, said = types(verb, name, namespace="team-d")
        assert (code, "forbidden" in said) == (6, True), f"{verb}: {said}"
    assert types("list")[0] == 0
    assert types("list", namespace="team-d")[0] == 6
    joined.delete("manifestworkreplicaset", name, "team-c")
    joined.until_gone("manifestworks", MEMBER)


def test_the_cause_of_a_broken_image_is_where_people_look_and_undo_heals_it(joined: Installed) -> None:
    *around, work_set = yaml.safe_load_all(
        (ROOT / "examples" / "everywhere.yaml").read_text().replace("observability", "team-e")
    )
    joined.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(around))
    name = work_set["metadata"]["name"]

    def roll_out(image: str, **where: str) -> None:
        """Roll a Deployment out; where its pods are on a node that is not there, kwok does not say that they run."""
        labels = {"app": "web"}
        pod = {"containers": [{"name": "web", "image": image}], **where}
        spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
        web = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": spec,
        }
        work_set["spec"]["manifestWorkTemplate"]["workload"]["manifests"] = [web]
        joined.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(work_set))

    def refused() -> bool:
        """Say of the new pod what a kubelet says of an image that is not there; whether there was one to say it of."""
        asked = ("get", "pods", "-l", "app=web", "-o", "json")
        pods = json.loads(joined.kubectl(*asked, where=MEMBER))["items"]
        new = [each["metadata"]["name"] for each in pods if each["spec"]["containers"][0]["image"] == broken]
        why = {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{broken}"'}
        container = {"name": "web", "image": broken, "imageID": "", "ready": False, "restartCount": 0}
        told = {"status": {"containerStatuses": [{**container, "state": {"waiting": why}}]}}
        for each in new:
            joined.kubectl(
                "patch", "pod", each, "--subresource=status", "--type=merge", "-p", json.dumps(told), where=MEMBER
            )
        return bool(new)

    broken = "example.com/web:missing"
    roll_out("example.com/web:1")
    assert joined.echelon("rollout", "watch", name, "-n", "team-e", "--timeout", "120")[0] == 0
    roll_out(broken, nodeName="ghost")
    words = f'ImagePullBackOff: image "{broken}"'
    status, describe = ("rollout", "status", name, "-n", "team-e"), ("describe", "mwrs", name, "-n", "team-e")
    joined.until(lambda: refused() and words in _words(joined.echelon(*status)[1]), "the tree tells no cause")
    joined.until(lambda: refused() and words in _words(joined.kubectl(*describe)), "kubectl tells no cause")
    assert joined.echelon("rollout", "undo", name, "-n", "team-e")[0] == 0
    assert joined.echelon("rollout", "watch", name, "-n", "team-e", "--timeout", "120")[0] == 0
    containers = joined.get("deployment", "web", "default", MEMBER)["spec"]["template"]["spec"]["containers"]
    assert [each["image"] for each in containers] == ["example.com/web:1"]
    joined.delete("manifestworkreplicaset", name, "team-e")
    joined.until_gone("manifestworks", MEMBER)


def _words(text: str) -> str:
    """Return a text without its lines and its tree."""
    return " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize(
    ("where", "user"), [(HUB, CONTROLLERS_USER), (HUB, AGENT_ON_HUB), (MEMBER, AGENT_USER)], ids=str
)
def test_no_call_is_refused(lived: Installed, where: str, user: str) -> None:
    seen = lived.calls(where, user)
    assert len(seen) > 20
    refused = {f"{call.right} {call.where}" for call in seen if call.code in (401, 403)}
    assert refused == set()


@pytest.mark.parametrize(
    ("account", "where", "user"),
    [
        ("echelon-controllers", HUB, CONTROLLERS_USER),
        ("echelon-agent", MEMBER, AGENT_USER),
    ],
)
def test_what_is_allowed_and_never_done_is_listed_with_its_reason(
    lived: Installed, account: str, where: str, user: str
) -> None:
    chart = HUB_CHART if where == HUB else MEMBER_CHART
    allowed = granted(chart.manifests(VALUES[chart.name]), account)
    done = {call.right for call in lived.calls(where, user)}
    # Who may list may read each; doubts are settled by reading one, and in most stories there are none.
    done |= {right._replace(verb="get") for right in done if right.verb == "list"}
    listed = _listed(account)
    assert sorted({str(each) for each in allowed - done} - listed.keys()) == []
    assert listed.keys() <= set(map(str, allowed)), "a rule is listed that is no longer there"
    assert all(listed.values())


def _listed(account: str) -> dict[str, str]:
    """Return the rights that stay although the story does not need them, with the reason of each."""
    read = yaml.safe_load(UNUSED.read_text())[account]
    return {
        f"{verb} {resource}": entry["why"]
        for entry in read
        for resource in entry["resources"]
        for verb in entry["verbs"]
    }


def test_one_of_two_processes_leads_and_both_say_so(lived: Installed) -> None:
    def leading() -> list[float]:
        found = []
        for name in ("controllers-1", "controllers-2"):
            with urlopen(f"{lived.metrics_of(name)}/metrics", timeout=30) as answer:  # noqa: S310 - our own
                lines = answer.read().decode().splitlines()
            found += [float(line.split()[-1]) for line in lines if line.startswith("leader_election_master_status{")]
        return sorted(found)

    lived.until(lambda: leading() == [0.0, 1.0], "not exactly one leads")
    for name in ("controllers-1", "controllers-2"):
        with urlopen(f"{lived.metrics_of(name)}/readyz", timeout=30) as answer:  # noqa: S310 - our own
            assert answer.status == 200
