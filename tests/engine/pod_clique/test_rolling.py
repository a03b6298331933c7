"""RollingRecreate, line by line: one replica of the set, one pod of a clique, one replica of a group at a time."""

from collections.abc import Callable

import pytest

from echelon.engine.pod_clique.set_spec import ROLLING_RECREATE
from tests.engine.pod_clique.oracle import Oracle, Seen
from tests.engine.pod_clique.test_on_delete import CLIQUE, GROUP, POD, SET, images, uids, workload
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


class Watch:
    """Counts what is missing, at every committed state."""

    def __init__(self, world: World) -> None:
        self.world, self.oracle = world, Oracle(world)
        self.pods: dict[str, int] = {}  # the most that was missing of a standalone clique
        self.units: dict[str, int] = {}  # the most that was missing of a group
        self.replicas: set[frozenset[str]] = set()  # replicas that had something missing at once
        world.watchers.append(self.look)

    def look(self) -> None:
        seen = Seen(self.world.store)
        out = set()
        for name, body in seen.cliques().items():
            labels = body["metadata"]["labels"]
            if "grove.io/podcliquescalinggroup" not in labels:
                missing = body["spec"]["replicas"] - seen.ready(name)
                self.pods[name] = max(self.pods.get(name, 0), missing)
                if missing > 0:
                    out.add(labels["grove.io/podcliqueset-replica-index"])
        for (kind, name), body in self.world.store.items():
            if kind == GROUP:
                missing = body["spec"]["replicas"] - sum(seen.unit_works(name, each) for each in seen.units(name))
                self.units[name] = max(self.units.get(name, 0), missing)
                if missing > 0:
                    out.add(body["metadata"]["labels"]["grove.io/podcliqueset-replica-index"])
        self.replicas.add(frozenset(out))

    def check(self) -> None:
        assert not self.oracle.faults, self.oracle.faults
        assert all(len(each) <= 1 for each in self.replicas)


def ended(world: World) -> bool:
    progress = world.status(SET, "w")["updateProgress"]
    return "updateEndedAt" in progress and "currentlyUpdating" not in progress


def all_run(world: World, version: str, *cliques: str) -> bool:
    return all(set(images(world, name)) == {version} for name in cliques)


def test_ru_7_one_pod_of_a_standalone_clique_and_one_replica_of_the_set_at_a_time() -> None:
    world = workload(ROLLING_RECREATE, replicas=2)
    watch = Watch(world)
    edit(world, "pc-a", "v2")
    world.settle(90)
    assert all_run(world, "v2", "w-0-pc-a", "w-1-pc-a")
    assert ended(world)
    assert watch.pods == {"w-0-pc-a": 1, "w-1-pc-a": 1}
    assert watch.units == {"w-0-sg-x": 0, "w-1-sg-x": 0}
    watch.check()


def test_ru_8_one_replica_of_a_group_at_a_time() -> None:
    world = workload(ROLLING_RECREATE)
    watch = Watch(world)
    before = uids(world)
    edit(world, "pc-b", "v2")
    world.settle(90)
    assert all_run(world, "v2", "w-0-sg-x-0-pc-b", "w-0-sg-x-1-pc-b")
    assert ended(world)
    assert watch.units == {"w-0-sg-x": 1}
    assert watch.pods == {"w-0-pc-a": 0}
    kept = {body["metadata"]["uid"] for body in world.live("w-0-pc-a")}
    assert before & uids(world) == kept, "a replica of a group is replaced as a whole"
    watch.check()


def test_ru_9_all_cliques_edited_together() -> None:
    world = workload(ROLLING_RECREATE, replicas=2)
    watch = Watch(world)
    edit(world, ("pc-a", "pc-b", "pc-c"), "v2")
    world.settle(180)
    assert {image(pod) for pod in world.of(POD).values()} == {"v2"}
    assert ended(world)
    assert set(watch.pods.values()) == set(watch.units.values()) == {1}
    watch.check()


def test_ru_10_without_nodes_one_pod_waits_and_the_roll_goes_on_when_they_are_back() -> None:
    world = workload(ROLLING_RECREATE)
    watch = Watch(world)
    world.cordoned = True
    edit(world, "pc-a", "v2")
    world.settle(120)
    assert len(world.deleted) == 1
    assert [image(pod) for pod in world.live("w-0-pc-a") if not is_ready(pod)] == ["v2"]
    world.cordoned = False
    world.settle(60)
    assert all_run(world, "v2", "w-0-pc-a")
    assert ended(world)
    watch.check()


