"""What sets, cliques and groups report, line by line."""

from dataclasses import replace
from typing import Any

import pytest

from echelon.api.core import POD as POD_KIND
from echelon.api.grovestatus import PodCliqueUpdateProgress
from echelon.engine.plan import Create, Emit, Patch
from echelon.engine.pod_clique.accepting import NotAccepted
from echelon.engine.pod_clique.clique_status import MOST_NAMES
from echelon.engine.pod_clique.deciding import Facts, read_facts
from echelon.engine.pod_clique.plan import plan
from echelon.engine.pod_clique.set_spec import ON_DELETE, ROLLING_RECREATE
from echelon.engine.pod_clique.strategy_change import Update, clique_progress, observed_update
from echelon.engine.pod_clique.view import FailedWrite
from tests.engine.pod_clique.test_on_delete import CLIQUE, GROUP, POD, SET, workload
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


def progress(world: World) -> dict[str, Any]:
    found: dict[str, Any] = world.status(SET, "w")["updateProgress"]
    return found


# Sets


def test_a_new_set_has_a_hash_and_no_update() -> None:
    world = workload()
    assert "updateProgress" not in world.status(SET, "w")
    assert world.status(SET, "w")["currentGenerationHash"]
    assert world.status(SET, "w")["currentRevision"] in world.of("ControllerRevision")


@pytest.mark.parametrize("strategy", [None, ROLLING_RECREATE])
def test_an_update_that_rolls_starts_without_an_end(strategy: str | None) -> None:
    world = world_of(pod_clique_set([clique("a", 2, 1)], strategy=strategy))
    edit(world, "a", "v2")
    world.reconcile()
    assert "updateEndedAt" not in progress(world)
    assert len(world.told("UpdateStarted")) == 1


def test_an_update_over_a_running_one_resets_its_start_its_counters_and_its_selection() -> None:
    world = workload(ROLLING_RECREATE, replicas=2)
    edit(world, "pc-a", "v2")
    world.settle(30)
    before = progress(world)
    edit(world, ("pc-a", "pc-b"), "v3")
    world.reconcile()
    after = progress(world)
    assert after["updateStartedAt"] > before["updateStartedAt"]
    assert "updateEndedAt" not in after
    assert after.get("updatedPodCliquesCount", 0) == 0


def test_an_update_over_a_finished_on_delete_one_starts_anew() -> None:
    world = workload(ON_DELETE)
    edit(world, "pc-a", "v2")
    world.settle(5)
    before = progress(world)
    edit(world, "pc-a", "v3")
    world.settle(1)
    after = progress(world)
    assert after["updateStartedAt"] == after["updateEndedAt"] > before["updateStartedAt"]


def test_the_observed_generation_follows_once_every_child_is_as_the_set_says() -> None:
    world = workload()
    edit(world, "pc-a", "v2")
    generation = world.get(SET, "w")["metadata"]["generation"]
    world.reconcile()
    assert world.status(SET, "w")["observedGeneration"] < generation
    world.work()
    assert world.status(SET, "w")["observedGeneration"] == generation


def test_available_replicas_count_what_has_all_it_needs() -> None:
    world = workload(replicas=2)
    assert world.status(SET, "w")["availableReplicas"] == 2
    world.cordoned = True
    world.delete(POD, names(world.live("w-0-pc-a"))[0])
    world.settle(3)
    assert world.status(SET, "w")["availableReplicas"] == 2, "its minimum is still there"
    world.delete(POD, names(world.live("w-1-sg-x-0-pc-c"))[0])
    world.settle(3)
    assert world.status(SET, "w")["availableReplicas"] == 1, "a group of two lacks one"
    world.delete(CLIQUE, "w-0-pc-a")
    world.reconcile()
    assert world.status(SET, "w").get("availableReplicas", 0) == 0, "a child is missing"


