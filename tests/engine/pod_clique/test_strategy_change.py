"""A strategy that changes while something is under way: what is open is closed, and drift is rolled."""

from echelon.engine.pod_clique.deciding import read_facts
from echelon.engine.pod_clique.set_spec import ON_DELETE, ROLLING_RECREATE
from echelon.engine.pod_clique.strategy_change import next_progress
from tests.engine.pod_clique.oracle import Oracle
from tests.engine.pod_clique.test_on_delete import CLIQUE, GROUP, POD, SET, images, uids, workload
from tests.engine.pod_clique.test_rolling import ended
from tests.engine.pod_clique.world import World, change, clique, edit, group, names, pod_clique_set, world_of


def test_rolling_to_on_delete_in_mid_roll_closes_everything_and_deletes_no_more() -> None:
    """Upstream: progress stayed open for ever, the condition Unknown, and gang termination off."""
    world = workload(ROLLING_RECREATE, replicas=2)
    world.cordoned = True
    edit(world, ("pc-a", "pc-b"), "v2")
    world.settle(4)
    assert world.deleted
    change(world, strategy=ON_DELETE)
    world.settle(1)
    deleted = len(world.deleted)
    progress = world.status(SET, "w")["updateProgress"]
    assert progress["updateStartedAt"] == progress["updateEndedAt"]
    assert "currentlyUpdating" not in progress
    for kind in (CLIQUE, GROUP):
        for name in world.of(kind):
            found = world.status(kind, name)["updateProgress"]
            assert found["updateEndedAt"]
            assert "readyPodsSelectedToUpdate" not in found
            assert "readyReplicaIndicesSelectedToUpdate" not in found
            breach = world.condition(kind, name, "MinAvailableBreached")
            assert breach is not None
            assert breach["status"] != "Unknown"
    world.cordoned = False
    world.settle(60)
    assert len(world.deleted) == deleted, "what was terminating went on, what was only selected stayed"
    assert "v1" in images(world, "w-1-pc-a")


def test_on_delete_to_rolling_with_drift_and_no_edit_rolls_the_drift() -> None:
    """Upstream: outdated pods stayed until the next edit."""
    world = workload(ON_DELETE)
    edit(world, ("pc-a", "pc-b"), "v2")
    world.settle(3)
    assert images(world, "w-0-pc-a") == ["v1", "v1"]
    oracle = Oracle(world)
    change(world, strategy=ROLLING_RECREATE)
    world.settle(90)
    assert images(world, "w-0-pc-a") == ["v2", "v2"]
    assert images(world, "w-0-sg-x-1-pc-b") == ["v2"]
    assert ended(world)
    assert not oracle.faults


def test_on_delete_to_rolling_without_drift_does_nothing() -> None:
    world = workload(ON_DELETE)
    before = uids(world)
    change(world, strategy=ROLLING_RECREATE)
    world.settle(30)
    assert uids(world) == before
    assert not world.deleted


def test_drift_and_an_edit_of_something_else_come_to_an_end() -> None:
    """Upstream's deadlock: a group whose cliques the edit left alone never reported the new hash."""
    cliques = [clique("pc-a", 2, 1), clique("pc-b", 1), clique("pc-d", 1)]
    groups = [group("sg-x", ["pc-b"], 2, 1), group("sg-y", ["pc-d"], 2, 1)]
    world = world_of(pod_clique_set(cliques, groups, strategy=ON_DELETE))
    edit(world, "pc-d", "v2")
    world.settle(3)
    change(world, strategy=ROLLING_RECREATE)
    edit(world, "pc-a", "v3")
    world.settle(120)
    assert ended(world)
    assert images(world, "w-0-sg-y-0-pc-d") == images(world, "w-0-sg-y-1-pc-d") == ["v2"]
    assert images(world, "w-0-pc-a") == ["v3", "v3"]
    assert world.status(SET, "w")["updatedReplicas"] == 1
    current = world.status(SET, "w")["currentGenerationHash"]
    for kind in (GROUP, CLIQUE):
        for name in world.of(kind):
            assert world.status(kind, name)["currentPodCliqueSetGenerationHash"] == current, name


def test_after_on_delete_a_template_that_is_put_back_recreates_nothing() -> None:
    """Upstream: labels of a group's cliques looked outdated, and its replicas were recreated although no pod was."""
    world = workload(ON_DELETE)
    before = uids(world)
    edit(world, "pc-b", "v2")
    world.settle(3)
    change(world, strategy=ROLLING_RECREATE)
    edit(world, "pc-b", "v1")
    world.settle(60)
    assert uids(world) == before
    assert ended(world)


def test_under_on_delete_the_hashes_of_a_group_s_cliques_advance_with_their_last_pod() -> None:
    world = workload(ON_DELETE)
    edit(world, "pc-b", "v2")
    world.settle(2)
    for name in ("w-0-sg-x-0-pc-b", "w-0-sg-x-1-pc-b"):
        world.delete(POD, names(world.live(name))[0])
    world.settle(15)
    current = world.status(SET, "w")["currentGenerationHash"]
    for name in world.of(CLIQUE):
        assert world.status(CLIQUE, name)["currentPodCliqueSetGenerationHash"] == current, name


def test_whoever_is_out_keeps_its_turn_when_a_newer_template_comes() -> None:
    world = workload(ROLLING_RECREATE, replicas=3)
    edit(world, "pc-a", "v2")
    world.settle(2)
    chosen = [{"replicaIndex": 1, "updateStartedAt": "2026-11-01T12:00:00Z"}]
    world.patch(SET, "w", {"status": {"updateProgress": {"currentlyUpdating": chosen}}})
    edit(world, "pc-a", "v3")
    view = world.view()
    spec = view.set.spec
    assert spec is not None
    facts = read_facts(view, spec, world.now)
    found = next_progress(
        spec, view.set.status, facts.replicas, stuck=(), out=(0, 1), taken=(1,), now="now", paused=False
    )
    assert found is not None
    assert [each.replica_index for each in found.currently_updating] == [1]


