"""PodCliqueSets on a real control plane: the end-to-end cases of the proposal, judged by the server's audit log.

Pods run on kwok nodes and become ready two seconds after they got a node, so that there is a time in which a pod is
there and serves nobody.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.gang_cluster import INIT_IMAGE, PROGRAMS, GangCluster, GangNamespace, Object, image_of, is_ready
from tests.e2e.pod_audit import Group
from tests.environment import Programs
from tests.environment.fixtures import REQUIRED

pytestmark = pytest.mark.xdist_group("gangs")

SET = "w"
FRONT = "w-0-pc-a"
GROUP = "w-0-sg-x"
CLIQUES = {"pc-a": (2, 1), "pc-b": (1, 1), "pc-c": (3, 3)}  # replicas, minAvailable
PODS = 2 + 2 * (1 + 3)
OLD, NEW, NEWER = "registry.example.com/app:1", "registry.example.com/app:2", "registry.example.com/app:3"
FLOOR = Group({"pc-b": 1, "pc-c": 3}, floor=1)  # two replicas, one of which may be away


@pytest.fixture(scope="module")
def cluster(kubernetes: Programs, kubectl: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GangCluster]:
    if not kubernetes.has(PROGRAMS):
        told = f"no real cluster: {kubernetes.directory} does not have all of {', '.join(PROGRAMS)}"
        pytest.fail(told, pytrace=False) if os.environ.get(REQUIRED) else pytest.skip(told)
    with GangCluster(kubernetes, kubectl, tmp_path_factory.mktemp("gangs")) as running:
        yield running


def clique(name: str, image: str = OLD, **pod_spec: Any) -> Object:
    replicas, least = CLIQUES[name]
    container = {"name": "main", "image": image, "resources": {"limits": {"example.com/gpu": "1"}}}
    return {
        "name": name,
        "annotations": {"starts-after": "2s"},
        "spec": {
            "roleName": name,
            "replicas": replicas,
            "minAvailable": least,
            "podSpec": {"containers": [container], "terminationGracePeriodSeconds": 1, **pod_spec},
        },
    }


def pod_clique_set(strategy: str, *cliques: Object, replicas: int = 1) -> Object:
    names = [each["name"] for each in cliques]
    group = {"name": "sg-x", "cliqueNames": ["pc-b", "pc-c"], "replicas": 2, "minAvailable": 2}
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": SET},
        "spec": {
            "replicas": replicas,
            "updateStrategy": {"type": strategy},
            "template": {
                "cliques": list(cliques),
                **({"podCliqueScalingGroups": [group]} if "pc-b" in names else {}),
            },
        },
    }


def started(cluster: GangCluster, name: str, strategy: str, *cliques: str, replicas: int = 1) -> GangNamespace:
    """Start a set of its own, with these cliques or all, and wait until it runs."""
    where = cluster.namespace(name)
    names = cliques or tuple(CLIQUES)
    document = pod_clique_set(strategy, *map(clique, names), replicas=replicas)
    document["metadata"]["namespace"] = name
    cluster.apply(document)
    where.ready(replicas * sum(CLIQUES[each][0] * (1 if each == "pc-a" else 2) for each in names))
    return where


def edit(where: GangNamespace, **images: str) -> None:
    """Give cliques another image, named with underscores."""
    spec = where.get("podcliquesets", SET)["spec"]
    for each in spec["template"]["cliques"]:
        if (image := images.get(each["name"].replace("-", "_"))) is not None:
            each["spec"]["podSpec"]["containers"][0]["image"] = image
    where.patch("podcliquesets", SET, {"spec": {"template": spec["template"]}})
    synced(where)


def synced(where: GangNamespace) -> None:
    """Wait until the controller has carried out the present spec."""

    def reached() -> bool:
        found = where.get("podcliquesets", SET)
        return bool(found.get("status", {}).get("observedGeneration") == found["metadata"]["generation"])

    where.until(reached)


def status(where: GangNamespace, plural: str, name: str) -> Object:
    found: Object = where.get(plural, name)["status"]
    return found


def test_case_1_an_update_deletes_nothing_a_deleted_pod_is_new_and_scale_in_takes_the_outdated_one(
    cluster: GangCluster,
) -> None:
    where = started(cluster, "case-1", "OnDelete", "pc-a")
    before, version = where.pods(), where.version()
    edit(where, pc_a=NEW)
    progress = status(where, "podcliquesets", SET)["updateProgress"]
    assert progress["updateStartedAt"] == progress["updateEndedAt"]
    assert not progress.get("currentlyUpdating")
    assert where.pods().keys() == before.keys()
    assert where.deleted_by_the_controller(version) == []

    gone, kept = sorted(before)
    where.delete(gone)
    where.until(lambda: len(where.pods()) == 2 and gone not in where.pods())
    where.ready(2)
    assert {image_of(each) for name, each in where.pods().items() if name != kept} == {NEW}
    where.until(lambda: status(where, "podcliques", FRONT)["updatedReplicas"] == 1)
    assert status(where, "podcliquesets", SET)["updatedReplicas"] == 0

    where.scale("podcliques", FRONT, 1)
    where.until(lambda: len(where.pods()) == 1)
    assert [image_of(each) for each in where.pods().values()] == [NEW]
    assert where.deleted_by_the_controller(version) == [kept]
    where.until(lambda: status(where, "podcliquesets", SET)["updatedReplicas"] == 1)
    assert where.below_the_floor({FRONT: 1}, {}) == []


@pytest.mark.parametrize("edited", [True, False], ids=["affinity edited", "affinity left alone"])
def test_case_2_after_a_node_failed_pods_come_back_elsewhere_because_of_the_edited_affinity(
    cluster: GangCluster, edited: bool
) -> None:
    """The node is broken in a way that Kubernetes does not see: without the edit the pod goes back to where it died."""
    name = f"case-2-{'edited' if edited else 'left'}"
    where = cluster.namespace(name)
    document = pod_clique_set("OnDelete", clique("pc-a"))
    document["metadata"]["namespace"] = name
    spec = document["spec"]["template"]["cliques"][0]["spec"]["podSpec"]
    spec["affinity"] = affinity(["node-6", "node-7"], prefer="node-7")
    cluster.apply(document)
    where.until(lambda: len(where.pods(FRONT)) == 2 and all(map(node_of, where.pods(FRONT).values())))
    before = where.pods(FRONT)
    assert {node_of(each) for each in before.values()} == {"node-7"}
    if edited:
        template = where.get("podcliquesets", SET)["spec"]["template"]
        template["cliques"][0]["spec"]["podSpec"]["affinity"] = affinity(
            ["node-6", "node-7"], "node-7", prefer="node-7"
        )
        where.patch("podcliquesets", SET, {"spec": {"template": template}})
        synced(where)
    gone, kept = sorted(before)
    where.delete(gone)
    where.until(lambda: gone not in where.pods(FRONT) and len(where.pods(FRONT)) == 2)
    where.until(lambda: all(map(node_of, where.pods(FRONT).values())))
    (new,) = (each for each in where.pods(FRONT) if each != kept)
    assert node_of(where.pods(FRONT)[new]) == ("node-6" if edited else "node-7")
    assert where.pods(FRONT)[kept]["metadata"]["uid"] == before[kept]["metadata"]["uid"]


def affinity(nodes: list[str], *broken: str, prefer: str) -> Object:
    """Ask for one of some nodes, rather this one than another, and for none that is broken."""
    wanted = [on("In", *nodes), *([on("NotIn", *broken)] if broken else [])]
    preferred = [{"weight": 100, "preference": {"matchExpressions": [on("In", prefer)]}}]
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": wanted}]},
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        }
    }


def on(operator: str, *nodes: str) -> Object:
    return {"key": "kubernetes.io/hostname", "operator": operator, "values": list(nodes)}


def node_of(pod: Object) -> str:
    return str(pod["spec"].get("nodeName") or "")


def test_case_2_the_strategy_is_changed_both_ways_in_the_middle_of_an_update(cluster: GangCluster) -> None:
    where = started(cluster, "strategy", "OnDelete")
    version = where.version()
    edit(where, pc_a=NEW, pc_c=NEW)
    assert where.deleted_by_the_controller(version) == []
    # What OnDelete has left is rolled now.
    where.patch("podcliquesets", SET, {"spec": {"updateStrategy": {"type": "RollingRecreate"}}})
    where.until(lambda: bool(where.deleted_by_the_controller(version)))
    # In the middle of it the brake is pulled: what is under way ends, and nothing more is taken.
    where.patch("podcliquesets", SET, {"spec": {"updateStrategy": {"type": "OnDelete"}}})
    synced(where)
    where.until(lambda: bool(status(where, "podcliquesets", SET)["updateProgress"].get("updateEndedAt")))
    braked = where.version()
    where.ready(PODS)
    assert where.deleted_by_the_controller(braked) == []
    assert OLD in {image_of(each) for each in where.pods(FRONT).values()} | {
        image_of(each) for number in (0, 1) for each in where.pods(f"{GROUP}-{number}-pc-c").values()
    }
    where.patch("podcliquesets", SET, {"spec": {"updateStrategy": {"type": "RollingRecreate"}}})
    where.until(lambda: status(where, "podcliquesets", SET).get("updatedReplicas") == 1)
    where.ready(PODS)
    images = {image_of(each) for name, each in where.pods().items() if "pc-b" not in name}
    assert images == {NEW}
    assert where.below_the_floor({FRONT: 1}, {GROUP: FLOOR}) == []


def test_case_3_an_update_deletes_no_replica_of_a_group_and_one_that_is_deleted_by_hand_is_new(
    cluster: GangCluster,
) -> None:
    where = started(cluster, "case-3", "OnDelete")
    before, version = where.pods(), where.version()
    edit(where, pc_b=NEW, pc_c=NEW)
    assert where.pods().keys() == before.keys()
    assert where.deleted_by_the_controller(version) == []
    # By its pods.
    replaced = [name for name in before if name.startswith(f"{GROUP}-1-")]
    where.delete(*replaced)
    where.until(lambda: len(where.pods()) == PODS and not where.pods().keys() & replaced)
    where.ready(PODS)
    assert {image_of(each) for name, each in where.pods().items() if name.startswith(f"{GROUP}-1-")} == {NEW}
    assert {image_of(each) for name, each in where.pods().items() if name.startswith(f"{GROUP}-0-")} == {OLD}
    where.until(lambda: status(where, "podcliquescalinggroups", GROUP)["updatedReplicas"] == 1)
    # By its PodCliques.
    for each in ("pc-b", "pc-c"):
        cluster.kubectl("delete", "podclique", f"{GROUP}-0-{each}", "-n", "case-3", "--wait=false")
    where.until(lambda: not any(name in before for name in where.pods() if name.startswith(GROUP)))
    where.ready(PODS)
    assert {image_of(each) for name, each in where.pods().items() if name.startswith(GROUP)} == {NEW}
    where.until(lambda: status(where, "podcliquescalinggroups", GROUP)["updatedReplicas"] == 2)


def test_case_4_cliques_alone_and_in_groups_are_treated_alike(cluster: GangCluster) -> None:
    where = started(cluster, "case-4", "OnDelete")
    before, version = where.pods(), where.version()
    edit(where, pc_a=NEW, pc_b=NEW, pc_c=NEW)
    assert where.deleted_by_the_controller(version) == []
    gone = [min(where.pods(FRONT)), min(where.pods(f"{GROUP}-0-pc-c"))]
    where.delete(*gone)
    where.until(lambda: len(where.pods()) == PODS and not set(gone) & where.pods().keys())
    where.ready(PODS)
    new = [image_of(each) for name, each in where.pods().items() if name not in before]
    assert new == [NEW, NEW]
    assert {image_of(each) for name, each in where.pods().items() if name in before} == {OLD}


def test_a_roll_takes_one_pod_and_one_group_replica_at_a_time_and_never_goes_below_the_floor(
    cluster: GangCluster,
) -> None:
    where = started(cluster, "roll", "RollingRecreate", replicas=2)
    edit(where, pc_a=NEW, pc_b=NEW, pc_c=NEW)
    where.until(lambda: status(where, "podcliquesets", SET).get("updatedReplicas") == 2)
    where.ready(2 * PODS)
    assert {image_of(each) for each in where.pods().values()} == {NEW}
    assert sorted(where.deleted_by_the_controller()) == sorted(set(where.deleted_by_the_controller()))
    cliques = {f"w-{index}-pc-a": 1 for index in (0, 1)}
    groups = {f"w-{index}-sg-x": FLOOR for index in (0, 1)}
    assert where.below_the_floor(cliques, groups) == []


def test_gates_fall_when_the_gang_is_complete_and_at_once_for_pods_that_come_later(cluster: GangCluster) -> None:
    where = started(cluster, "gates", "OnDelete")
    gated = [write for write in cluster.writes() if write.pod["metadata"]["namespace"] == "gates"]
    created = [write.version for write in gated if write.verb == "create"]
    opened = [
        write.version
        for write in gated
        if write.verb == "patch"
        and not write.pod["spec"].get("schedulingGates")
        and not write.pod["spec"].get("nodeName")
    ]
    assert len(created) == PODS
    assert max(created) < min(opened)
    gone = min(where.pods(FRONT))
    where.delete(gone)
    where.until(lambda: gone not in where.pods() and len(where.pods()) == PODS)
    where.ready(PODS)


def test_the_waiter_lets_a_clique_start_when_the_one_before_it_is_ready(cluster: GangCluster) -> None:
    """On kwok no init container runs, so the program is run beside it: as the pod says, with the pod's own account."""
    where = cluster.namespace("order")
    first, second = clique("pc-a"), clique("pc-c")
    first["annotations"]["starts-after"] = "20s"
    document = pod_clique_set("OnDelete", first, second)
    document["metadata"]["namespace"] = "order"
    document["spec"]["template"]["cliqueStartupType"] = "CliqueStartupTypeInOrder"
    cluster.apply(document)
    where.until(lambda: len(where.pods("w-0-pc-c")) == CLIQUES["pc-c"][0])
    waiting = next(iter(where.pods("w-0-pc-c").values()))["spec"]["initContainers"]
    assert [(each["name"], each["image"]) for each in waiting] == [("grove-initc", INIT_IMAGE)]
    assert "initContainers" not in next(iter(where.pods(FRONT).values()))["spec"]
    waiter = cluster.start_waiter("order", SET, "w-0", waiting[0]["args"])
    try:
        assert waiter.stdout is not None
        # A server reads new rights a moment after they were made; the waiter says so, and tries again.
        assert any("0 of 1" in said for said in waiter.stdout)
        assert not any(map(is_ready, where.pods(FRONT).values()))
        assert waiter.wait(timeout=120) == 0
        assert any(map(is_ready, where.pods(FRONT).values()))
    finally:
        waiter.kill()
        waiter.communicate()
