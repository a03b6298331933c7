"""A session with a real kubectl: each command that a user tries first, against the embedded hub."""

import json
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from tests.hub.conftest import HubProcess, Kubectl

pytestmark = pytest.mark.full

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {app: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: main, image: "nginx:1.29", ports: [{containerPort: 80}]}
      - {name: side, image: "busybox:1.37"}
"""
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, labels: {tier: a}}\ndata: {color: blue}\n"
OTHER_CONFIG = CONFIG.replace("settings", "others").replace("tier: a", "tier: b")


def owned(name: str, owner: str, uid: str, *, block: bool = True) -> str:
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": owner,
        "uid": uid,
        "blockOwnerDeletion": block,
    }
    return yaml.safe_dump(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": [reference]}}
    )


def uid_of(k: Kubectl, *what: str) -> str:
    return k("get", *what, "-o", "jsonpath={.metadata.uid}")


def test_api_resources_lists_built_in_and_custom_kinds(k: Kubectl) -> None:
    printed = k("api-resources")
    assert "deployments" in printed
    row = next(line.split() for line in printed.splitlines() if line.startswith("managedclusters "))
    assert row == ["managedclusters", "mcl,mcls", "cluster.open-cluster-management.io/v1", "false", "ManagedCluster"]
    assert "managedclusters " not in k("api-resources", "--namespaced=true")
    assert "apps/v1" in k("api-versions")


def test_version_names_the_server(k: Kubectl) -> None:
    assert "Server Version: v1." in k("version")


def test_create_get_and_delete(k: Kubectl) -> None:
    assert "configmap/settings created" in k("create", "-f", "-", stdin=CONFIG)
    assert "AlreadyExists" in k("create", "-f", "-", stdin=CONFIG, code=1)
    assert k("get", "cm", "settings", "-o", "jsonpath={.data.color}") == "blue"
    assert yaml.safe_load(k("get", "cm", "settings", "-o", "yaml"))["data"] == {"color": "blue"}
    assert "settings" in k("get", "configmaps", "-o", "name")
    assert 'configmap "settings" deleted' in k("delete", "cm", "settings")
    assert "NotFound" in k("get", "cm", "settings", code=1)


@pytest.mark.parametrize(
    "arguments",
    [
        ("namespace", "imperative"),
        ("configmap", "made", "--from-literal=a=b"),
        ("secret", "generic", "hidden", "--from-literal=password=x"),
        ("serviceaccount", "robot"),
        ("role", "reader", "--verb=get,list", "--resource=pods"),
        ("rolebinding", "readers", "--role=reader", "--user=jane"),
        ("clusterrole", "inspector", "--verb=get", "--resource=nodes"),
        ("deployment", "made", "--image=nginx", "--replicas=2"),
        ("job", "made", "--image=busybox"),
        ("service", "clusterip", "made", "--tcp=80:8080"),
    ],
    ids=lambda arguments: arguments[0] if isinstance(arguments, tuple) else str(arguments),
)
def test_imperative_create(k: Kubectl, arguments: tuple[str, ...]) -> None:
    if arguments[0] == "rolebinding":
        k("create", "role", "reader", "--verb=get", "--resource=pods")
    printed = k("create", *arguments)
    assert "created" in printed
    name = arguments[2] if arguments[0] in ("secret", "service") else arguments[1]
    assert name in k("get", arguments[0], "-o", "name")
    k("delete", arguments[0], name)


def test_get_wide_shows_more_columns(k: Kubectl) -> None:
    k("apply", "-f", "-", stdin=DEPLOYMENT)
    plain, wide = k("get", "deploy"), k("get", "deploy", "-o", "wide")
    assert plain.split("\n")[0].split() == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    assert "0/3" in plain
    assert "CONTAINERS" in wide
    assert "nginx:1.29,busybox:1.37" in wide


def test_selectors_and_all_namespaces(k: Kubectl) -> None:
    k("create", "-f", "-", stdin=f"{CONFIG}---\n{OTHER_CONFIG}")
    assert k("get", "cm", "-l", "tier=a", "-o", "name").split() == ["configmap/settings"]
    assert k("get", "cm", "-l", "tier in (b),!x", "-o", "name").split() == ["configmap/others"]
    assert k("get", "cm", "--field-selector", "metadata.name=others", "-o", "name").split() == ["configmap/others"]
    assert k.namespace in k("get", "cm", "-A", "--field-selector", "metadata.name=others")
    assert "unable to parse requirement" in k("get", "cm", "-l", "tier in b", code=1)
    assert "is not a known field selector" in k("get", "cm", "--field-selector", "data.color=blue", code=1)


def test_get_in_chunks_returns_everything(k: Kubectl) -> None:
    documents = "---\n".join(CONFIG.replace("settings", f"settings-{i:03}") for i in range(25))
    k("create", "-f", "-", stdin=documents)
    assert len(k("get", "cm", "--chunk-size=4", "-o", "name").split()) == 25


def test_watch_prints_changes(k: Kubectl) -> None:
    k("create", "-f", "-", stdin=CONFIG)
    command = [k.program, "--kubeconfig", str(k.kubeconfig), "-n", k.namespace, "get", "cm", "-w", "--no-headers"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        try:
            assert watching.stdout.readline().startswith("settings")
            k("create", "-f", "-", stdin=OTHER_CONFIG)
            assert watching.stdout.readline().startswith("others")
        finally:
            watching.terminate()


def test_apply_keeps_what_it_does_not_mention(k: Kubectl) -> None:
    assert "created" in k("apply", "-f", "-", stdin=DEPLOYMENT)
    assert "unchanged" in k("apply", "-f", "-", stdin=DEPLOYMENT)
    k("scale", "deploy", "web", "--replicas=7")
    changed = DEPLOYMENT.replace("  replicas: 3\n", "").replace("nginx:1.29", "nginx:1.30")
    assert "configured" in k("apply", "-f", "-", stdin=changed)
    # The first apply owned replicas and the second does not mention them, so they go back to the default.
    assert k("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}") == "1"
    images = k("get", "deploy", "web", "-o", "jsonpath={.spec.template.spec.containers[*].image}")
    assert images == "nginx:1.30 busybox:1.37"


def test_apply_of_a_custom_resource(k: Kubectl) -> None:
    placement = {
        "apiVersion": "cluster.open-cluster-management.io/v1beta1",
        "kind": "Placement",
        "metadata": {"name": "eu"},
        "spec": {"numberOfClusters": 3},
    }
    assert "created" in k("apply", "-f", "-", stdin=yaml.safe_dump(placement))
    placement["spec"] = {"numberOfClusters": 4}
    assert "configured" in k("apply", "-f", "-", stdin=yaml.safe_dump(placement))
    assert k("get", "placement", "eu", "-o", "jsonpath={.spec.numberOfClusters} {.metadata.generation}") == "4 2"


def test_server_side_apply_shows_conflicts(k: Kubectl) -> None:
    assert "serverside-applied" in k("apply", "--server-side", "--field-manager=one", "-f", "-", stdin=CONFIG)
    other = CONFIG.replace("blue", "red")
    refused = k("apply", "--server-side", "--field-manager=two", "-f", "-", stdin=other, code=1)
    assert 'conflict with "one": .data.color' in refused
    k("apply", "--server-side", "--field-manager=two", "--force-conflicts", "-f", "-", stdin=other)
    managers = k(
        "get", "cm", "settings", "--show-managed-fields", "-o", "jsonpath={.metadata.managedFields[*].manager}"
    )
    assert "two" in managers
    assert k("get", "cm", "settings", "-o", "jsonpath={.data.color}") == "red"


def test_diff_tells_what_would_change_and_changes_nothing(k: Kubectl) -> None:
    k("apply", "-f", "-", stdin=CONFIG)
    printed = k("diff", "-f", "-", stdin=CONFIG.replace("blue", "red"), code=1)
    assert "-  color: blue" in printed
    assert "+  color: red" in printed
    assert k("get", "cm", "settings", "-o", "jsonpath={.data.color}") == "blue"
    k("diff", "-f", "-", stdin=CONFIG)


def test_dry_run_stores_nothing(k: Kubectl) -> None:
    assert "created (server dry run)" in k("create", "--dry-run=server", "-f", "-", stdin=CONFIG)
    assert "NotFound" in k("get", "cm", "settings", code=1)


def test_edit(k: Kubectl, tmp_path: Path) -> None:
    k("create", "-f", "-", stdin=CONFIG)
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/color: blue/color: green/' \"$1\"\n")
    editor.chmod(0o755)
    editing = Kubectl(k.program, k.kubeconfig, k.namespace, {"KUBE_EDITOR": str(editor)})
    assert "edited" in editing("edit", "cm", "settings")
    assert k("get", "cm", "settings", "-o", "jsonpath={.data.color}") == "green"


def test_three_kinds_of_patch(k: Kubectl) -> None:
    k("apply", "-f", "-", stdin=DEPLOYMENT)
    strategic = '{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"busybox:2"}]}}}}'
    k("patch", "deploy", "web", "--type=strategic", "-p", strategic)
    images = "jsonpath={.spec.template.spec.containers[*].image}"
    assert k("get", "deploy", "web", "-o", images) == "nginx:1.29 busybox:2"
    k("patch", "deploy", "web", "--type=merge", "-p", '{"metadata":{"labels":{"team":"x"}}}')
    assert k("get", "deploy", "web", "-o", "jsonpath={.metadata.labels.team}") == "x"
    k("patch", "deploy", "web", "--type=json", "-p", '[{"op":"replace","path":"/spec/replicas","value":2}]')
    assert k("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}") == "2"
    k("patch", "deploy", "web", "--subresource=status", "--type=merge", "-p", '{"status":{"replicas":2}}')
    assert k("get", "deploy", "web", "-o", "jsonpath={.status.replicas}") == "2"


def test_replace_needs_the_present_version(k: Kubectl) -> None:
    k("create", "-f", "-", stdin=CONFIG)
    old = k("get", "cm", "settings", "-o", "yaml")
    assert "replaced" in k("replace", "-f", "-", stdin=CONFIG.replace("blue", "red"))
    assert "the object has been modified" in k("replace", "-f", "-", stdin=old.replace("blue", "pink"), code=1)


def test_scale_built_in_and_custom(k: Kubectl) -> None:
    k("apply", "-f", "-", stdin=DEPLOYMENT)
    assert "scaled" in k("scale", "deploy", "web", "--replicas=5")
    assert k("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}") == "5"
    clone_set = DEPLOYMENT.replace("apps/v1", "apps.kruise.io/v1alpha1").replace("kind: Deployment", "kind: CloneSet")
    k("apply", "-f", "-", stdin=clone_set)
    assert "scaled" in k("scale", "clonesets.apps.kruise.io", "web", "--replicas=6")
    assert k("get", "clonesets.apps.kruise.io", "web", "-o", "jsonpath={.spec.replicas}") == "6"


def test_label_and_annotate(k: Kubectl) -> None:
    k("create", "-f", "-", stdin=CONFIG)
    assert "labeled" in k("label", "cm", "settings", "team=x")
    assert "annotated" in k("annotate", "cm", "settings", "note=y")
    k("label", "cm", "settings", "tier-")
    meta = json.loads(k("get", "cm", "settings", "-o", "json"))["metadata"]
    assert meta["labels"] == {"team": "x"}
    assert meta["annotations"] == {"note": "y"}


def test_wait_for_a_condition(k: Kubectl) -> None:
    k("apply", "-f", "-", stdin=DEPLOYMENT)
    command = [k.program, "--kubeconfig", str(k.kubeconfig), "-n", k.namespace]
    waiting = [*command, "wait", "--for=condition=Available", "deploy/web", "--timeout=30s"]
    with subprocess.Popen(waiting, stdout=subprocess.PIPE, text=True) as process:
        available = {"type": "Available", "status": "True", "reason": "Enough", "message": ""}
        k(
            "patch",
            "deploy",
            "web",
            "--subresource=status",
            "--type=merge",
            "-p",
            json.dumps({"status": {"conditions": [available]}}),
        )
        assert process.wait(timeout=30) == 0
    k("wait", "--for=condition=Established", "crd/placements.cluster.open-cluster-management.io")
    k("wait", "--for=jsonpath={.spec.replicas}=3", "deploy/web")


def test_delete_in_the_background_removes_dependents(k: Kubectl) -> None:
    k("create", "-f", "-", stdin=CONFIG)
    k("create", "-f", "-", stdin=owned("child", "settings", uid_of(k, "cm", "settings")))
    k("create", "-f", "-", stdin=owned("grandchild", "child", uid_of(k, "cm", "child")))
    k("delete", "cm", "settings")
    k("wait", "--for=delete", "cm/child", "cm/grandchild", "--timeout=30s")


def test_delete_in_the_foreground_waits_for_dependents(k: Kubectl) -> None:
    k("create", "-f", "-", stdin=CONFIG)
    k("create", "-f", "-", stdin=owned("child", "settings", uid_of(k, "cm", "settings")))
    k("patch", "cm", "child", "--type=merge", "-p", '{"metadata":{"finalizers":["example.com/hold"]}}')
    k("delete", "cm", "settings", "--cascade=foreground", "--wait=false")
    k("wait", "--for=jsonpath={.metadata.deletionTimestamp}", "cm/child", "--timeout=30s")
    assert "foregroundDeletion" in k("get", "cm", "settings", "-o", "jsonpath={.metadata.finalizers}")
    k("patch", "cm", "child", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    k("wait", "--for=delete", "cm/child", "cm/settings", "--timeout=30s")


def test_delete_with_orphan_leaves_dependents_free(k: Kubectl) -> None:
    k("create", "-f", "-", stdin=CONFIG)
    k("create", "-f", "-", stdin=owned("child", "settings", uid_of(k, "cm", "settings")))
    k("delete", "cm", "settings", "--cascade=orphan")
    assert k("get", "cm", "child", "-o", "jsonpath={.metadata.ownerReferences}") == ""


def test_explain(k: Kubectl) -> None:
    printed = k("explain", "placement.spec.decisionStrategy.groupStrategy.clustersPerDecisionGroup")
    assert "KIND:       Placement" in printed
    assert "DESCRIPTION:\n" in printed
    assert "groupStrategy" in k("explain", "placement.spec.decisionStrategy", "--recursive")
    assert "maxUnavailable" in k("explain", "deployment.spec.strategy.rollingUpdate")
    assert 'field "nonsense" does not exist' in k("explain", "placement.spec.nonsense", code=1)


def test_auth(k: Kubectl) -> None:
    assert k("auth", "can-i", "create", "pods").strip() == "yes"
    assert k("auth", "can-i", "create", "pods", "--as=nobody", code=1).strip() == "no"
    k("create", "role", "reader", "--verb=get,list", "--resource=configmaps")
    k("create", "rolebinding", "readers", "--role=reader", "--user=jane")
    assert k("auth", "can-i", "list", "configmaps", "--as=jane").strip() == "yes"
    assert "configmaps" in k("auth", "can-i", "--list", "--as=jane")
    refused = k("delete", "cm", "x", "--as=jane", code=1)
    assert 'User "jane" cannot delete resource "configmaps" in API group "" in the namespace' in refused
    assert "echelon-admin" in k("auth", "whoami")


def test_service_account_token_is_good_for_what_its_role_allows(k: Kubectl) -> None:
    k("create", "serviceaccount", "robot")
    k("create", "role", "reader", "--verb=list", "--resource=configmaps")
    k("create", "rolebinding", "robots", "--role=reader", f"--serviceaccount={k.namespace}:robot")
    token = k("create", "token", "robot").strip()
    k("get", "cm", "--token", token, "--user", "")
    assert "Forbidden" in k("get", "secrets", "--token", token, "--user", "", code=1)


def test_describe_and_events(k: Kubectl) -> None:
    k("apply", "-f", "-", stdin=DEPLOYMENT)
    uid = uid_of(k, "deploy", "web")
    involved = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": k.namespace, "uid": uid}
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "web.1"},
        "regarding": involved,
        "reason": "ScalingReplicaSet",
        "note": "Scaled up",
        "type": "Normal",
        "action": "Scale",
        "eventTime": "2026-11-01T10:00:00.000000Z",
        "reportingController": "deployment-controller",
        "reportingInstance": "one",
    }
    k("create", "-f", "-", stdin=yaml.safe_dump(event))
    printed = k("describe", "deploy", "web")
    assert "nginx:1.29" in printed
    assert "Scaled up" in printed
    assert "ScalingReplicaSet" in k("get", "events")
    assert "Scaled up" in k("events", "--for", "deployment/web")
    assert "Spec:" in k("describe", "crd", "placements.cluster.open-cluster-management.io")


def test_namespace_deletion_takes_its_contents(k: Kubectl) -> None:
    k("create", "namespace", "short-lived")
    k("create", "-n", "short-lived", "-f", "-", stdin=CONFIG)
    k("delete", "namespace", "short-lived", "--timeout=30s")
    assert "NotFound" in k("get", "cm", "settings", "-n", "short-lived", code=1)
    assert 'namespaces "short-lived" not found' in k("create", "-n", "short-lived", "-f", "-", stdin=CONFIG, code=1)
    assert "this namespace may not be deleted" in k("delete", "namespace", "default", code=1)


def test_deleting_a_crd_takes_its_objects(k: Kubectl) -> None:
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {
                                "spec": {
                                    "type": "object",
                                    "properties": {"size": {"type": "integer", "default": 3}},
                                    "x-kubernetes-validations": [
                                        {"rule": "self.size < 10", "message": "must be small"},
                                        {"rule": "self.size >= oldSelf.size", "message": "must not shrink"},
                                    ],
                                }
                            },
                        }
                    },
                }
            ],
        },
    }
    widget = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: one}\nspec: {}\n"
    k("apply", "-f", "-", stdin=yaml.safe_dump(crd))
    k("create", "-f", "-", stdin=widget)
    assert k("get", "widget", "one", "-o", "jsonpath={.spec.size}") == "3"
    assert "must be small" in k("patch", "widget", "one", "--type=merge", "-p", '{"spec":{"size":11}}', code=1)
    assert "must not shrink" in k("patch", "widget", "one", "--type=merge", "-p", '{"spec":{"size":2}}', code=1)
    unknown = widget.replace("spec: {}", "spec: {sise: 4}").replace("one", "two")
    assert 'unknown field "spec.sise"' in k("create", "-f", "-", stdin=unknown, code=1)
    assert 'unknown field "spec.sise"' in k("create", "--validate=warn", "-f", "-", stdin=unknown)
    k("delete", "crd", "widgets.example.com", "--timeout=30s")
    assert "NotFound" in k("get", "--raw", "/apis/example.com/v1/widgets", code=1)


def test_logical_clusters_are_separate(k: Kubectl) -> None:
    k("create", "-f", "-", stdin=CONFIG)
    assert "echelon-member" in k("config", "get-contexts", "-o", "name")
    assert "NotFound" in k("--context", "echelon-member", "get", "cm", "settings", code=1)
    assert "doesn't have a resource type" in k("--context", "echelon-member", "get", "placements", code=1)
    k("--context", "echelon-member", "create", "-n", "default", "-f", "-", stdin=OTHER_CONFIG)
    assert "NotFound" in k("get", "cm", "others", "-n", "default", code=1)


def test_stops_cleanly_on_sigterm_with_a_watch_open(tmp_path: Path, kubectl: str) -> None:
    running = HubProcess(tmp_path, ["--data", str(tmp_path / "data")])
    running.start()
    command = [kubectl, "--kubeconfig", str(running.kubeconfig), "get", "namespaces", "-w"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        watching.stdout.readline()
        began = time.monotonic()
        assert running.stop() == 0, running.log()
        watching.terminate()
    assert time.monotonic() - began < 20
    assert "Traceback" not in running.log()
