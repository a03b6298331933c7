from typing import Any

import pytest

from echelon.fleet.member.decide.scheduling import NodeView, Requests, Usage, choose, demand_of, requests_of

GIB = 1 << 30


def a_node(name: str, **more: Any) -> NodeView:
    return NodeView(name, more.pop("labels", {}), more.pop("room", (4000, 8 * GIB, 10)), **more)


def a_pod(cpu: str = "1", **spec: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}], **spec}


def test_requests_are_those_of_all_containers_or_of_the_hungriest_init_container() -> None:
    spec = a_pod("500m", initContainers=[{"name": "i", "resources": {"requests": {"cpu": "2"}}}])
    spec["containers"].append({"name": "d", "resources": {"requests": {"cpu": "0.25"}}})
    assert requests_of(spec) == Requests(2000, GIB)


def test_the_emptiest_node_is_taken_and_ties_go_by_name() -> None:
    nodes = [a_node("b"), a_node("a")]
    pod = a_pod()
    assert choose(demand_of(pod), nodes, {})[0] == "a"
    assert choose(demand_of(pod), nodes, {"a": Usage(1000, GIB, 1)})[0] == "b"


@pytest.mark.parametrize(
    ("node", "pod", "why"),
    [
        (a_node("a", room=(500, GIB, 10)), a_pod(), "Insufficient cpu"),
        (a_node("a", room=(5000, 1, 10)), a_pod(), "Insufficient memory"),
        (a_node("a", room=(5000, GIB, 0)), a_pod(), "Too many pods"),
        (a_node("a", cordoned=True), a_pod(), "node(s) were unschedulable"),
        (a_node("a", taints=(("gpu", "yes", "NoSchedule"),)), a_pod(), "node(s) had untolerated taint {gpu: yes}"),
        (a_node("a"), a_pod(nodeSelector={"disk": "ssd"}), "node(s) didn't match Pod's node affinity/selector"),
    ],
)
def test_a_pod_without_a_node_is_told_why(node: NodeView, pod: dict[str, Any], why: str) -> None:
    chosen, said = choose(demand_of(pod), [node], {})
    assert chosen == ""
    assert said.startswith(f"0/1 nodes are available: 1 {why}.")


def test_tolerations_open_tainted_nodes() -> None:
    node = a_node("a", taints=(("gpu", "yes", "NoSchedule"), ("soft", "", "PreferNoSchedule")))
    equal = a_pod(tolerations=[{"key": "gpu", "value": "yes"}])
    exists = a_pod(tolerations=[{"operator": "Exists"}])
    other = a_pod(tolerations=[{"key": "gpu", "value": "no"}])
    assert [choose(demand_of(pod), [node], {})[0] for pod in (equal, exists, other)] == ["a", "a", ""]


GPU = "nvidia.com/gpu"


def with_gpus(number: int | str) -> dict[str, Any]:
    return {"containers": [{"name": "c", "resources": {"limits": {GPU: number}}}]}


def test_any_resource_is_counted_by_its_name() -> None:
    pod = demand_of(with_gpus(2))
    assert pod.requests.others == ((GPU, 2),)
    node = a_node("a", others={GPU: 4})
    used = Usage()
    used.add(pod.requests)
    assert choose(pod, [node], {"a": used})[0] == "a"
    used.add(pod.requests)
    assert choose(pod, [node], {"a": used})[1].startswith(f"0/1 nodes are available: 1 Insufficient {GPU}.")
    used.add(pod.requests, -1)
    assert choose(pod, [node], {"a": used})[0] == "a"
    assert choose(pod, [a_node("b")], {})[0] == ""


def test_a_node_tells_everything_that_it_lacks() -> None:
    pod = demand_of({"containers": [{"name": "c", "resources": {"requests": {"cpu": "9", GPU: 1}}}]})
    said = choose(pod, [a_node("a"), a_node("b", others={GPU: 1})], {})[1]
    assert said.startswith(f"0/2 nodes are available: 2 Insufficient cpu, 1 Insufficient {GPU}.")


def test_sidecars_go_on_and_other_init_containers_do_not() -> None:
    def container(cpu: str, **more: Any) -> dict[str, Any]:
        return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}

    sidecar = container("1", restartPolicy="Always")
    assert requests_of({"containers": [container("2")], "initContainers": [sidecar]}).cpu == 3000
    assert requests_of({"containers": [container("2")], "initContainers": [sidecar, container("4")]}).cpu == 5000
    assert requests_of({"containers": [container("2")], "initContainers": [container("4"), sidecar]}).cpu == 4000


def test_storage_that_no_node_tells_of_keeps_nobody_away() -> None:
    asks = demand_of({"containers": [{"name": "c", "resources": {"requests": {"ephemeral-storage": "1Gi"}}}]})
    assert choose(asks, [a_node("a")], {})[0] == "a"
    assert choose(asks, [a_node("a", others={"ephemeral-storage": GIB - 1})], {})[0] == ""
