from typing import Any

import pytest

from echelon.fleet.member.decide.scheduling import NodeView, Usage, choose, requests_of

GIB = 1 << 30


def a_node(name: str, **more: Any) -> NodeView:
    return NodeView(name, more.pop("labels", {}), more.pop("room", (4000, 8 * GIB, 10)), **more)


def a_pod(cpu: str = "1", **spec: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}], **spec}


def test_requests_are_those_of_all_containers_or_of_the_hungriest_init_container() -> None:
    spec = a_pod("500m", initContainers=[{"name": "i", "resources": {"requests": {"cpu": "2"}}}])
    spec["containers"].append({"name": "d", "resources": {"requests": {"cpu": "0.25"}}})
    assert requests_of(spec) == (2000, GIB)


def test_the_emptiest_node_is_taken_and_ties_go_by_name() -> None:
    nodes = [a_node("b"), a_node("a")]
    pod = a_pod()
    assert choose(pod, requests_of(pod), nodes, {})[0] == "a"
    assert choose(pod, requests_of(pod), nodes, {"a": Usage(1000, GIB, 1)})[0] == "b"


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
    chosen, said = choose(pod, requests_of(pod), [node], {})
    assert chosen == ""
    assert said.startswith(f"0/1 nodes are available: 1 {why}.")


def test_tolerations_open_tainted_nodes() -> None:
    node = a_node("a", taints=(("gpu", "yes", "NoSchedule"), ("soft", "", "PreferNoSchedule")))
    equal = a_pod(tolerations=[{"key": "gpu", "value": "yes"}])
    exists = a_pod(tolerations=[{"operator": "Exists"}])
    other = a_pod(tolerations=[{"key": "gpu", "value": "no"}])
    assert [choose(pod, (1, 1), [node], {})[0] for pod in (equal, exists, other)] == ["a", "a", ""]
