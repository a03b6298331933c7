"""The kinds that Kubernetes serves itself have Kubernetes' own fields, list keys and defaults, checked by machine.

Field names come from lightkube's models, which are generated from the OpenAPI description of a newer Kubernetes; merge
behaviour from a table of the same origin. Neither was written with our classes in view.
"""

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec
import pytest
import yaml

from echelon.api import (
    admissionregistration,
    apiextensions,
    apps,
    authentication,
    authorization,
    autoscaling,
    batch,
    coordination,
    core,
    disruption,
    events,
    networking,
    priorities,
    rbac,
    storage,
)
from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.api.pods import Pod
from echelon.api.registry import collect
from echelon.api.schema import schema_of
from echelon.hub.schema.structural import Structural

HERE = Path(__file__).parent
MODULES = (
    core,
    apps,
    batch,
    coordination,
    events,
    rbac,
    apiextensions,
    authentication,
    authorization,
    autoscaling,
    admissionregistration,
    networking,
    disruption,
    storage,
    priorities,
)
KINDS: list[Kind[Any]] = [kind for module in MODULES for kind in module.KINDS]
ALL = [*KINDS, authentication.TOKEN_REQUEST]
LISTS: dict[str, dict[str, str]] = yaml.safe_load((HERE / "spec_tables_builtin" / "lists.yaml").read_text())
SAMPLES = {path.stem: yaml.safe_load(path.read_text()) for path in sorted((HERE / "samples/builtin").glob("*.yaml"))}
PRESERVE = "x-kubernetes-preserve-unknown-fields"


def kind_named(name: str, group: str | None = None) -> Kind[Any]:
    return next(kind for kind in ALL if kind.kind == name and group in (None, kind.group))


# --- fields -----------------------------------------------------------------------------------------------------------


def model_of(kind: Kind[Any]) -> type[msgspec.Struct]:
    """Return lightkube's class for a kind."""
    group = kind.group.removesuffix(".k8s.io").removesuffix(".authorization") or "core"
    module = importlib.import_module(f"lightkube.models.{group}_{kind.version}")
    model: type[msgspec.Struct] = getattr(module, kind.kind)
    return model


def model_fields(model: type[msgspec.Struct]) -> Iterator[tuple[str, Any]]:
    """Yield wire name and type of the fields of a model."""
    for field in msgspec.structs.fields(model):
        yield field.encode_name, bare(field.type)


def is_model(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)


def bare(hint: Any) -> Any:
    """Return a type without Optional."""
    if get_origin(hint) in (Union, UnionType):
        return bare(next(arg for arg in get_args(hint) if arg is not type(None)))
    return hint


def missing(model: type[msgspec.Struct], schema: JSONObject, path: str, inside: tuple[type, ...] = ()) -> Iterator[str]:
    """Yield the paths that a model has and a schema does not know."""
    if (schema.get(PRESERVE) and "properties" not in schema) or model in inside:
        return
    for name, hint in model_fields(model):
        part = schema.get("properties", {}).get(name)
        if part is None:
            yield f"{path}.{name}"
            continue
        while get_origin(hint) in (list, dict) and get_args(hint):
            hint = bare(get_args(hint)[-1])  # noqa: PLW2901 - peeled layer by layer
            part = part.get("items") or part.get("additionalProperties") or {PRESERVE: True}
        if is_model(hint):
            yield from missing(hint, part, f"{path}.{name}", (*inside, model))


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: f"{kind.kind}.{kind.group}")
def test_no_field_of_kubernetes_is_unknown(kind: Kind[Any]) -> None:
    assert list(missing(model_of(kind), schema_of(kind.type, metadata="full"), kind.kind)) == []


