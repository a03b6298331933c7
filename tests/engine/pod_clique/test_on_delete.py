"""OnDelete, line by line: an edit is recorded and deletes nothing; whatever is made later is new."""

from echelon.engine.pod_clique.set_spec import ON_DELETE, ROLLING_RECREATE
from tests.engine.pod_clique.world import (
    World,
    change,
    clique,
    edit,
    group,
    image,
    is_live,
    is_ready,
    names,
    pod_clique_set,
    scale,
    world_of,
)

SET, CLIQUE, GROUP, POD = "PodCliqueSet", "PodClique", "PodCliqueScalingGroup", "Pod"
B = "w-0-sg-x-{}-pc-b"
C = "w-0-sg-x-{}-pc-c"


def workload(strategy: str = ON_DELETE, replicas: int = 1) -> World:
    """Return the workload of Grove's own tests: ten pods a replica."""
    cliques = [clique("pc-a", 2, 1), clique("pc-b", 1), clique("pc-c", 3, 3)]
    groups = [group("sg-x", ["pc-b", "pc-c"], 2, 2)]
    return world_of(pod_clique_set(cliques, groups, strategy=strategy, replicas=replicas))


def uids(world: World) -> set[str]:
    return {body["metadata"]["uid"] for body in world.of(POD).values() if is_live(body)}


def images(world: World, clique_name: str) -> list[str]:
    return sorted(image(pod) for pod in world.live(clique_name))


def test_od_1_an_edit_of_a_standalone_clique_deletes_no_pod_and_ends_at_once() -> None:
    world = workload()
    before = uids(world)
    edit(world, "pc-a", "v2")
    world.settle(30)
    assert uids(world) == before
    assert not world.deleted
    progress = world.status(SET, "w")["updateProgress"]
    assert progress["updateStartedAt"] == progress["updateEndedAt"]
    assert "currentlyUpdating" not in progress
    assert world.status(CLIQUE, "w-0-pc-a")["outdatedPodsCount"] == 2
    assert world.get(CLIQUE, "w-0-pc-a")["spec"]["podSpec"]["containers"][0]["image"] == "v2"


def test_od_2_a_deleted_pod_comes_back_with_the_new_template() -> None:
    world = workload()
    edit(world, "pc-a", "v2")
    world.settle(5)
    world.delete(POD, names(world.live("w-0-pc-a"))[0])
    world.settle(20)
    assert images(world, "w-0-pc-a") == ["v1", "v2"]
    assert world.status(CLIQUE, "w-0-pc-a")["updatedReplicas"] == 1


def test_od_3_a_scale_in_takes_the_outdated_pod_and_keeps_the_updated_one() -> None:
    world = workload()
    edit(world, "pc-a", "v2")
    world.settle(5)
    world.delete(POD, names(world.live("w-0-pc-a"))[0])
    world.settle(20)
    scale(world, CLIQUE, "w-0-pc-a", 1)
    world.settle(20)
    assert images(world, "w-0-pc-a") == ["v2"]


def test_od_4_an_edit_of_a_group_s_clique_deletes_nothing() -> None:
    world = workload()
    before = uids(world)
    edit(world, "pc-b", "v2")
    world.settle(30)
    assert uids(world) == before
    progress = world.status(GROUP, "w-0-sg-x")["updateProgress"]
    assert progress["updateStartedAt"] == progress["updateEndedAt"]
    assert "readyReplicaIndicesSelectedToUpdate" not in progress
    assert world.get(CLIQUE, B.format(0))["spec"]["podSpec"]["containers"][0]["image"] == "v2"


def test_od_5_a_deleted_pod_of_a_group_comes_back_new_and_alone() -> None:
    world = workload()
    edit(world, "pc-c", "v2")
    world.settle(5)
    before = uids(world)
    world.delete(POD, names(world.live(C.format(0)))[1])
    world.settle(20)
    assert images(world, C.format(0)) == ["v1", "v1", "v2"]
    assert len(before & uids(world)) == 9


def test_od_6_all_cliques_edited_and_one_pod_of_each_kind_deleted() -> None:
    world = workload()
    edit(world, ("pc-a", "pc-b", "pc-c"), "v2")
    world.settle(5)
    world.delete(POD, names(world.live("w-0-pc-a"))[0])
    world.delete(POD, names(world.live(B.format(1)))[0])
    world.settle(20)
    assert images(world, "w-0-pc-a") == ["v1", "v2"]
    assert images(world, B.format(1)) == ["v2"]
    assert images(world, C.format(1)) == ["v1", "v1", "v1"]