def test_a_set_of_groups_only_and_a_set_of_nothing_are_available_too() -> None:
    world = world_of(pod_clique_set([clique("b", 1)], [group("sg", ["b"], 2, 1)]))
    assert world.status(SET, "w")["availableReplicas"] == 1
    empty = world_of(pod_clique_set([clique("a", 1)], replicas=0))
    assert empty.status(SET, "w").get("availableReplicas", 0) == 0
    assert empty.status(SET, "w").get("updatedReplicas", 0) == 0
    assert not empty.of(CLIQUE)


def test_strays_that_the_set_owns_are_not_counted() -> None:
    world = workload()
    stray = world.get(CLIQUE, "w-0-pc-a")
    world.create({**stray, "metadata": {**stray["metadata"], "name": "w-0-other"}, "status": {}})
    world.settle(5)
    assert "w-0-other" in world.of(CLIQUE), "what has no place in any size of the set is left alone"
    assert world.status(SET, "w")["availableReplicas"] == 1


def test_counts_of_updated_cliques_and_groups_are_of_this_update() -> None:
    world = workload(ON_DELETE, replicas=2)
    assert "updatedPodCliquesCount" not in world.status(SET, "w").get("updateProgress", {})
    edit(world, ("pc-a", "pc-b"), "v2")
    world.settle(3)
    found = progress(world)
    totals = (found["totalPodCliquesCount"], found["totalPodCliqueScalingGroupsCount"])
    assert totals == (2, 2), "standalone cliques only"
    assert found.get("updatedPodCliquesCount", 0) == found.get("updatedPodCliqueScalingGroupsCount", 0) == 0
    for name in names(world.live("w-0-pc-a")):
        world.delete(POD, name)
    for index in (0, 1):
        world.delete(POD, names(world.live(f"w-1-sg-x-{index}-pc-b"))[0])
    world.settle(20)
    found = progress(world)
    assert (found["updatedPodCliquesCount"], found["updatedPodCliqueScalingGroupsCount"]) == (1, 1)


def test_the_selector_is_published_and_put_right() -> None:
    world = workload()
    wanted = "app.kubernetes.io/managed-by=grove-operator,app.kubernetes.io/part-of=w"
    assert world.status(SET, "w")["hpaPodSelector"] == wanted
    world.patch(SET, "w", {"status": {"hpaPodSelector": "old=one"}})
    world.work()
    assert world.status(SET, "w")["hpaPodSelector"] == wanted


def test_outdated_pods_are_named_counted_and_dated() -> None:
    world = world_of(pod_clique_set([clique("a", MOST_NAMES + 20, 1)], strategy=ON_DELETE))
    world.settle(20)
    edit(world, "a", "v2")
    world.settle(1)
    since = world.status(SET, "w")["outdatedSince"]
    world.settle(5)
    world.delete(POD, names(world.live("w-0-a"))[0])
    world.settle(10)
    for status in (world.status(SET, "w"), world.status(CLIQUE, "w-0-a")):
        assert status["outdatedPodsCount"] == MOST_NAMES + 19
        assert len(status["outdatedPods"]) == MOST_NAMES
        assert set(status["outdatedPods"]) < set(names(world.live("w-0-a")))
        assert status["outdatedSince"] == since
    edit(world, "a", "v1")
    world.settle(2)
    assert world.status(SET, "w")["outdatedPodsCount"] == 1


def test_a_set_that_is_not_accepted_says_why_and_its_pods_go_on() -> None:
    world = workload(ON_DELETE)
    (body,) = world.of(SET).values()
    cliques = [*body["spec"]["template"]["cliques"]]
    cliques[0] = {**cliques[0], "spec": {**cliques[0]["spec"], "podSpec": {"containers": []}}}
    world.patch(SET, "w", {"spec": {"template": {"cliques": cliques}}})
    assert isinstance(world.view().set.accepted, NotAccepted)
    world.settle(5)
    found = world.condition(SET, "w", "Accepted")
    assert found is not None
    assert found["status"] == "False"
    assert len([event for event in world.events if event.type == "Warning"]) == 1
    world.delete(POD, names(world.live("w-0-pc-a"))[0])
    world.settle(15)
    assert len(world.live("w-0-pc-a")) == 2