def test_ru_11_a_replica_that_is_added_in_mid_roll_is_born_new() -> None:
    world = workload(ROLLING_RECREATE)
    edit(world, "pc-a", "v2")
    world.settle(3)
    change(world, replicas=2)
    world.settle(10)
    born = {body["metadata"]["uid"] for body in world.live("w-1-pc-a")}
    assert all_run(world, "v2", "w-1-pc-a")
    world.settle(90)
    assert {body["metadata"]["uid"] for body in world.live("w-1-pc-a")} == born
    assert ended(world)


@pytest.mark.parametrize("wait", [2, 25, 60])
def test_ru_12_and_13_a_scale_in_of_the_set_while_or_after_its_last_replica_is_rolled(wait: int) -> None:
    world = workload(ROLLING_RECREATE, replicas=2)
    edit(world, "pc-a", "v2")
    world.settle(wait)
    change(world, replicas=1)
    world.settle(90)
    assert set(world.of(CLIQUE)) == {"w-0-pc-a", *(f"w-0-sg-x-{j}-pc-{c}" for j in (0, 1) for c in "bc")}
    assert all_run(world, "v2", "w-0-pc-a")
    assert ended(world)


@pytest.mark.parametrize("wait", [4, 0])
def test_ru_14_and_15_a_group_scaled_out_during_or_before_its_roll(wait: int) -> None:
    world = workload(ROLLING_RECREATE)
    edit(world, "pc-b", "v2")
    world.settle(wait)
    scale(world, GROUP, "w-0-sg-x", 3)
    world.settle(8)
    born = {body["metadata"]["uid"] for body in world.live("w-0-sg-x-2-pc-b")}
    assert all_run(world, "v2", "w-0-sg-x-2-pc-b")
    world.settle(120)
    assert {body["metadata"]["uid"] for body in world.live("w-0-sg-x-2-pc-b")} == born
    assert all_run(world, "v2", *(f"w-0-sg-x-{j}-pc-b" for j in range(3)))
    assert ended(world)


@pytest.mark.parametrize("first", [True, False])
def test_ru_16_and_17_a_group_scaled_in_during_its_roll_or_before_the_edit(first: bool) -> None:
    cliques = [clique("pc-a", 2, 1), clique("pc-b", 1)]
    world = world_of(pod_clique_set(cliques, [group("sg-x", ["pc-b"], 3, 1)]))
    watch = Watch(world)
    if first:
        scale(world, GROUP, "w-0-sg-x", 2)
    edit(world, "pc-b", "v2")
    world.settle(4)
    scale(world, GROUP, "w-0-sg-x", 2)
    world.settle(60)
    assert sorted(world.of(CLIQUE)) == ["w-0-pc-a", "w-0-sg-x-0-pc-b", "w-0-sg-x-1-pc-b"]
    assert all_run(world, "v2", "w-0-sg-x-0-pc-b", "w-0-sg-x-1-pc-b")
    assert ended(world)
    assert not watch.oracle.faults


@pytest.mark.parametrize("before_edit", [True, False])
def test_ru_18_and_19_a_clique_scaled_out_during_its_roll_or_before_the_edit(before_edit: bool) -> None:
    world = workload(ROLLING_RECREATE)
    steps: list[Callable[[], None]] = [
        lambda: scale(world, CLIQUE, "w-0-pc-a", 4),
        lambda: edit(world, "pc-a", "v2"),
    ]
    for step in steps if before_edit else reversed(steps):
        step()
        world.settle(4)
    world.settle(90)
    assert images(world, "w-0-pc-a") == ["v2"] * 4
    assert ended(world)


@pytest.mark.parametrize("before_edit", [True, False])
def test_ru_20_and_21_a_clique_scaled_in_during_its_roll_or_before_the_edit(before_edit: bool) -> None:
    world = world_of(pod_clique_set([clique("pc-a", 3, 2)]))
    watch = Watch(world)
    steps: list[Callable[[], None]] = [
        lambda: scale(world, CLIQUE, "w-0-pc-a", 2),
        lambda: edit(world, "pc-a", "v2"),
    ]
    for step in steps if before_edit else reversed(steps):
        step()
        world.settle(3)
    world.settle(60)
    assert images(world, "w-0-pc-a") == ["v2"] * 2
    assert ended(world)
    assert not watch.oracle.faults


def test_a_long_recovered_pod_is_ready_and_never_all_of_them_go_at_once() -> None:
    """Upstream 697: an exit code of long ago made every serving pod unhealthy, and all went in one pass."""
    world = world_of(pod_clique_set([clique("pc-a", 2, 1)]))
    for name in names(world.live("w-0-pc-a")):
        world.crash(name)
    world.settle(10)
    assert all(is_ready(pod) for pod in world.live("w-0-pc-a"))
    watch = Watch(world)
    edit(world, "pc-a", "v2")
    world.settle(60)
    assert watch.pods == {"w-0-pc-a": 1}
    assert all_run(world, "v2", "w-0-pc-a")