def filled(hint: Any, schema: JSONObject) -> Any:
    """Return a value of a model's type with every field set to something that is not its default."""
    hint = bare(hint)
    if schema.get("x-kubernetes-int-or-string"):
        return "7%"
    if schema.get(PRESERVE) and "properties" not in schema:
        return {"any": 1}
    if "items" in schema:
        return [filled((get_args(hint) or (Any,))[-1], schema["items"])]
    if "additionalProperties" in schema:
        return {"key": filled((get_args(hint) or (Any,))[-1], schema["additionalProperties"])}
    if is_model(hint):
        return {name: filled(part, schema["properties"][name]) for name, part in model_fields(hint)}
    # Whatever the field defaults to, this is something else.
    return {"string": "text", "boolean": not schema.get("default", False), "integer": 7, "number": 7.5}[schema["type"]]


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: f"{kind.kind}.{kind.group}")
def test_an_object_with_every_field_survives_decoding_and_encoding(kind: Kind[Any]) -> None:
    document = filled(model_of(kind), schema_of(kind.type, metadata="full"))
    assert document["metadata"]["managedFields"]
    decoded = msgspec.json.decode(msgspec.json.encode(document), type=kind.type)
    assert msgspec.to_builtins(decoded) == without_owners(document)


def without_owners(part: Any) -> Any:
    """Leave out the one field that objects in memory do not have."""
    if isinstance(part, list):
        return [without_owners(each) for each in part]
    if isinstance(part, dict):
        return {name: without_owners(each) for name, each in part.items() if name != "managedFields"}
    return part


def test_nulls_that_servers_write_can_be_read() -> None:
    pod = {"metadata": {"creationTimestamp": None}, "spec": {"containers": [{"name": "a"}]}}
    conditions = [{"type": "Ready", "status": "True", "lastProbeTime": None, "lastTransitionTime": None}]
    msgspec.convert({**pod, "status": {"conditions": conditions}}, Pod)
    msgspec.convert({"metadata": {}, "rules": None}, rbac.ClusterRole)
    event: JSONObject = {
        "metadata": {},
        "involvedObject": {},
        "eventTime": None,
        "firstTimestamp": None,
        "lastTimestamp": None,
    }
    msgspec.convert(event, core.Event)


# --- merging ----------------------------------------------------------------------------------------------------------


def merging(schema: JSONObject) -> str:
    """Say how a list or map merges, in the words of the table."""
    words = [schema.get("x-kubernetes-list-type", "none")] if schema.get("type") == "array" else []
    if "x-kubernetes-list-map-keys" in schema:
        words.append("+".join(schema["x-kubernetes-list-map-keys"]))
    if schema.get("x-kubernetes-map-type") == "atomic":
        words.append("map atomic")
    if strategy := schema.get("x-kubernetes-patch-strategy"):
        words.append(f"| {strategy} {schema.get('x-kubernetes-patch-merge-key', '')}".rstrip())
    return " ".join(words)


def at(schema: JSONObject, path: str) -> JSONObject:
    path, item = (path.removesuffix("/item"), True) if path.endswith("/item") else (path, False)
    for name in path.split("."):
        schema = schema["items"] if schema.get("type") == "array" else schema
        schema = schema["properties"][name.removesuffix("[]")]
    found: JSONObject = schema["items"] if item else schema
    return found


# Newer Kubernetes than the table: it became a list with keys.
CHANGED = {("Pod", "status.nodeAllocatableResourceClaimStatuses[]"): "map resourceClaimName | merge resourceClaimName"}
# Inside what is kept as plain JSON, because nobody writes it any more or it is only reported.
OPAQUE = (
    *("config.", "configSource", "awsElastic", "azure", "cephfs", "cinder", "fc.", "flex", "iscsi", "rbd", "scaleIO"),
    *("storageos", "extendedResourceClaimStatus", "nodeAllocatableResourceClaimStatuses[].", "currentMetrics[]."),
    "[].user.",
)


@pytest.mark.parametrize("kind", LISTS)
def test_lists_merge_as_they_do_in_kubernetes(kind: str) -> None:
    schema = schema_of(kind_named(kind).type, metadata="full")
    expected = {
        path: CHANGED.get((kind, path), merges)
        for path, merges in LISTS[kind].items()
        if not any(part in path for part in OPAQUE)
    }
    assert {path: merging(at(schema, path)) for path in expected} == expected


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job"])
def test_a_pod_template_is_like_a_pod(kind: str) -> None:
    template = at(schema_of(kind_named(kind).type, metadata="full"), "spec.template.spec")
    pod = at(schema_of(Pod, metadata="full"), "spec")
    assert template["properties"] == pod["properties"]