def test_a_set_of_which_nothing_can_be_made_says_why_and_nothing_is_made_or_removed() -> None:
    body = pod_clique_set([clique("a", 1)], strategy=ON_DELETE)
    body["spec"]["template"]["resourceClaimTemplates"] = [{"name": "r", "templateSpec": {}}]
    world = world_of(body)
    assert not world.of(CLIQUE)
    found = world.condition(SET, "w", "Accepted")
    assert found is not None
    assert (found["status"], found["reason"]) == ("False", "Unsupported")
    assert world.plans[-1].empty


# Cliques


def test_counters_count_live_pods_only() -> None:
    world = world_of(pod_clique_set([clique("a", 4, 1)]), ends_in=60)
    world.settle(10)
    world.cordoned = True
    pods = names(world.live("w-0-a"))
    world.delete(POD, pods[0])
    world.fail(pods[1])
    world.settle(2)
    status = world.status(CLIQUE, "w-0-a")
    counted = [status[name] for name in ("replicas", "readyReplicas", "scheduledReplicas", "updatedReplicas")]
    assert counted == [3, 2, 2, 3], "the replacement of the one that is going, and the two that run"


def test_gated_pods_are_counted() -> None:
    world = world_of(pod_clique_set([clique("a", 2, 2)]), settled=False)
    seen = set()
    for _ in range(12):
        world.reconcile()
        seen.add(world.store.get((CLIQUE, "w-0-a"), {}).get("status", {}).get("scheduleGatedReplicas", 0))
    assert seen >= {0, 2}


def test_the_selector_of_a_clique_is_for_standalone_ones() -> None:
    world = workload()
    assert world.status(CLIQUE, "w-0-pc-a")["hpaPodSelector"].endswith("grove.io/podclique=w-0-pc-a")
    assert "hpaPodSelector" not in world.status(CLIQUE, "w-0-sg-x-0-pc-b")
    assert world.status(GROUP, "w-0-sg-x")["selector"].endswith("grove.io/podcliquescalinggroup=w-0-sg-x")


def breach(world: World, name: str) -> tuple[str, str]:
    found = world.condition(CLIQUE, name, "MinAvailableBreached")
    assert found is not None
    return found["status"], found["reason"]


def test_a_clique_has_too_few_pods_with_a_node_too_few_ready_or_enough() -> None:
    world = world_of(pod_clique_set([clique("a", 3, 2)], terminationDelay="9h"))
    assert breach(world, "w-0-a") == ("False", "SufficientReadyPods")
    pods = names(world.live("w-0-a"))
    for name in pods[:2]:
        world.crash(name)
        world.frozen.add(name)
    world.settle(3)
    assert breach(world, "w-0-a") == ("True", "InsufficientReadyPods")
    world.frozen.clear()
    world.settle(5)
    assert breach(world, "w-0-a") == ("False", "SufficientReadyPods")
    world.cordoned = True
    for name in pods[:2]:
        world.delete(POD, name)
    world.settle(3)
    assert breach(world, "w-0-a") == ("True", "ScheduledReplicasBelowMinAvailable")
    world.delete(POD, pods[2])
    world.settle(3)
    assert breach(world, "w-0-a") == ("True", "ScheduledReplicasBelowMinAvailable")
    found = world.condition(CLIQUE, "w-0-a", "PodCliqueScheduled")
    assert found is not None
    assert (found["status"], found["reason"]) == ("False", "InsufficientScheduledPods")


def test_the_time_of_a_condition_moves_only_when_its_status_does() -> None:
    world = world_of(pod_clique_set([clique("a", 3, 1)]))
    before = world.condition(CLIQUE, "w-0-a", "PodCliqueScheduled")
    world.cordoned = True
    world.delete(POD, names(world.live("w-0-a"))[0])
    world.settle(5)
    after = world.condition(CLIQUE, "w-0-a", "PodCliqueScheduled")
    assert before is not None
    assert after is not None
    assert after["message"] != before["message"]
    assert after["lastTransitionTime"] == before["lastTransitionTime"]