def test_pods_that_cannot_start_do_not_keep_the_update_away_that_would_let_them() -> None:
    """Upstream 840: the budget was used up by the very pods that the update was for."""
    world = world_of(pod_clique_set([clique("pc-a", 3, 2)]))
    world.sick.add("bad")
    edit(world, "pc-a", "bad")
    world.settle(60)
    assert sorted(is_ready(pod) for pod in world.live("w-0-pc-a")) == [False, True, True]
    watch = Watch(world)
    edit(world, "pc-a", "v3")
    world.settle(60)
    assert all_run(world, "v3", "w-0-pc-a")
    assert watch.pods == {"w-0-pc-a": 1}


def test_the_update_has_not_ended_before_the_last_replacement_works() -> None:
    """Upstream 786: it ended when nothing old was left, before replacements were ready or even there."""
    world = world_of(pod_clique_set([clique("pc-a", 1)]), starts_in=30)
    world.settle(40)
    edit(world, "pc-a", "v2")
    for _ in range(120):
        world.work()
        world.tick()
        if "updateEndedAt" in world.status(SET, "w")["updateProgress"]:
            break
    assert images(world, "w-0-pc-a") == ["v2"]
    assert all(is_ready(pod) for pod in world.live("w-0-pc-a"))


def test_a_pod_of_a_group_that_crashes_before_its_turn_comes_back_old() -> None:
    cliques = [clique("pc-b", 2, 1)]
    world = world_of(pod_clique_set(cliques, [group("sg-x", ["pc-b"], 2, 1)]))
    world.frozen.add("nobody")
    edit(world, "pc-b", "v2")
    world.cordoned = True
    world.settle(5)
    assert world.status(GROUP, "w-0-sg-x")["updateProgress"]["readyReplicaIndicesSelectedToUpdate"] == {"current": 0}
    world.delete(POD, names(world.live("w-0-sg-x-1-pc-b"))[0])
    world.settle(5)
    assert images(world, "w-0-sg-x-1-pc-b") == ["v1", "v1"]
    world.cordoned = False
    world.settle(60)
    assert images(world, "w-0-sg-x-1-pc-b") == ["v2", "v2"]
    assert ended(world)


def test_a_pod_of_a_standalone_clique_that_crashes_before_its_turn_comes_back_new() -> None:
    world = world_of(pod_clique_set([clique("pc-a", 2, 1)], replicas=2))
    world.cordoned = True
    edit(world, "pc-a", "v2")
    world.settle(4)
    world.delete(POD, names(world.live("w-1-pc-a"))[0])
    world.settle(4)
    assert images(world, "w-1-pc-a") == ["v1", "v2"]


def test_a_newer_template_in_mid_roll_starts_the_update_anew_and_one_replica_stays_out() -> None:
    world = world_of(pod_clique_set([clique("pc-a", 3, 1)], replicas=2), starts_in=10)
    world.settle(20)
    watch = Watch(world)
    edit(world, "pc-a", "v2")
    world.settle(8)
    first = world.status(SET, "w")["updateProgress"]
    edit(world, "pc-a", "v3")
    world.settle(3)
    second = world.status(SET, "w")["updateProgress"]
    assert second["updateStartedAt"] > first["updateStartedAt"]
    world.settle(200)
    assert {image(pod) for pod in world.of(POD).values()} == {"v3"}
    assert ended(world)
    watch.check()


def test_the_oldest_template_goes_first_then_the_oldest_pod() -> None:
    world = world_of(pod_clique_set([clique("pc-a", 3, 1)], strategy="OnDelete"))
    for version in ("v2", "v3"):
        edit(world, "pc-a", version)
        world.settle(3)
        world.delete(POD, names(pod for pod in world.live("w-0-pc-a") if image(pod) == "v1")[0])
        world.settle(15)
    assert images(world, "w-0-pc-a") == ["v1", "v2", "v3"]
    edit(world, "pc-a", "v4")
    change(world, strategy=ROLLING_RECREATE)
    world.settle(90)
    gone = [image(each.seen[POD, each.name]) for each in world.deleted]
    assert gone == ["v1", "v2", "v3"]


