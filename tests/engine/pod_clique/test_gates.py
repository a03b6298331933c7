"""Scheduling gates, and the gangs that pods wait for."""

from echelon.engine.plan import Create, Patch, Write
from echelon.engine.pod_clique.names import GATE
from tests.engine.pod_clique.test_on_delete import CLIQUE, GROUP, POD, SET
from tests.engine.pod_clique.world import (
    World,
    clique,
    gang_of,
    gated,
    group,
    is_ready,
    is_scheduled,
    names,
    pod_clique_set,
    scale,
    world_of,
)

GANG = "PodGang"


def refuse_pods_of(world: World, part: str) -> None:
    """Let no pod of some cliques be made."""
    world.refuse = lambda write: isinstance(write, Create) and write.kind.kind == POD and part in write.name


def start(**more: int) -> World:
    cliques = [clique("a", 2, 1), clique("b", 1)]
    return world_of(
        pod_clique_set(cliques, [group("sg", ["b"], more.get("replicas", 2), 1)], replicas=more.get("sets", 1)),
        settled=False,
    )


def test_no_gate_falls_before_each_group_of_the_gang_lists_enough_pods() -> None:
    world = start()
    refuse_pods_of(world, "sg-0")
    for _ in range(10):
        world.reconcile()
        world.tick()
    assert world.of(POD)
    assert all(gated(pod) for pod in world.of(POD).values())
    world.refuse = lambda _: False
    world.settle(15)
    assert all(is_ready(pod) for pod in world.of(POD).values())


def test_the_minimum_is_enough() -> None:
    """The second pod of the clique is not there yet, and nobody waits for it."""
    world = start(replicas=1)
    made: list[str] = []

    def refuse(write: Write) -> bool:
        if isinstance(write, Create) and write.kind.kind == POD and "w-0-a" in write.name:
            made.append(write.name)
            return write.name != made[0]
        return False

    world.refuse = refuse
    for _ in range(12):
        world.reconcile()
        world.tick()
    (pod,) = world.live("w-0-a")
    assert not gated(pod)


def test_a_later_pod_of_a_gang_that_runs_is_let_go_at_once_even_if_others_are_missing() -> None:
    world = start()
    world.settle(15)
    (other,) = names(world.live("w-0-sg-0-b"))
    world.fail(other)
    world.delete(POD, names(world.live("w-0-a"))[0])
    world.settle(4)
    assert not any(gated(pod) for pod in world.live("w-0-a"))


def test_a_gang_beyond_the_minimum_waits_until_the_base_gang_has_its_nodes() -> None:
    world = start()
    world.cordoned = True
    world.settle(10)
    scaled = [pod for pod in world.of(POD).values() if gang_of(pod) == "w-0-sg-0"]
    base = [pod for pod in world.of(POD).values() if gang_of(pod) == "w-0"]
    assert scaled
    assert all(gated(pod) for pod in scaled)
    assert not any(gated(pod) for pod in base)
    world.cordoned = False
    world.settle(15)
    assert all(is_scheduled(pod) for pod in world.of(POD).values())


def test_a_pod_that_its_gang_does_not_list_yet_is_not_let_go() -> None:
    """A scheduler that meets it would take it for a pod of no gang."""
    world = start()
    world.settle(15)
    world.refuse = lambda write: isinstance(write, Patch) and write.kind.kind == GANG
    world.delete(POD, names(world.live("w-0-a"))[0])
    for _ in range(5):
        world.reconcile()
        world.tick()
    assert [gated(pod) for pod in world.live("w-0-a")].count(True) == 1
    world.refuse = lambda _: False
    world.settle(5)
    assert not any(gated(pod) for pod in world.live("w-0-a"))


def test_a_gang_beyond_the_minimum_waits_while_the_base_gang_is_not_there() -> None:
    world = start()
    world.refuse = lambda write: isinstance(write, Create) and write.kind.kind == GANG and write.name == "w-0"
    for _ in range(12):
        world.reconcile()
        world.tick()
    assert world.of(POD)
    assert all(gated(pod) for pod in world.of(POD).values())


def test_gates_of_others_stay() -> None:
    world = start()
    while not world.live("w-0-a"):
        world.reconcile()
    name = names(world.live("w-0-a"))[0]
    world.patch(POD, name, {"spec": {"schedulingGates": [{"name": GATE}, {"name": "example.com/quota"}]}})
    world.settle(10)
    assert world.get(POD, name)["spec"]["schedulingGates"] == [{"name": "example.com/quota"}]


def test_a_gang_lists_live_pods_only_sorted_and_follows_replacements() -> None:
    world = start()
    world.settle(15)
    world.fail(names(world.live("w-0-a"))[0])
    world.settle(3)
    groups = {each["name"]: each for each in world.get(GANG, "w-0")["spec"]["podgroups"]}
    assert [each["name"] for each in groups["w-0-a"]["podReferences"]] == names(world.live("w-0-a"))
    world.settle(20)
    groups = {each["name"]: each for each in world.get(GANG, "w-0")["spec"]["podgroups"]}
    assert [each["name"] for each in groups["w-0-a"]["podReferences"]] == sorted(names(world.live("w-0-a")))
    assert groups["w-0-a"]["minReplicas"] == 1


def test_a_gang_is_initialized_once_all_of_its_pods_were_made_and_stays_so() -> None:
    world = start()
    refuse_pods_of(world, "sg-0")
    for _ in range(8):
        world.reconcile()
        world.tick()
    found = world.condition(GANG, "w-0", "Initialized")
    assert found is not None
    assert (found["status"], found["reason"]) == ("False", "PodGangPodsCreationPending")
    assert world.status(GANG, "w-0")["phase"] == "Pending"
    world.refuse = lambda _: False
    world.settle(10)
    found = world.condition(GANG, "w-0", "Initialized")
    assert found is not None
    assert (found["status"], found["reason"]) == ("True", "PodGangPodsCreated")
    world.delete(POD, names(world.live("w-0-a"))[0])
    world.work()
    found = world.condition(GANG, "w-0", "Initialized")
    assert found is not None
    assert found["status"] == "True"


def test_gangs_follow_the_size_of_the_group_up_and_down_to_its_minimum() -> None:
    world = start()
    world.settle(10)
    for size, wanted in ((3, {"w-0", "w-0-sg-0", "w-0-sg-1"}), (1, {"w-0"})):
        scale(world, GROUP, "w-0-sg", size)
        world.settle(10)
        assert set(world.of(GANG)) == wanted
    assert set(world.of(CLIQUE)) == {"w-0-a", "w-0-sg-0-b"}


def test_each_replica_of_a_set_has_a_gang_of_its_own() -> None:
    world = start(sets=2)
    world.settle(15)
    assert {gang_of(pod) for pod in world.live("w-1-a")} == {"w-1"}
    assert set(world.of(GANG)) == {"w-0", "w-0-sg-0", "w-1", "w-1-sg-0"}
    assert world.status(SET, "w")["availableReplicas"] == 2