def test_a_clique_that_never_had_nodes_says_so_since_it_was_made() -> None:
    world = world_of(pod_clique_set([clique("a", 1)]), settled=False)
    world.cordoned = True
    while not world.of(CLIQUE):
        world.reconcile()
    born = world.get(CLIQUE, "w-0-a")["metadata"]["creationTimestamp"]
    world.tick(100)  # the first look at it comes late
    world.work()
    found = world.condition(CLIQUE, "w-0-a", "PodCliqueScheduled")
    assert found is not None
    assert found["lastTransitionTime"] == born


def test_the_status_of_a_clique_whose_pods_match_converges_without_any_progress() -> None:
    """Upstream 672: it stayed behind for ever when its progress was absent."""
    world = workload(ROLLING_RECREATE)
    for name in world.of(CLIQUE):
        world.patch(CLIQUE, name, {"status": {"updateProgress": None, "currentPodTemplateHash": None}})
    world.settle(2)
    for name in world.of(CLIQUE):
        assert world.status(CLIQUE, name)["currentPodTemplateHash"]
    assert world.status(SET, "w")["updatedReplicas"] == 1


def test_hashes_do_not_advance_while_pods_of_the_new_template_cannot_start() -> None:
    world = world_of(pod_clique_set([clique("a", 1)], strategy=ON_DELETE, terminationDelay="9h"))
    old = world.status(CLIQUE, "w-0-a")["currentPodTemplateHash"]
    world.homeless.add("v2")
    edit(world, "a", "v2")
    world.settle(2)
    world.delete(POD, names(world.live("w-0-a"))[0])
    world.settle(5)
    assert world.status(CLIQUE, "w-0-a")["updatedReplicas"] == 1
    assert world.status(CLIQUE, "w-0-a")["currentPodTemplateHash"] == old


def test_new_pods_that_are_going_do_not_keep_the_hashes_from_advancing() -> None:
    """Upstream 565: terminating pods counted, so updated and replicas were never equal."""
    world = world_of(pod_clique_set([clique("a", 3, 1)]), ends_in=500)
    edit(world, "a", "v2")
    world.settle(8)
    world.delete(POD, names(pod for pod in world.live("w-0-a") if image(pod) == "v2" and is_ready(pod))[0])
    world.settle(60)
    going = [pod for pod in world.of(POD).values() if not is_live(pod) and image(pod) == "v2"]
    assert len(going) == 1
    status = world.status(CLIQUE, "w-0-a")
    assert status["updatedReplicas"] == status["replicas"] == 3
    assert status["currentPodTemplateHash"] == status["updateProgress"]["podTemplateHash"]


H, OLD = "now", "before"


def standing(world: World) -> Facts:
    view = world.view()
    spec = view.set.spec
    assert spec is not None
    return read_facts(view, spec, world.now)