def test_after_the_deadline_a_warning_is_given_and_the_next_replica_is_rolled() -> None:
    world = world_of(pod_clique_set([clique("pc-a", 2, 1)], replicas=2))
    edit(world, "pc-a", "v2")
    while not world.frozen:
        world.work()
        world.frozen.update(name for name, body in world.of(POD).items() if image(body) == "v2")
        world.tick()
    world.settle(500, step=10)
    assert len(world.deleted) == 1, "no other ready unit goes until it is back"
    assert not world.told("ProgressDeadlineExceeded")
    world.settle(200, step=10)
    assert len(world.told("ProgressDeadlineExceeded")) == 1
    assert all_run(world, "v2", "w-1-pc-a")
    assert sum(is_ready(pod) for pod in world.live("w-0-pc-a")) == 1
    assert not ended(world)
    world.frozen.clear()
    world.settle(60)
    assert ended(world)
    assert all_run(world, "v2", "w-0-pc-a", "w-1-pc-a")


def test_the_floor_holds_after_the_deadline() -> None:
    world = world_of(pod_clique_set([clique("pc-a", 4, 2)]))
    world.sick.add("bad")
    edit(world, "pc-a", "bad")
    world.settle(4000, step=20)
    assert sum(is_ready(pod) for pod in world.live("w-0-pc-a")) == 2
    assert images(world, "w-0-pc-a") == ["bad", "bad", "v1", "v1"]


def test_max_unavailable_pods_go_at_once() -> None:
    world = world_of(pod_clique_set([clique("pc-a", 6, 2, rollingUpdate={"maxUnavailable": 3})], terminationDelay="1h"))
    watch = Watch(world)
    edit(world, "pc-a", "v2")
    world.settle(60)
    assert watch.pods == {"w-0-pc-a": 3}
    assert all_run(world, "v2", "w-0-pc-a")
    assert not watch.oracle.faults


def test_paused_nothing_is_rolled_and_a_mistyped_pause_is_one() -> None:
    world = workload(ROLLING_RECREATE)
    for value in ("true", "yes"):
        world.patch(SET, "w", {"metadata": {"annotations": {"echelon.dev/paused": value}}})
        edit(world, "pc-a", f"v-{value}")
        world.settle(20)
        assert not world.deleted
        found = world.condition(SET, "w", "UpdateInProgress")
        assert found is not None
        assert (found["status"], found["reason"]) == ("True", "Paused")
    world.patch(SET, "w", {"metadata": {"annotations": {"echelon.dev/paused": None}}})
    world.settle(40)
    assert all_run(world, "v-yes", "w-0-pc-a")


def test_replicas_without_a_node_go_first_then_those_that_do_not_work() -> None:
    world = world_of(pod_clique_set([clique("pc-a", 1), clique("pc-b", 1)], replicas=3, terminationDelay="9h"))
    for name in names(world.live("w-2-pc-a")):
        world.crash(name)
        world.frozen.add(name)
    world.settle(5)
    edit(world, "pc-b", "v2")
    world.work()
    order = []
    for _ in range(60):
        world.work()
        chosen = world.status(SET, "w")["updateProgress"].get("currentlyUpdating", [])
        order += [each["replicaIndex"] for each in chosen if each["replicaIndex"] not in order]
        world.tick(30)
    assert order == [2, 0, 1]


def test_the_selection_names_pods_and_replicas_and_is_gone_in_the_end() -> None:
    world = workload(ROLLING_RECREATE)
    edit(world, ("pc-a", "pc-b"), "v2")
    pods: set[str] = set()
    units: set[int] = set()
    before = set(names(world.live("w-0-pc-a")))
    for _ in range(60):
        world.work()
        pod = world.status(CLIQUE, "w-0-pc-a")["updateProgress"].get("readyPodsSelectedToUpdate")
        unit = (world.status(GROUP, "w-0-sg-x").get("updateProgress") or {}).get("readyReplicaIndicesSelectedToUpdate")
        pods |= {pod["current"], *pod.get("completed", ())} if pod else set()
        units |= {unit["current"], *unit.get("completed", ())} if unit else set()
        world.tick()
    assert pods == before
    assert units == {0, 1}
    assert "readyPodsSelectedToUpdate" not in world.status(CLIQUE, "w-0-pc-a")["updateProgress"]
    assert "readyReplicaIndicesSelectedToUpdate" not in world.status(GROUP, "w-0-sg-x")["updateProgress"]


def test_while_a_clique_is_rolled_nobody_knows_whether_it_has_too_few_pods() -> None:
    world = world_of(pod_clique_set([clique("pc-a", 2, 2)]))
    edit(world, "pc-a", "v2")
    seen = set()
    for _ in range(30):
        world.work()
        found = world.condition(CLIQUE, "w-0-pc-a", "MinAvailableBreached")
        assert found is not None
        seen.add((found["status"], found["reason"]))
        world.tick()
    assert ("Unknown", "UpdateInProgress") in seen
    assert not any(status == "True" for status, _ in seen)
    assert all(is_live(pod) for pod in world.of(POD).values())