def test_od_7_two_replicas_of_a_set_are_treated_alike() -> None:
    world = workload(replicas=2)
    before = uids(world)
    edit(world, "pc-a", "v2")
    world.settle(5)
    assert uids(world) == before
    for replica in (0, 1):
        world.delete(POD, names(world.live(f"w-{replica}-pc-a"))[0])
    world.settle(20)
    assert images(world, "w-0-pc-a") == images(world, "w-1-pc-a") == ["v1", "v2"]


def test_od_8_only_the_deleted_pod_moves_when_an_edit_excludes_its_node() -> None:
    world = workload()
    before = uids(world)
    gone = world.live("w-0-pc-a")[1]
    edit(world, "pc-a", "v2-not-on-node-1")
    world.settle(5)
    world.delete(POD, gone["metadata"]["name"])
    world.settle(20)
    assert before - uids(world) == {gone["metadata"]["uid"]}
    assert image(world.live("w-0-pc-a")[1]) == "v2-not-on-node-1"


def test_od_9_from_on_delete_to_rolling_and_back() -> None:
    world = workload()
    change(world, strategy=ROLLING_RECREATE)
    edit(world, "pc-b", "v2")
    world.settle(60)
    assert images(world, B.format(0)) == images(world, B.format(1)) == ["v2"]
    assert world.status(SET, "w")["updateProgress"]["updateEndedAt"]
    change(world, strategy=ON_DELETE)
    world.settle(5)
    before = uids(world)
    edit(world, "pc-c", "v3")
    world.settle(30)
    assert uids(world) == before


def test_every_pod_that_was_replaced_counts_and_the_hashes_advance_with_the_last_one() -> None:
    world = workload()
    old = world.status(CLIQUE, "w-0-pc-a")["currentPodTemplateHash"]
    edit(world, "pc-a", "v2")
    world.settle(5)
    assert world.status(SET, "w").get("updatedReplicas", 0) == 0
    assert world.status(CLIQUE, "w-0-pc-a").get("updatedReplicas", 0) == 0
    for number in (1, 2):
        assert world.status(CLIQUE, "w-0-pc-a")["currentPodTemplateHash"] == old
        world.delete(POD, names(pod for pod in world.live("w-0-pc-a") if image(pod) == "v1")[0])
        world.settle(20)
        assert world.status(CLIQUE, "w-0-pc-a")["updatedReplicas"] == number
    status = world.status(CLIQUE, "w-0-pc-a")
    assert status["currentPodTemplateHash"] == status["updateProgress"]["podTemplateHash"] != old
    assert world.status(SET, "w")["updatedReplicas"] == 1
    assert all(is_ready(pod) for pod in world.of(POD).values())


def test_a_template_that_is_put_back_before_any_deletion_leaves_everything_updated() -> None:
    world = workload()
    edit(world, "pc-a", "v2")
    world.settle(5)
    edit(world, "pc-a", "v1")
    world.settle(5)
    status = world.status(CLIQUE, "w-0-pc-a")
    assert status["updatedReplicas"] == 2
    assert "outdatedPods" not in status
    assert world.status(SET, "w")["updatedReplicas"] == 1
    assert status["currentPodCliqueSetGenerationHash"] == world.status(SET, "w")["currentGenerationHash"]


def test_an_edit_of_another_clique_moves_the_generation_hash_and_not_the_template_hash() -> None:
    world = workload()
    before = world.status(CLIQUE, "w-0-pc-a")
    edit(world, "pc-b", "v2")
    world.settle(5)
    after = world.status(CLIQUE, "w-0-pc-a")
    assert after["currentPodTemplateHash"] == before["currentPodTemplateHash"]
    assert after["currentPodCliqueSetGenerationHash"] != before["currentPodCliqueSetGenerationHash"]
    assert after["updatedReplicas"] == 2


def test_an_autoscaled_clique_keeps_its_size_through_an_edit() -> None:
    world = workload()
    scale(world, CLIQUE, "w-0-pc-a", 5)
    world.settle(15)
    edit(world, "pc-a", "v2")
    world.settle(15)
    assert world.get(CLIQUE, "w-0-pc-a")["spec"]["replicas"] == 5
    assert len(world.live("w-0-pc-a")) == 5