@pytest.mark.parametrize(
    ("update", "before", "after"),
    [
        (Update(H, on_delete=False, rolling=False), None, "ended"),
        (Update(H, on_delete=False, rolling=True, selected=frozenset((0,))), None, "ended"),
        (Update(H, on_delete=False, rolling=True, selected=frozenset((1,))), None, None),
        (Update(H, on_delete=False, rolling=True, selected=frozenset((1,))), (OLD, ""), "closed"),
        (Update(H, on_delete=False, rolling=True, selected=frozenset((1,))), (OLD, "then"), "kept"),
        (Update(H, on_delete=False, rolling=True, selected=frozenset((0,))), (OLD, "then"), "ended"),
        (Update(H, on_delete=False, rolling=True, selected=frozenset((0,))), (H, "then"), "kept"),
        (Update(H, on_delete=False, rolling=False, starting=True), (OLD, "then"), "kept"),
        (Update(H, on_delete=True, rolling=False), None, "ended"),
        (Update(H, on_delete=True, rolling=False), (OLD, "then"), "ended"),
        (Update(H, on_delete=True, rolling=False), (H, ""), "ended"),
        (Update(H, on_delete=True, rolling=False), (H, "then"), "kept"),
    ],
)
def test_when_the_progress_of_a_clique_begins_anew(
    update: Update, before: tuple[str, str] | None, after: str | None
) -> None:
    world = world_of(pod_clique_set([clique("a", 1)]))
    clique_standing = standing(world).cliques["w-0-a"]
    own = clique_standing.expected.spec.hash
    known = before and PodCliqueUpdateProgress(
        update_started_at="then",
        update_ended_at=before[1],
        pod_clique_set_generation_hash=before[0],
        pod_template_hash=own,
    )
    found = clique_progress(clique_standing, known, update, "today", is_out=False)
    if after is None or after == "kept":
        assert found == known
        return
    assert found is not None
    assert found.update_ended_at == "today"
    assert found.pod_clique_set_generation_hash == (OLD if after == "closed" else H)


def test_members_of_a_group_have_no_progress_of_their_own_when_it_rolls() -> None:
    world = workload(ON_DELETE)
    edit(world, "pc-b", "v2")
    world.settle(2)
    assert "updateProgress" in world.status(CLIQUE, "w-0-sg-x-0-pc-b")
    change(world, strategy=ROLLING_RECREATE)
    world.settle(60)
    assert "updateProgress" not in world.status(CLIQUE, "w-0-sg-x-0-pc-b")


def test_a_roll_is_only_seen_as_one_when_it_is_of_the_present_template() -> None:
    world = workload(ROLLING_RECREATE)
    edit(world, "pc-a", "v2")
    world.settle(2)
    facts = standing(world)
    assert observed_update(facts.spec, facts.view.set.status).rolling
    edit(world, "pc-a", "v3")
    facts = standing(world)
    found = observed_update(facts.spec, facts.view.set.status)
    assert found.starting
    assert not found.rolling
    assert not found.selected


# Groups


def group_breach(world: World) -> tuple[str, str]:
    found = world.condition(GROUP, "w-0-sg", "MinAvailableBreached")
    assert found is not None
    return found["status"], found["reason"].removesuffix("AvailablePodCliqueScalingGroupReplicas")


@pytest.mark.parametrize(
    ("replicas", "minimum", "broken", "wanted"),
    [(5, 2, 0, "False"), (5, 2, 1, "False"), (2, 1, 1, "False"), (2, 1, 2, "True"), (3, 2, 2, "True")],
)
def test_a_group_has_too_few_healthy_replicas_or_enough(replicas: int, minimum: int, broken: int, wanted: str) -> None:
    world = world_of(pod_clique_set([clique("b", 1)], [group("sg", ["b"], replicas, minimum)], terminationDelay="9h"))
    world.cordoned = True
    for index in range(broken):
        world.delete(POD, names(world.live(f"w-0-sg-{index}-b"))[0])
    world.settle(3)
    assert group_breach(world) == (wanted, "Insufficient" if wanted == "True" else "Sufficient")


def test_a_replica_without_one_of_its_cliques_is_not_healthy() -> None:
    body = pod_clique_set([clique("b", 1), clique("c", 1)], [group("sg", ["b", "c"], 2, 2)], terminationDelay="9h")
    world = world_of(body)
    world.delete(CLIQUE, "w-0-sg-1-c")
    world.reconcile()
    assert group_breach(world) == ("True", "Insufficient")
    status = world.status(GROUP, "w-0-sg")
    assert (status["scheduledReplicas"], status["availableReplicas"], status["updatedReplicas"]) == (1, 1, 1)
    world.settle(10)
    assert group_breach(world) == ("False", "Sufficient")


