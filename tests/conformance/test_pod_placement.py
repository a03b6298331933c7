"""Scheduling gates and tolerations of pods: what the server fills in, and what it refuses."""

from typing import Any

import pytest

from echelon.api import core
from echelon.kube.client import Client, MergePatch
from echelon.kube.errors import Invalid
from tests.conformance.asking import Document, refusal, refused_fields

POD = core.POD.untyped()
ZONE = {"key": "zone", "operator": "In", "values": ["a"]}
DISK = {"key": "disk", "operator": "Exists"}


def gated(*gates: str, name: str = "p", **spec: Any) -> Document:
    spec = {"containers": [{"name": "c", "image": "i:1"}], "schedulingGates": [{"name": g} for g in gates], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def required(*terms: list[Document]) -> Document:
    listed = {"nodeSelectorTerms": [{"matchExpressions": each} for each in terms]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": listed}}


async def test_a_gated_pod_says_so_from_its_creation_on(client: Client, namespace: str) -> None:
    made = await client.create(POD, gated("a/b"), namespace)
    (condition,) = made["status"]["conditions"]
    assert {name: value for name, value in condition.items() if value is not None} == {
        "type": "PodScheduled",
        "status": "False",
        "lastTransitionTime": made["metadata"]["creationTimestamp"],
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }


async def test_a_pod_without_gates_has_no_conditions_yet(client: Client, namespace: str) -> None:
    assert "conditions" not in (await client.create(POD, gated(), namespace))["status"]


async def test_gates_may_be_removed_in_any_order_and_never_added(client: Client, namespace: str) -> None:
    async def leave(*gates: str) -> Document:
        patch = MergePatch({"spec": {"schedulingGates": [{"name": gate} for gate in gates] or None}})
        return await client.patch(POD, "p", patch, namespace)

    await client.create(POD, gated("a/1", "a/2"), namespace)
    with pytest.raises(Invalid, match=r"schedulingGates\[1\]\S*: Forbidden: only deletion is allowed, .* gate 'a/3'"):
        await leave("a/1", "a/3")
    assert (await leave("a/2"))["spec"]["schedulingGates"] == [{"name": "a/2"}]
    with pytest.raises(Invalid, match="found new scheduling gate 'a/1'"):
        await leave("a/1")
    assert not (await leave())["spec"].get("schedulingGates")
    with pytest.raises(Invalid, match="found new scheduling gate 'a/2'"):
        await leave("a/2")


async def test_a_gated_pod_has_no_node(client: Client, namespace: str) -> None:
    with pytest.raises(Invalid, match=r"spec.nodeName: Forbidden: cannot be set until all schedulingGates have been"):
        await client.create(POD, gated("a/b", nodeName="n"), namespace)


async def test_a_gated_pod_may_be_narrowed_down_and_not_moved_elsewhere(client: Client, namespace: str) -> None:
    async def change(**spec: Any) -> Document:
        return await client.patch(POD, "p", MergePatch({"spec": spec}), namespace)

    await client.create(POD, gated("a/b", nodeSelector={"os": "linux"}, affinity=required([ZONE])), namespace)
    await change(nodeSelector={"gpu": "yes"}, affinity=required([ZONE, DISK]))
    with pytest.raises(Invalid, match=r"only additions to spec.nodeSelector are allowed \(no mutations or deletions\)"):
        await change(nodeSelector={"os": "windows"})
    terms = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    for moved, field in ((required([DISK]), f"{terms}[0]"), (required([ZONE, DISK], [ZONE]), terms)):
        error = await refusal(change(affinity=moved))
        assert [name for name, _ in refused_fields(error)] == [field]


async def test_where_a_gated_pod_may_go_is_open_until_it_says_so(client: Client, namespace: str) -> None:
    await client.create(POD, gated("a/b"), namespace)
    patch = MergePatch({"spec": {"affinity": required([ZONE], [DISK])}})
    assert (await client.patch(POD, "p", patch, namespace))["spec"]["affinity"] == required([ZONE], [DISK])


async def test_without_gates_the_place_is_fixed(client: Client, namespace: str) -> None:
    await client.create(POD, gated("a/b"), namespace)
    await client.patch(POD, "p", MergePatch({"spec": {"schedulingGates": None}}), namespace)
    with pytest.raises(Invalid, match="pod updates may not change fields other than"):
        await client.patch(POD, "p", MergePatch({"spec": {"nodeSelector": {"gpu": "yes"}}}), namespace)


async def test_pods_stay_on_failing_nodes_for_five_minutes_unless_they_say_otherwise(
    client: Client, namespace: str
) -> None:
    async def tolerations(name: str, *own: Document) -> list[Document]:
        made = await client.create(POD, gated("a/b", name=name, tolerations=list(own)), namespace)
        return [each for each in made["spec"]["tolerations"] if each not in own]

    failing = {
        key: {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in ("not-ready", "unreachable")
    }
    assert await tolerations("p") == [failing["not-ready"], failing["unreachable"]]
    assert await tolerations("q", failing["unreachable"] | {"tolerationSeconds": 5}) == [failing["not-ready"]]
    assert await tolerations("r", {"operator": "Exists"}) == []