def test_back_and_forth_in_mid_update() -> None:
    world = workload(ROLLING_RECREATE)
    oracle = Oracle(world)
    edit(world, ("pc-a", "pc-c"), "v2")
    for strategy in (ON_DELETE, ROLLING_RECREATE, ON_DELETE, ROLLING_RECREATE):
        world.settle(4)
        change(world, strategy=strategy)
    world.settle(120)
    assert images(world, "w-0-pc-a") == ["v2"] * 2
    assert images(world, "w-0-sg-x-0-pc-c") == ["v2"] * 3
    assert ended(world)
    assert not oracle.faults


def test_idle_rolling_to_on_delete_makes_the_next_edit_an_on_delete_one() -> None:
    world = workload(ROLLING_RECREATE)
    change(world, strategy=ON_DELETE)
    world.settle(3)
    edit(world, "pc-a", "v2")
    world.settle(30)
    assert not world.deleted
    assert images(world, "w-0-pc-a") == ["v1", "v1"]


def test_a_pod_that_was_on_its_way_when_the_strategy_changed_comes_back_new() -> None:
    world = workload(ROLLING_RECREATE)
    world.ends_in = 20
    edit(world, "pc-a", "v2")
    world.settle(2)
    going = [each.name for each in world.deleted]
    change(world, strategy=ON_DELETE)
    world.settle(40)
    assert not set(going) & set(names(world.of(POD).values()))
    assert images(world, "w-0-pc-a") == ["v1", "v2"]


def test_two_edits_in_quick_succession_leave_only_the_last_one() -> None:
    for strategy in (ON_DELETE, ROLLING_RECREATE):
        world = workload(strategy)
        edit(world, "pc-a", "v2")
        world.reconcile()
        edit(world, "pc-a", "v3")
        world.settle(3)
        world.delete(POD, names(world.live("w-0-pc-a"))[0])
        world.settle(60)
        assert set(images(world, "w-0-pc-a")) == ({"v1", "v3"} if strategy == ON_DELETE else {"v3"})


def test_a_pod_that_is_deleted_while_the_clique_s_template_is_not_yet_written_comes_back_new() -> None:
    world = workload(ON_DELETE)
    edit(world, "pc-a", "v2")
    world.delete(POD, names(world.live("w-0-pc-a"))[0], force=True)
    world.settle(20)
    assert images(world, "w-0-pc-a") == ["v1", "v2"]


def _rolled_in_replica_1(terminationDelay: str = "4h") -> tuple[World, Oracle]:  # noqa: N803 - as in a set
    """Return a world in which a pod of replica 1 was taken as an update, and cannot come back."""
    cliques = [clique("pc-a", 2, 1), clique("pc-b", 1)]
    groups = [group("sg-x", ["pc-b"], 2, 1)]
    body = pod_clique_set(cliques, groups, strategy=ROLLING_RECREATE, replicas=2, terminationDelay=terminationDelay)
    world = world_of(body)
    oracle = Oracle(world)
    edit(world, "pc-a", "v2")
    while not any(each.name.startswith("w-1-") for each in world.deleted):
        world.settle(1)
    world.cordoned = True
    return world, oracle


def test_a_replica_that_was_rolled_is_waited_for_although_the_strategy_changed_meanwhile() -> None:
    world, oracle = _rolled_in_replica_1()
    change(world, strategy=ON_DELETE)
    world.settle(2)
    assert "currentlyUpdating" not in world.status(SET, "w")["updateProgress"]
    edit(world, ("pc-a", "pc-b"), "v3")
    world.crash(names(world.live("w-0-pc-a"))[0])  # of two replicas something is missing, of one it was taken
    world.settle(1)
    world.forget()
    change(world, strategy=ROLLING_RECREATE)
    world.settle(1)
    progress = world.status(SET, "w")["updateProgress"]
    assert [each["replicaIndex"] for each in progress["currentlyUpdating"]] == [1]
    world.settle(30)
    gone = [each for each in world.deleted if each.name.startswith("w-0-sg-x-")]
    assert not gone, "what was taken of replica 1 is not back"
    world.cordoned = False
    world.settle(300)
    assert not oracle.faults
    assert ended(world)
    assert images(world, "w-0-sg-x-0-pc-b") == ["v3"]
    assert "podGangStatuses" not in world.status(SET, "w")


def test_a_replica_that_was_rolled_is_waited_for_no_longer_than_its_deadline() -> None:
    world, oracle = _rolled_in_replica_1()
    change(world, strategy=ON_DELETE)
    world.settle(2)
    world.settle(660, step=30)
    assert "podGangStatuses" not in world.status(SET, "w")
    edit(world, "pc-b", "v3")
    change(world, strategy=ROLLING_RECREATE)
    world.settle(30)
    assert any(each.name.startswith("w-0-sg-x-") for each in world.deleted)
    assert not oracle.faults


def test_no_gang_is_terminated_under_on_delete_while_a_replica_that_was_rolled_is_not_back() -> None:
    world, oracle = _rolled_in_replica_1(terminationDelay="30s")
    world.frozen = set(names(world.live("w-0-pc-a")))
    change(world, strategy=ON_DELETE)
    world.settle(2)
    for name in names(world.live("w-0-pc-a")):
        world.crash(name)
    world.settle(120)
    assert not world.told("GangTerminated")
    world.cordoned = False
    world.settle(30)
    assert [each.note.split()[0] for each in world.told("GangTerminated")] == ["w-0"]
    assert not oracle.faults