def test_a_replica_has_nodes_then_works_then_is_updated() -> None:
    world = world_of(pod_clique_set([clique("b", 1)], [group("sg", ["b"], 1, 1)]), settled=False, starts_in=8)
    seen: list[tuple[int, ...]] = []
    for _ in range(25):
        world.reconcile()
        status = world.store.get((GROUP, "w-0-sg"), {}).get("status", {})
        found = tuple(status.get(name, 0) for name in ("scheduledReplicas", "availableReplicas", "updatedReplicas"))
        if not seen or seen[-1] != found:
            seen.append(found)
        world.tick()
    assert seen == [(0, 0, 0), (1, 0, 0), (1, 1, 1)]


def test_the_counts_of_a_group_are_bounded_by_its_size() -> None:
    world = world_of(pod_clique_set([clique("b", 1)], [group("sg", ["b"], 3, 1)]), ends_in=60)
    scale(world, GROUP, "w-0-sg", 1)
    for _ in range(4):
        world.reconcile()
        status = world.status(GROUP, "w-0-sg")
        assert status["replicas"] in (1, 3)
        assert status["availableReplicas"] <= status["replicas"]
        assert status["updatedReplicas"] <= status["replicas"]
    assert is_ready(world.live("w-0-sg-0-b")[0])


def test_writes_that_were_not_taken_are_told_in_the_status_and_gone_when_they_are() -> None:
    world = workload()
    failed = FailedWrite(POD_KIND, "w-0-pc-a-x", "create", "Forbidden", "exceeded quota: gpus", world.now)
    planned = plan(replace(world.view(), failed=(failed,)), world.now)
    assert planned.status is not None
    (error,) = planned.status.body["status"]["lastErrors"]
    assert error["code"] == "Forbidden"
    assert error["description"] == "create Pod w-0-pc-a-x: exceeded quota: gpus"
    assert [event.reason for event in planned.actions if isinstance(event, Emit)] == ["WriteFailed"]
    world.carry_out(planned, world.store)
    world.work()
    assert "lastErrors" not in world.status(SET, "w")


def test_hashes_do_not_advance_while_a_clique_has_not_got_its_template() -> None:
    world = workload(ON_DELETE)
    before = world.status(CLIQUE, "w-0-pc-a")["currentPodTemplateHash"]
    world.refuse = lambda write: isinstance(write, Patch) and write.kind.kind == CLIQUE and not write.subresource
    edit(world, "pc-a", "v2")
    for _ in range(5):
        world.reconcile()
        world.tick()
    assert world.status(CLIQUE, "w-0-pc-a")["currentPodTemplateHash"] == before
    assert world.status(SET, "w").get("updatedReplicas", 0) == 0
    world.delete(POD, names(world.live("w-0-pc-a"))[0])
    for _ in range(5):
        world.reconcile()
        world.tick()
    assert len(world.live("w-0-pc-a")) == 1, "no pod is made from a template that is not wanted any more"


def test_while_a_group_is_rolled_nobody_knows_whether_it_has_too_few_replicas() -> None:
    world = world_of(pod_clique_set([clique("b", 1)], [group("sg", ["b"], 2, 2)]))
    edit(world, "b", "v2")
    seen = set()
    for _ in range(30):
        world.work()
        seen.add(group_breach(world))
        world.tick()
    assert ("Unknown", "UpdateInProgress") in seen
    assert not any(status == "True" for status, _ in seen)
    assert group_breach(world) == ("False", "Sufficient")


def test_a_group_with_one_incomplete_and_one_broken_replica() -> None:
    for broken, wanted in ((True, "True"), (False, "False")):
        body = pod_clique_set([clique("b", 1), clique("c", 1)], [group("sg", ["b", "c"], 2, 1)], terminationDelay="9h")
        world = world_of(body)
        world.cordoned = True
        world.refuse = lambda write: isinstance(write, Create) and write.kind.kind == CLIQUE
        world.delete(CLIQUE, "w-0-sg-1-c")
        if broken:
            world.delete(POD, names(world.live("w-0-sg-0-b"))[0])
        for _ in range(4):
            world.reconcile()
            world.tick()
        assert group_breach(world)[0] == wanted
