"""A plan as a value: the same from the same view, bounded, in the right order, and empty at rest."""

from dataclasses import replace
from datetime import timedelta

import pytest

from echelon.api.base import JSONObject
from echelon.engine.plan import NOTHING, Create, Delete, InOrder, Patch, Plan, Together, Write
from echelon.engine.pod_clique import syncing
from echelon.engine.pod_clique.plan import LEAST_PODS, MOST_PODS, plan
from echelon.engine.pod_clique.reporting import MOST_STATUSES
from echelon.engine.pod_clique.set_spec import ON_DELETE, ROLLING_RECREATE
from tests.engine.pod_clique.test_on_delete import CLIQUE, GROUP, POD, SET, images, workload
from tests.engine.pod_clique.world import (
    World,
    change,
    clique,
    edit,
    group,
    names,
    pod_clique_set,
    scale,
    world_of,
)


def rows(planned: Plan) -> list[tuple[Write, ...]]:
    """Return the rows of writes of a plan, each of which is carried out in order."""
    found: list[tuple[Write, ...]] = []
    for action in planned.actions:
        for each in action.actions if isinstance(action, Together) else (action,):
            writes = each.actions if isinstance(each, InOrder) else (each,)
            inner = [one for write in writes for one in (write.actions if isinstance(write, Together) else (write,))]
            found.append(tuple(write for write in inner if isinstance(write, Create | Patch | Delete)))
    return [row for row in found if row]


def test_at_rest_the_plan_is_empty_and_nothing_is_due() -> None:
    for strategy in (ON_DELETE, ROLLING_RECREATE):
        world = workload(strategy, replicas=2)
        assert plan(world.view(), world.now) == NOTHING
        edit(world, ("pc-a", "pc-b"), "v2")
        world.settle(120)
        world.forget()
        assert plan(world.view(), world.now + timedelta(days=3)) == NOTHING


def test_a_plan_made_twice_is_equal_with_and_without_what_an_earlier_one_left_behind() -> None:
    world = workload(ROLLING_RECREATE, replicas=2)
    edit(world, ("pc-a", "pc-b"), "v2")
    for _ in range(40):
        first = plan(world.view(), world.now)
        assert plan(world.view(), world.now) == first
        world.forget()
        assert plan(world.view(), world.now) == first
        world.carry_out(first, dict(world.store))
        world.tick()


def test_no_object_is_written_twice_side_by_side() -> None:
    world = workload(ROLLING_RECREATE, replicas=2)
    edit(world, ("pc-a", "pc-b", "pc-c"), "v2")
    scale(world, CLIQUE, "w-0-pc-a", 4)
    for _ in range(60):
        planned = world.reconcile()
        found = [{(write.kind.kind, write.name) for write in row} for row in rows(planned)]
        everything = [key for row in found for key in row]
        assert len(everything) == len(set(everything))
        world.tick()


def test_a_set_that_is_being_deleted_is_left_to_the_garbage_collector() -> None:
    world = workload()
    world.patch(SET, "w", {"metadata": {"deletionTimestamp": "2026-11-01T12:00:00Z", "finalizers": ["example.com/x"]}})
    world.delete(POD, names(world.live("w-0-pc-a"))[0], force=True)
    assert plan(world.view(), world.now) == NOTHING


def test_deleting_a_set_takes_everything_along() -> None:
    world = workload()
    world.delete(SET, "w")
    world.tick(5)
    assert not world.of(CLIQUE)
    assert not world.of(POD)
    assert not world.store


def test_the_revision_is_stored_before_any_child_gets_it() -> None:
    world = workload(ON_DELETE)
    edit(world, "pc-a", "v2")
    first = plan(world.view(), world.now)
    kinds = [
        write.kind.kind for row in rows(first) for write in row if not (isinstance(write, Patch) and write.subresource)
    ]
    assert kinds == ["ControllerRevision"]