# --- defaults ---------------------------------------------------------------------------------------------------------


def defaulted(document: JSONObject) -> JSONObject:
    structural = Structural(schema_of(kind_named(document["kind"]).type, metadata="full"), builtin=True)
    pruned, unknown = structural.prune(document)
    assert unknown == []
    result: JSONObject = structural.default(pruned)
    return result


CONTAINER = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "resources": {},
}
POD = {
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "terminationGracePeriodSeconds": 30,
}
ROLLING: JSONObject = {"type": "RollingUpdate"}
ADDED: dict[str, JSONObject] = {
    # What a real server adds to each sample, but for what depends on more than the object.
    "good-deployment-web": {
        "progressDeadlineSeconds": 600,
        "revisionHistoryLimit": 10,
        "strategy": ROLLING | {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
    },
    "good-replicaset-web": {"replicas": 1},
    "good-statefulset-db": {
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "podManagementPolicy": "OrderedReady",
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        "updateStrategy": ROLLING | {"rollingUpdate": {"partition": 0}},
    },
    "good-daemonset-agent": {
        "revisionHistoryLimit": 10,
        "updateStrategy": ROLLING | {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
    },
    "good-job-report": {"backoffLimit": 6, "completionMode": "NonIndexed", "manualSelector": False, "suspend": False},
    "good-service-web": {"sessionAffinity": "None", "type": "ClusterIP"},
    "good-persistentvolumeclaim-data": {"volumeMode": "Filesystem"},
    "good-horizontalpodautoscaler-web": {"minReplicas": 1},
    "good-lease-leader": {},
    "good-cronjob-report": {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    },
    "good-ingress-web": {},
    "good-poddisruptionbudget-web": {},
}


@pytest.mark.parametrize("sample", ADDED)
def test_a_spec_gets_the_defaults_that_kubernetes_gives_it(sample: str) -> None:
    given = SAMPLES[sample]["spec"]
    found = defaulted(SAMPLES[sample])["spec"]
    assert {key: found[key] for key in found.keys() - given.keys()} == ADDED[sample]


@pytest.mark.parametrize("sample", [name for name in ADDED if "template" in SAMPLES[name]["spec"]])
def test_a_pod_template_gets_the_defaults_of_pods(sample: str) -> None:
    given = SAMPLES[sample]["spec"]["template"]["spec"]
    found = defaulted(SAMPLES[sample])["spec"]["template"]["spec"]
    assert {key: value for key, value in found.items() if key not in given} == {
        key: value for key, value in POD.items() if key not in given
    }
    assert found["containers"][0].items() >= CONTAINER.items()


def test_a_whole_pod_gets_its_nested_defaults() -> None:
    spec = defaulted(SAMPLES["good-pod-web"])["spec"]
    web, volumes = spec["containers"][0], {volume["name"]: volume for volume in spec["volumes"]}
    assert [port["protocol"] for port in web["ports"]] == ["TCP", "UDP"]
    assert web["env"][1]["valueFrom"]["fieldRef"]["apiVersion"] == "v1"
    assert web["livenessProbe"] == {
        "httpGet": {"port": "http", "path": "/live", "scheme": "HTTP"},
        "initialDelaySeconds": 5,
        "failureThreshold": 3,
        "periodSeconds": 10,
        "successThreshold": 1,
        "timeoutSeconds": 1,
    }
    assert web["readinessProbe"]["grpc"] == {"port": 9090, "service": ""}
    assert volumes["config"]["configMap"]["defaultMode"] == 0o644
    assert volumes["token"]["projected"]["sources"][0]["serviceAccountToken"]["expirationSeconds"] == 3600
    assert volumes["host"]["hostPath"]["type"] == ""


def test_a_strategy_of_another_type_gets_no_rolling_limits() -> None:
    document = msgspec.convert(SAMPLES["good-deployment-web"], dict[str, Any])
    document = {**document, "spec": {**document["spec"], "strategy": {"type": "Recreate"}}}
    assert defaulted(document)["spec"]["strategy"] == {"type": "Recreate"}


# --- how kinds are served ---------------------------------------------------------------------------------------------

SERVED = {
    # kind: short names, in `kubectl get all`, namespaced, status, scale
    "Namespace": ("ns", False, False, True, False),
    "ConfigMap": ("cm", False, True, False, False),
    "Secret": ("", False, True, False, False),
    "ServiceAccount": ("sa", False, True, False, False),
    "Node": ("no", False, False, True, False),
    "Pod": ("po", True, True, True, False),
    "Service": ("svc", True, True, True, False),
    "PersistentVolumeClaim": ("pvc", False, True, True, False),
    "Event": ("ev", False, True, False, False),
    "Deployment": ("deploy", True, True, True, True),
    "ReplicaSet": ("rs", True, True, True, True),
    "StatefulSet": ("sts", True, True, True, True),
    "DaemonSet": ("ds", True, True, True, False),
    "ControllerRevision": ("", False, True, False, False),
    "Job": ("", True, True, True, False),
    "Lease": ("", False, True, False, False),
    "Role": ("", False, True, False, False),
    "ClusterRole": ("", False, False, False, False),
    "RoleBinding": ("", False, True, False, False),
    "ClusterRoleBinding": ("", False, False, False, False),
    "CustomResourceDefinition": ("crd,crds", False, False, True, False),
    "ValidatingAdmissionPolicy": ("", False, False, True, False),
    "ValidatingAdmissionPolicyBinding": ("", False, False, False, False),
    "TokenReview": ("", False, False, False, False),
    "SelfSubjectReview": ("", False, False, False, False),
    "SubjectAccessReview": ("", False, False, False, False),
    "SelfSubjectAccessReview": ("", False, False, False, False),
    "LocalSubjectAccessReview": ("", False, True, False, False),
    "SelfSubjectRulesReview": ("", False, False, False, False),
    "HorizontalPodAutoscaler": ("hpa", True, True, True, False),
    "CronJob": ("cj", True, True, True, False),
    "Ingress": ("ing", False, True, True, False),
    "IngressClass": ("", False, False, False, False),
    "NetworkPolicy": ("netpol", False, True, False, False),
    "PodDisruptionBudget": ("pdb", False, True, True, False),
    "StorageClass": ("sc", False, False, False, False),
    "PriorityClass": ("pc", False, False, False, False),
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.kind}.{kind.group}")
def test_a_kind_is_served_as_kubernetes_serves_it(kind: Kind[Any]) -> None:
    assert SERVED[kind.kind] == (
        ",".join(kind.short_names),
        "all" in kind.categories,
        kind.namespaced,
        kind.status,
        kind.scale is not None,
    )
    assert kind.builtin


def test_no_two_kinds_claim_one_name() -> None:
    assert collect(KINDS).kinds == tuple(KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.kind}.{kind.group}")
def test_a_kind_names_itself(kind: Kind[Any]) -> None:
    defaults = {field.encode_name: field.default for field in msgspec.structs.fields(kind.type)}
    assert (defaults["apiVersion"], defaults["kind"]) == (kind.api_version, kind.kind)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.kind}.{kind.group}")
def test_every_field_is_described(kind: Kind[Any]) -> None:
    def undescribed(schema: JSONObject, path: str) -> Iterator[str]:
        for name, part in schema.get("properties", {}).items():
            text = part.get("description", "")
            if name not in ("apiVersion", "kind", "metadata") and not text.endswith("."):
                yield f"{path}.{name}"
            yield from undescribed(part.get("items", part), f"{path}.{name}")

    assert list(undescribed(schema_of(kind.type), kind.kind)) == []
