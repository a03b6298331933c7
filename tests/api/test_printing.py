"""Tables of built-in kinds show what `kubectl get` shows for the same objects."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api import apps, autoscaling, batch, core, disruption, events, networking, priorities, rbac, storage
from echelon.api.base import JSONObject
from echelon.api.controller_revisions import CONTROLLER_REVISION
from echelon.api.kinds import Kind
from echelon.api.printing import human_duration, selector_text


def cells(kind: Kind[Any], obj: JSONObject) -> dict[str, Any]:
    return {column.name: column.cell(obj) for column in kind.columns if column.cell is not None}


def container(name: str, **state: Any) -> JSONObject:
    status: JSONObject = {key: state.pop(key) for key in ("ready", "restartCount", "started") if key in state}
    return {"name": name, "state": state, **status}


def pod(*statuses: JSONObject, phase: str = "Running", init: tuple[JSONObject, ...] = (), **more: Any) -> JSONObject:
    return {
        "metadata": {"name": "p", **more.pop("metadata", {})},
        "spec": {
            "containers": [{"name": status["name"]} for status in statuses] or [{"name": "a"}],
            "initContainers": more.pop("init_spec", [{"name": status["name"]} for status in init]),
        },
        "status": {
            "phase": phase,
            "containerStatuses": list(statuses),
            "initContainerStatuses": list(init),
            **more,
        },
    }


READY = [{"type": "Ready", "status": "True"}]
RUNNING: JSONObject = {"running": {}}
DONE: JSONObject = {"terminated": {"exitCode": 0, "reason": "Completed"}}
SIDECAR = [{"name": "s", "restartPolicy": "Always"}]

PODS = {
    "new": (pod(phase="Pending"), "0/1", "Pending", "0"),
    "gated": (
        pod(phase="Pending", conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]),
        "0/1",
        "SchedulingGated",
        "0",
    ),
    "running": (pod(container("a", ready=True, **RUNNING), conditions=READY), "1/1", "Running", "0"),
    "restarted": (pod(container("a", ready=True, restartCount=3, **RUNNING), conditions=READY), "1/1", "Running", "3"),
    "crashing": (
        pod(container("a", restartCount=5, waiting={"reason": "CrashLoopBackOff"})),
        "0/1",
        "CrashLoopBackOff",
        "5",
    ),
    "failed": (pod(container("a", terminated={"exitCode": 2}), phase="Failed"), "0/1", "ExitCode:2", "0"),
    "killed": (pod(container("a", terminated={"exitCode": 137, "signal": 9})), "0/1", "Signal:9", "0"),
    "completed": (pod(container("a", **DONE), phase="Succeeded"), "0/1", "Completed", "0"),
    "one of two completed, ready": (
        pod(container("a", **DONE), container("b", ready=True, **RUNNING), conditions=READY),
        "1/2",
        "Running",
        "0",
    ),
    "one of two completed, not ready": (
        pod(container("a", **DONE), container("b", ready=True, **RUNNING)),
        "1/2",
        "NotReady",
        "0",
    ),
    "the first container has the last word": (
        pod(container("a", waiting={"reason": "ImagePullBackOff"}), container("b", **DONE)),
        "0/2",
        "ImagePullBackOff",
        "0",
    ),
    "initialising": (
        pod(phase="Pending", init=(container("i", **DONE), container("j", **RUNNING))),
        "0/1",
        "Init:1/2",
        "0",
    ),
    "initialisation failed": (
        pod(phase="Pending", init=(container("i", terminated={"exitCode": 1, "reason": "Error"}, restartCount=2),)),
        "0/1",
        "Init:Error",
        "2",
    ),
    "initialisation waits": (
        pod(phase="Pending", init=(container("i", waiting={"reason": "ErrImagePull"}),)),
        "0/1",
        "Init:ErrImagePull",
        "0",
    ),
    "with a sidecar": (
        pod(
            container("a", ready=True, **RUNNING),
            init=(container("s", ready=True, started=True, restartCount=1, **RUNNING),),
            init_spec=SIDECAR,
            conditions=READY,
        ),
        "2/2",
        "Running",
        "1",
    ),
    "ending": (
        pod(container("a", ready=True, **RUNNING), metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        "1/1",
        "Terminating",
        "0",
    ),
    "ended before it was deleted": (
        pod(container("a", **DONE), phase="Succeeded", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        "0/1",
        "Completed",
        "0",
    ),
    "on a lost node": (
        pod(container("a", **RUNNING), metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}, reason="NodeLost"),
        "0/1",
        "Unknown",
        "0",
    ),
    "evicted": (pod(phase="Failed", reason="Evicted"), "0/1", "Evicted", "0"),
}


@pytest.mark.parametrize("name", PODS)
def test_a_pod_shows_ready_status_and_restarts(name: str) -> None:
    obj, *expected = PODS[name]
    shown = cells(core.POD, obj)
    assert [shown["Ready"], shown["Status"], shown["Restarts"]] == expected


def test_a_pod_shows_where_it_is_when_asked_for_more() -> None:
    obj = pod(podIPs=[{"ip": "10.1.0.1"}], conditions=[{"type": "gate", "status": "True"}])
    obj["spec"] |= {"nodeName": "n1", "readinessGates": [{"conditionType": "gate"}, {"conditionType": "other"}]}
    shown = cells(core.POD, obj)
    assert (shown["IP"], shown["Node"], shown["Nominated Node"]) == ("10.1.0.1", "n1", "<none>")
    assert shown["Readiness Gates"] == "1/2"
    assert cells(core.POD, pod())["IP"] == "<none>"


def node(labels: dict[str, str] | None = None, ready: str = "", **spec: Any) -> JSONObject:
    conditions = [{"type": "Ready", "status": ready}] if ready else []
    info = {"kernelVersion": "6.1", "architecture": "arm64"}
    addresses = [{"type": "Hostname", "address": "n"}, {"type": "InternalIP", "address": "10.0.0.9"}]
    status = {"conditions": conditions, "nodeInfo": info, "addresses": addresses}
    return {"metadata": {"name": "n", "labels": labels or {}}, "spec": spec, "status": status}


@pytest.mark.parametrize(
    ("obj", "status"),
    [
        (node(ready="True"), "Ready"),
        (node(ready="False"), "NotReady"),
        (node(ready="Unknown"), "NotReady"),
        (node(), "Unknown"),
        (node(ready="True", unschedulable=True), "Ready,SchedulingDisabled"),
    ],
)
def test_a_node_shows_whether_it_takes_pods(obj: JSONObject, status: str) -> None:
    assert cells(core.NODE, obj)["Status"] == status


def test_a_node_shows_its_roles_and_system() -> None:
    labels = {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/": "x", "kubernetes.io/role": "gpu"}
    shown = cells(core.NODE, node(labels))
    assert shown["Roles"] == "gpu,worker"
    assert cells(core.NODE, node())["Roles"] == "<none>"
    assert shown["Kernel-Version"] == "6.1 (arm64)"
    assert (shown["Internal-IP"], shown["External-IP"], shown["OS-Image"]) == ("10.0.0.9", "<none>", "<unknown>")


def service(type_: str, ingress: tuple[JSONObject, ...] = (), **spec: Any) -> JSONObject:
    return {"spec": {"type": type_, **spec}, "status": {"loadBalancer": {"ingress": list(ingress)}}}


@pytest.mark.parametrize(
    ("obj", "external"),
    [
        (service("ClusterIP"), "<none>"),
        (service("NodePort", externalIPs=["1.1.1.1", "2.2.2.2"]), "1.1.1.1,2.2.2.2"),
        (service("LoadBalancer"), "<pending>"),
        (service("LoadBalancer", ({"ip": "3.3.3.3"},), externalIPs=["1.1.1.1"]), "3.3.3.3,1.1.1.1"),
        (service("LoadBalancer", ({"hostname": "a-long-name.example.com"},)), "a-long-name.e..."),
        (service("ExternalName", externalName="db.example.com"), "db.example.com"),
    ],
)
def test_a_service_shows_where_it_is_reached(obj: JSONObject, external: str) -> None:
    assert cells(core.SERVICE, obj)["External-IP"] == external


def test_a_service_shows_its_ports() -> None:
    ports = [{"port": 80, "protocol": "TCP"}, {"port": 53, "nodePort": 30053, "protocol": "UDP"}]
    shown = cells(
        core.SERVICE, service("NodePort", ports=ports, clusterIPs=["10.0.0.1"], selector={"b": "2", "a": "1"})
    )
    assert (shown["Port(s)"], shown["Cluster-IP"]) == ("80/TCP,53:30053/UDP", "10.0.0.1")
    assert shown["Selector"] == "a=1,b=2"
    assert cells(core.SERVICE, service("ClusterIP"))["Port(s)"] == "<none>"


def test_a_workload_shows_its_numbers_even_before_it_has_a_status() -> None:
    assert cells(apps.DEPLOYMENT, {"spec": {"replicas": 3}})["Ready"] == "0/3"
    shown = cells(apps.DEPLOYMENT, {"spec": {"replicas": 3}, "status": {"readyReplicas": 2, "updatedReplicas": 1}})
    assert (shown["Ready"], shown["Up-to-date"], shown["Available"]) == ("2/3", 1, 0)
    assert cells(apps.REPLICA_SET, {"spec": {}})["Desired"] == 0


def test_a_workload_shows_its_containers_and_selector_when_asked_for_more() -> None:
    template = {"spec": {"containers": [{"name": "a", "image": "x:1"}, {"name": "b", "image": "y:2"}]}}
    obj = {"spec": {"template": template, "selector": {"matchLabels": {"app": "w"}}}}
    shown = cells(apps.DAEMON_SET, obj)
    assert (shown["Containers"], shown["Images"], shown["Selector"]) == ("a,b", "x:1,y:2", "app=w")
    assert shown["Node Selector"] == "<none>"


def test_a_selector_is_written_as_it_is_typed() -> None:
    expressions = [
        {"key": "tier", "operator": "In", "values": ["b", "a"]},
        {"key": "old", "operator": "DoesNotExist"},
        {"key": "new", "operator": "Exists"},
        {"key": "zone", "operator": "NotIn", "values": ["x"]},
    ]
    text = selector_text({"matchLabels": {"app": "w"}, "matchExpressions": expressions})
    assert set(text.split(",")) == {"app=w", "tier in (a", "b)", "!old", "new", "zone notin (x)"}
    assert (selector_text(None), selector_text({})) == ("<none>", "<none>")


def job(*conditions: str, **status: Any) -> JSONObject:
    true = [{"type": type_, "status": "True"} for type_ in conditions]
    return {"metadata": {}, "spec": {"completions": 3}, "status": {"conditions": true, **status}}


@pytest.mark.parametrize(
    ("obj", "status"),
    [
        (job(), "Running"),
        (job("Complete", "SuccessCriteriaMet"), "Complete"),
        (job("Failed"), "Failed"),
        (job("Suspended"), "Suspended"),
        (job("FailureTarget"), "FailureTarget"),
        ({**job(), "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, "Terminating"),
    ],
)
def test_a_job_shows_how_it_ended(obj: JSONObject, status: str) -> None:
    assert cells(batch.JOB, obj)["Status"] == status


def test_a_job_shows_completions_and_duration() -> None:
    times = {"startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:03:05Z"}
    shown = cells(batch.JOB, job("Complete", succeeded=3, **times))
    assert (shown["Completions"], shown["Duration"]) == ("3/3", "3m5s")
    assert cells(batch.JOB, job())["Duration"] == ""
    parallel = {"spec": {"parallelism": 4}, "status": {"succeeded": 1}}
    assert cells(batch.JOB, parallel)["Completions"] == "1/1 of 4"
    assert cells(batch.JOB, {"spec": {"parallelism": 1}})["Completions"] == "0/1"


def test_data_columns_count_keys() -> None:
    assert cells(core.CONFIG_MAP, {"data": {"a": "1"}, "binaryData": {"b": "Mg=="}})["Data"] == 2
    assert cells(core.SECRET, {"data": None})["Data"] == 0


def test_a_claim_shows_its_volume_once_it_is_bound() -> None:
    status = {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"]}
    shown = cells(core.PERSISTENT_VOLUME_CLAIM, {"spec": {"volumeName": "v"}, "status": status})
    assert (shown["Status"], shown["Capacity"], shown["Access Modes"]) == ("Bound", "1Gi", "RWO,RWX")
    assert shown["VolumeAttributesClass"] == "<unset>"
    unbound = cells(core.PERSISTENT_VOLUME_CLAIM, {"spec": {}, "status": status})
    assert (unbound["Capacity"], unbound["Access Modes"]) == ("", "")


def test_an_event_shows_the_same_in_both_apis() -> None:
    about = {"kind": "Pod", "name": "p"}
    old = {"involvedObject": about, "count": 4, "firstTimestamp": "t1", "lastTimestamp": "t2"}
    new = {"regarding": about, "deprecatedCount": 4, "deprecatedFirstTimestamp": "t1", "deprecatedLastTimestamp": "t2"}
    source = {"component": "kubelet", "host": "n1"}
    shown = cells(core.EVENT, {**old, "source": source})
    assert shown == cells(events.EVENT, {**new, "deprecatedSource": source})
    assert shown == {
        "Last Seen": "t2",
        "Object": "pod/p",
        "Source": "kubelet, n1",
        "First Seen": "t1",
        "Count": 4,
    }


def test_a_single_event_and_a_series_show_their_times() -> None:
    single = {"involvedObject": {"kind": "Node"}, "eventTime": "t1", "reportingComponent": "c"}
    shown = cells(core.EVENT, single)
    assert (shown["Last Seen"], shown["Count"], shown["Object"], shown["Source"]) == ("t1", 1, "node", "c")
    series = cells(core.EVENT, {**single, "series": {"count": 9, "lastObservedTime": "t9"}})
    assert (series["Last Seen"], series["First Seen"], series["Count"]) == ("t9", "t1", 9)


def test_a_binding_shows_role_and_subjects() -> None:
    subjects = [
        {"kind": "User", "name": "ann"},
        {"kind": "User", "name": "bob"},
        {"kind": "ServiceAccount", "name": "sa", "namespace": "ns"},
    ]
    shown = cells(rbac.ROLE_BINDING, {"roleRef": {"kind": "Role", "name": "r"}, "subjects": subjects})
    assert shown == {"Role": "Role/r", "Users": "ann, bob", "Groups": "", "ServiceAccounts": "ns/sa"}


def test_a_revision_shows_its_controller() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "controller": True}
    assert cells(CONTROLLER_REVISION, {"metadata": {"ownerReferences": [owner]}})["Controller"] == ("daemonset.apps/d")
    assert cells(CONTROLLER_REVISION, {"metadata": {}})["Controller"] == "<none>"


def test_an_autoscaler_shows_its_metrics() -> None:
    cpu = {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 70}}}
    rate = {"type": "Pods", "pods": {"target": {"averageValue": "10"}}}
    queue = {"type": "External", "external": {"target": {"averageValue": "5"}}}
    target = {"kind": "Deployment", "name": "w"}
    spec = {"scaleTargetRef": target, "minReplicas": 0, "maxReplicas": 5, "metrics": [cpu, rate]}
    seen = [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 55}}}]
    shown = cells(autoscaling.HORIZONTAL_POD_AUTOSCALER, {"spec": spec, "status": {"currentMetrics": seen}})
    assert shown["Targets"] == "cpu: 55%/70%, <unknown>/10"
    assert (shown["Reference"], shown["MinPods"], shown["MaxPods"]) == ("Deployment/w", "0", 5)
    many = cells(autoscaling.HORIZONTAL_POD_AUTOSCALER, {"spec": {**spec, "metrics": [queue, cpu, rate]}})
    assert many["Targets"] == "<unknown>/5 (avg), cpu: <unknown>/70% + 1 more..."


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (600, "10m"),
        (10799, "179m"),
        (10800, "3h"),
        (11460, "3h11m"),
        (28800, "8h"),
        (172800, "2d"),
        (176400, "2d1h"),
        (691200, "8d"),
        (63072000, "2y"),
        (63158400, "2y1d"),
        (252288000, "8y"),
    ],
)
def test_a_duration_is_written_as_kubectl_writes_it(seconds: int, text: str) -> None:
    assert human_duration(seconds) == text


TABLES = [core.POD, core.NODE, core.SERVICE, core.EVENT, core.PERSISTENT_VOLUME_CLAIM, apps.DEPLOYMENT, batch.JOB]


@pytest.mark.parametrize("kind", TABLES, ids=lambda kind: kind.kind)
@given(metadata=st.none() | st.just({}), spec=st.none() | st.just({}), status=st.none() | st.just({}))
def test_a_row_can_always_be_shown(
    kind: Kind[Any], metadata: JSONObject | None, spec: JSONObject | None, status: JSONObject | None
) -> None:
    # A list must not fail because one object has nothing but nulls.
    assert cells(kind, {"metadata": metadata, "spec": spec, "status": status})


HTTP: JSONObject = {"http": {"paths": []}}
EVERYDAY: dict[str, tuple[Kind[Any], JSONObject, JSONObject]] = {
    "an ingress for all": (
        networking.INGRESS,
        {"spec": {"defaultBackend": {}}},
        {"Class": "<none>", "Hosts": "*", "Address": "", "Ports": "80"},
    ),
    "an ingress of many hosts": (
        networking.INGRESS,
        {
            "spec": {"ingressClassName": "f", "rules": [{"host": each, **HTTP} for each in "abcde"], "tls": [{}]},
            "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}, {"hostname": "x"}]}},
        },
        {"Class": "f", "Hosts": "a,b,c + 2 more...", "Address": "10.0.0.1,x", "Ports": "80, 443"},
    ),
    "a class of ingresses": (
        networking.INGRESS_CLASS,
        {"spec": {"parameters": {"apiGroup": "g.example", "kind": "K", "name": "n"}}},
        {"Parameters": "K.g.example/n"},
    ),
    "a network policy": (
        networking.NETWORK_POLICY,
        {"spec": {"podSelector": {"matchLabels": {"app": "web"}}}},
        {"Pod-Selector": "app=web"},
    ),
    "a budget": (
        disruption.POD_DISRUPTION_BUDGET,
        {"spec": {"maxUnavailable": 0}, "status": {"disruptionsAllowed": 2}},
        {"Min Available": "N/A", "Max Unavailable": "0", "Allowed Disruptions": 2},
    ),
    "a class of storage": (storage.STORAGE_CLASS, {"provisioner": "p"}, {"AllowVolumeExpansion": False}),
    "a class of priority": (
        priorities.PRIORITY_CLASS,
        {"value": 7, "globalDefault": True},
        {"Value": 7, "Global-Default": True},
    ),
    "a cron job": (
        batch.CRON_JOB,
        {
            "spec": {
                "schedule": "@daily",
                "suspend": False,
                "jobTemplate": {"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "i"}]}}}},
            },
            "status": {"active": [{}]},
        },
        {
            "Timezone": "<none>",
            "Suspend": "False",
            "Active": 1,
            "Containers": "a",
            "Images": "i",
            "Selector": "<none>",
        },
    ),
}


@pytest.mark.parametrize("name", EVERYDAY)
def test_what_an_application_brings_along_is_shown_as_kubernetes_shows_it(name: str) -> None:
    kind, obj, expected = EVERYDAY[name]
    assert cells(kind, obj) == expected