def test_a_pod_is_deleted_only_as_it_was_seen() -> None:
    world = workload(ROLLING_RECREATE)
    edit(world, "pc-a", "v2")
    while True:
        planned = plan(world.view(), world.now)
        deletions = [write for row in rows(planned) for write in row if isinstance(write, Delete)]
        if deletions:
            break
        world.carry_out(planned, dict(world.store))
    (deletion,) = deletions
    body = world.get(POD, deletion.name)
    assert (deletion.uid, deletion.resource_version) == (body["metadata"]["uid"], body["metadata"]["resourceVersion"])


def test_an_ended_pod_goes_only_after_its_replacement_was_made() -> None:
    world = workload()
    world.fail(names(world.live("w-0-pc-a"))[0])
    world.settle(9)
    world.tick(2)
    row = next(row for row in rows(plan(world.view(), world.now)) if isinstance(row[0], Create))
    assert [type(write) for write in row] == [Create, Delete]


def test_a_large_set_is_made_a_bounded_number_of_pods_at_a_time() -> None:
    world = world_of(pod_clique_set([clique("a", 3 * MOST_PODS, 1)]), settled=False)
    most = 0
    for _ in range(15):
        planned = world.reconcile()
        made = sum(isinstance(write, Create) and write.kind.kind == POD for row in rows(planned) for write in row)
        most = max(most, made)
        if made >= LEAST_PODS and len(world.live("w-0-a")) < 3 * MOST_PODS:
            assert planned.look_again_after is not None
    assert LEAST_PODS <= most <= MOST_PODS
    assert len(world.live("w-0-a")) == 3 * MOST_PODS


def test_many_statuses_are_written_a_bounded_number_at_a_time() -> None:
    groups = [group("sg", ["b"], MOST_STATUSES * 2, 1)]
    world = world_of(pod_clique_set([clique("b", 1)], groups), settled=False)
    for _ in range(60):
        planned = world.reconcile()
        statuses = [
            write
            for row in rows(planned)
            for write in row
            if isinstance(write, Patch) and write.subresource and write.kind.kind == CLIQUE
        ]
        assert len(statuses) <= MOST_STATUSES
        world.tick()
    assert world.status(SET, "w")["availableReplicas"] == 1
    assert world.status(GROUP, "w-0-sg")["availableReplicas"] == MOST_STATUSES * 2


def test_a_process_that_begins_compares_a_bounded_number_of_children_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syncing, "MOST_COMPARED", 10)
    world = world_of(pod_clique_set([clique("b", 1)], [group("sg", ["b"], 16, 1)]))
    world.forget()
    world.patch(CLIQUE, "w-0-sg-15-b", {"spec": {"roleName": "changed by hand"}})
    rounds = 0
    while world.get(CLIQUE, "w-0-sg-15-b")["spec"]["roleName"] != "b":
        planned, rounds = world.reconcile(), rounds + 1
        assert rounds > 1 or planned.look_again_after is not None
        assert rounds < 5
    assert rounds == 2
    world.settle(5)
    assert world.reconcile() == NOTHING


def test_pods_in_bursts_start_slowly() -> None:
    world = world_of(pod_clique_set([clique("a", 3)]), settled=False)
    while not world.live("w-0-a"):
        planned = world.reconcile()
    (burst,) = [action for action in planned.actions if isinstance(action, Together)]
    assert burst.slow_start


@pytest.mark.parametrize("stop", range(8))
def test_a_controller_that_dies_after_any_write_of_a_roll_goes_on_as_if_nothing_had_happened(stop: int) -> None:
    world = workload(ROLLING_RECREATE)
    edit(world, ("pc-a", "pc-b"), "v2")
    for _ in range(120):
        world.reconcile(stop_after=stop if _ < 60 else None)
        world.forget()
        world.tick()
    world.settle(60)
    assert images(world, "w-0-pc-a") == ["v2", "v2"]
    assert images(world, "w-0-sg-x-0-pc-b") == ["v2"]
    assert "updateEndedAt" in world.status(SET, "w")["updateProgress"]
    assert plan(world.view(), world.now) == NOTHING


def test_deleting_a_replica_of_a_group_by_hand_works_by_its_cliques_and_by_its_pods() -> None:
    for by_cliques in (True, False):
        world = workload(ON_DELETE)
        edit(world, ("pc-b", "pc-c"), "v2")
        world.settle(2)
        for name in ("w-0-sg-x-1-pc-b", "w-0-sg-x-1-pc-c"):
            if by_cliques:
                world.delete(CLIQUE, name)
            else:
                for pod in names(world.live(name)):
                    world.delete(POD, pod)
        world.settle(20)
        assert images(world, "w-0-sg-x-1-pc-b") == ["v2"]
        assert images(world, "w-0-sg-x-1-pc-c") == ["v2"] * 3
        assert images(world, "w-0-sg-x-0-pc-b") == ["v1"]
        assert world.status(GROUP, "w-0-sg-x")["updatedReplicas"] == 1


def test_cliques_whose_names_end_alike_keep_their_own_templates() -> None:
    cliques = [clique("worker", 1), clique("gpu-worker", 1)]
    world = world_of(pod_clique_set(cliques, strategy=ON_DELETE))
    edit(world, "gpu-worker", "v2")
    world.settle(2)
    for name in names(world.of(POD).values()):
        world.delete(POD, name)
    world.settle(15)
    assert images(world, "w-0-worker") == ["v1"]
    assert images(world, "w-0-gpu-worker") == ["v2"]


def test_taking_over_from_another_operator_deletes_nothing() -> None:
    """Pods and cliques have hashes of somebody else, and the very content that is wanted."""
    world = workload(ROLLING_RECREATE)
    label = "grove.io/pod-template-hash"
    for kind in (CLIQUE, POD):
        for name, body in world.of(kind).items():
            foreign = f"5d{body['metadata']['labels'][label][-6:]}"
            world.patch(kind, name, {"metadata": {"labels": {label: foreign}}})
    for name in list(world.of("ControllerRevision")):
        world.delete("ControllerRevision", name)
    world.patch(SET, "w", {"status": {"currentGenerationHash": "ffff", "currentRevision": None}})
    before = {body["metadata"]["uid"] for body in world.of(POD).values()}
    world.settle(60)
    assert {body["metadata"]["uid"] for body in world.of(POD).values()} == before
    assert world.status(SET, "w")["updatedReplicas"] == 1
    assert "updateEndedAt" in world.status(SET, "w")["updateProgress"]


def test_a_clique_that_somebody_edited_is_put_right() -> None:
    world = workload(ON_DELETE)
    changed: JSONObject = {"spec": {"podSpec": {"containers": [{"name": "c", "image": "evil"}]}}}
    world.patch(CLIQUE, "w-0-pc-a", changed)
    world.work()
    assert world.get(CLIQUE, "w-0-pc-a")["spec"]["podSpec"]["containers"][0]["image"] == "v1"


def test_an_old_view_of_the_set_makes_no_pods_and_asks_for_a_new_one() -> None:
    world = workload(ON_DELETE)
    world.delete(POD, names(world.live("w-0-pc-a"))[0], force=True)
    planned = plan(replace(world.view(), reread=False), world.now)
    assert planned.read is not None
    assert not [write for row in rows(planned) for write in row if isinstance(write, Create)]


def test_a_change_of_size_and_strategy_alone_is_no_update() -> None:
    world: World = workload(ROLLING_RECREATE)
    change(world, replicas=2)
    scale(world, GROUP, "w-0-sg-x", 3)
    world.settle(30)
    change(world, strategy=ON_DELETE)
    world.settle(5)
    assert "updateProgress" not in world.status(SET, "w")
