"""How policies are enforced in turn: order, places, soaks, deadlines and budgets, and what happens in the middle."""

import asyncio
from typing import Any

import pytest

from echelon.api.base import JSONObject
from echelon.api.policy import POLICY
from echelon.api.policy_binding import POLICY_SET
from echelon.engine.policy.names import EVENTS_ANNOTATION, HELD_ANNOTATION
from echelon.engine.rollout.control import pause
from tests.controllers.hub import NS, now
from tests.controllers.policy_world import PolicyWorld, template, told
from tests.controllers.strict import end
from tests.controllers.work_world import Groups, per_group, progressive

FOUR = ["c1", "c2", "c3", "c4"]


async def begin(world: PolicyWorld, strategy: JSONObject | None, groups: Groups = (("", FOUR),), **fields: Any) -> None:
    """Roll a policy out, as far as it goes without a report."""
    await world.place(groups)
    await world.write(strategy=strategy, **fields)
    await world.bind()
    world.start()
    await world.settle()


def watch_releases(world: PolicyWorld) -> list[str]:
    """Return a list that gets the clusters in the order in which they are enforced."""
    order: list[str] = []

    def look(change: Any) -> None:
        entry = change.entry
        if entry.key.name == f"{NS}.audit" and change.type != "DELETED":
            enforces = entry.object["spec"].get("remediationAction") == "enforce"
            if enforces and entry.key.namespace not in order:
                order.append(entry.key.namespace)
            elif not enforces and entry.key.namespace in order:
                order.remove(entry.key.namespace)

    world.hub.client._cluster.store.on_commit(look)
    return order


def watch_first_pass(world: PolicyWorld) -> list[tuple[int, int]]:
    """Return a list that gets, with each commit, how many clusters wait and say so, and how many are enforced."""
    seen: list[tuple[int, int]] = []
    states: dict[str, tuple[str, str]] = {}

    def look(change: Any) -> None:
        entry = change.entry
        if entry.key.name == f"{NS}.audit" and change.type != "DELETED":
            status = entry.object.get("status", {}).get("rolloutStatus", "")
            states[entry.key.namespace] = (entry.object["spec"]["remediationAction"], status)
            waiting = sum(each == ("inform", "ToApply") for each in states.values())
            seen.append((waiting, sum(action == "enforce" for action, _ in states.values())))

    world.hub.client._cluster.store.on_commit(look)
    return seen


class TestFirstPass:
    """Everybody looks first."""

    def test_nothing_is_enforced_before_everybody_says_to_wait(self) -> None:
        async def story(world: PolicyWorld) -> None:
            seen = watch_first_pass(world)
            await begin(world, progressive(maxConcurrency=4))
            first = next(number for number, (_, enforced) in enumerate(seen) if enforced)
            assert seen[first - 1] == (4, 0)

        told(story)

    @pytest.mark.parametrize("most", [1, 3])
    def test_a_fleet_that_is_written_in_parts_is_complete_before_anybody_is_enforced(
        self, most: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("echelon.engine.policy.plan.MOST_WRITES", most)

        async def story(world: PolicyWorld) -> None:
            seen = watch_first_pass(world)
            await begin(world, progressive(maxConcurrency=4))
            first = next(number for number, (_, enforced) in enumerate(seen) if enforced)
            assert seen[first - 1] == (4, 0)
            assert await world.enforced() == FOUR
            assert set((await world.told()).values()) == {"Progressing"}
            await world.finish()
            assert await world.verdict() == "Succeeded"

        told(story)

    def test_who_waits_already_waits_for_those_who_have_nothing_to_look_at_yet(self) -> None:
        async def story(world: PolicyWorld) -> None:
            seen = watch_first_pass(world)
            await world.place([("", ["c1", "c2"])])
            await world.write(strategy=progressive(maxConcurrency=4), annotations=pause())
            await world.bind()
            task = world.start()
            await world.settle()
            await end(task)
            world.hub.controllers.clear()
            await world.decide([("", FOUR)])
            await world.annotate({"echelon.dev/paused": None})
            world.start()
            await world.settle()
            first = next(number for number, (_, enforced) in enumerate(seen) if enforced)
            assert seen[first - 1] == (4, 0)

        told(story)

    def test_a_held_replica_says_so_to_its_agent_in_the_write_of_its_content(self) -> None:
        async def story(world: PolicyWorld) -> None:
            written: dict[str, list[tuple[str, bool, bool]]] = {}

            def look(change: Any) -> None:
                entry = change.entry
                if entry.key.name == f"{NS}.audit" and change.type != "DELETED":
                    notes = entry.object["metadata"]["annotations"]
                    held, at = notes.get(HELD_ANNOTATION) == "true", "echelon.dev/written-at" in notes
                    each = entry.object["spec"]["remediationAction"], held, at
                    written.setdefault(entry.key.namespace, []).append(each)

            world.hub.client._cluster.store.on_commit(look)
            await begin(world, progressive())
            await world.finish()
            for each in written.values():
                assert set(each) == {("inform", True, True), ("enforce", False, True)}

        told(story)

    def test_an_inform_policy_waits_for_nobody_and_has_succeeded_when_it_was_looked_at(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive(), spec={"remediationAction": "Inform"})
            assert await world.stored() == dict.fromkeys(FOUR, "Progressing")
            assert not any(HELD_ANNOTATION in each.metadata.annotations for each in (await world.replicas()).values())
            await world.report(*FOUR, compliant="NonCompliant")
            await world.settle()
            assert await world.verdict() == "Succeeded"
            assert (await world.policy()).status.compliant == "NonCompliant"

        told(story)

    def test_templates_that_enforce_themselves_are_held_by_the_action_of_the_replica(self) -> None:
        async def story(world: PolicyWorld) -> None:
            own = [template(remediationAction="enforce")]
            await begin(world, progressive(), spec={"remediationAction": None, "policy-templates": own})
            actions = {c: each.spec.remediation_action for c, each in (await world.replicas()).items()}
            assert actions == {"c1": "", "c2": "inform", "c3": "inform", "c4": "inform"}
            await world.finish()
            assert {each.spec.remediation_action for each in (await world.replicas()).values()} == {""}
            assert await world.verdict() == "Succeeded"

        told(story)

    @pytest.mark.parametrize("action", ["enforce", None])
    def test_what_is_never_enforced_goes_everywhere_at_once(self, action: str | None) -> None:
        async def story(world: PolicyWorld) -> None:
            own = [template(remediationAction="informonly")]
            await begin(world, progressive(), spec={"remediationAction": action, "policy-templates": own})
            assert await world.stored() == dict.fromkeys(FOUR, "Progressing")

        told(story)


class TestWindow:
    """Clusters in turn, so many at a time."""

    @pytest.mark.parametrize(
        ("limit", "first", "then"),
        [
            ({"maxConcurrency": 1}, ["c1"], ["c1", "c2"]),
            ({"maxConcurrency": 2}, ["c1", "c2"], FOUR),
            ({"maxConcurrency": "50%"}, ["c1", "c2"], FOUR),
            ({"maxConcurrency": "26%"}, ["c1", "c2"], FOUR),
            ({}, ["c1"], ["c1", "c2"]),
            ({"maxConcurrency": 0}, ["c1"], ["c1", "c2"]),
            ({"maxConcurrency": 10}, FOUR, FOUR),
        ],
    )
    def test_so_many_are_enforced_at_a_time_by_name(self, limit: JSONObject, first: list[str], then: list[str]) -> None:
        async def story(world: PolicyWorld) -> None:
            order = watch_releases(world)
            await begin(world, progressive(**limit), [("", ["c4", "c2"]), ("", ["c3", "c1"])])
            assert await world.enforced() == first
            await world.report(*first)
            await world.settle()
            assert await world.enforced() == then
            await world.finish()
            assert sorted(order) == FOUR
            if len(first) == 1:
                assert order == FOUR

        told(story)

    def test_a_soak_holds_the_place(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive(minSuccessTime="60s"))
            await world.report("c1")
            await world.settle(50)
            assert await world.enforced() == ["c1"]
            assert await world.verdict() == "Progressing"
            await world.settle(15)
            assert await world.enforced() == ["c1", "c2"]

        told(story)

    def test_a_soak_goes_on_over_a_restart(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive(minSuccessTime="60s"))
            await world.report("c1")
            await world.settle(40)
            await world.restart()
            await world.settle(10)
            assert await world.enforced() == ["c1"]
            await world.settle(15)
            assert await world.enforced() == ["c1", "c2"]

        told(story)

    def test_a_soak_is_over_when_the_hub_has_seen_success_for_so_long_whatever_the_agents_clock_says(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive(minSuccessTime="60s"))
            replica = await world.replica("c1")
            for moment in ("2020-01-01T00:00:00Z", "2036-01-01T00:00:00Z"):
                status: JSONObject = {
                    "compliant": "Compliant",
                    "observedGeneration": replica.metadata.generation,
                    "rolloutStatus": "Succeeded",
                    "rolloutLastTransitionTime": moment,
                    "details": [{"templateMeta": {"name": "demo"}, "compliant": "Compliant"}],
                }
                await world.hub.patch(POLICY, f"{NS}.audit", {"status": status}, "c1", "status")
                await world.settle(25)
                assert await world.enforced() == ["c1"]
            await world.settle(15)
            assert await world.enforced() == ["c1", "c2"]

        told(story)

    def test_a_deadline_frees_the_place_where_a_failure_is_tolerated(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive(progressDeadline="60s", maxFailures=1))
            await world.settle(50)
            assert await world.enforced() == ["c1"]
            await world.settle(10)
            assert await world.enforced() == ["c1", "c2"]
            assert (await world.stored())["c1"] == "TimeOut"
            assert await world.verdict() == "Progressing"
            await world.settle(60)
            assert await world.verdict() == "Failed"
            assert await world.enforced() == ["c1", "c2"]

        told(story)

    def test_waiting_for_dependencies_runs_against_the_deadline(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive(progressDeadline="60s"))
            await world.report("c1", compliant="Pending")
            await world.settle(30)
            assert (await world.told())["c1"] == "Progressing"
            await world.settle(30)
            assert (await world.told())["c1"] == "TimeOut"

        told(story)

    def test_a_deadline_runs_from_the_release_whatever_is_reported_in_between(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive(progressDeadline="60s"))
            for compliant in ("NonCompliant", "Pending", "NonCompliant"):
                await world.settle(15)
                await world.report("c1", compliant=compliant)
            await world.settle(15)
            assert (await world.told())["c1"] == "TimeOut"
            assert (await world.stored())["c1"] == "TimeOut"

        told(story)

    def test_more_failures_than_are_tolerated_stop_it_and_recovery_resumes_it(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive(maxConcurrency=2, maxFailures=1))
            await world.report("c1", "c2", compliant="NonCompliant")
            await world.settle()
            assert await world.enforced() == ["c1", "c2"]
            assert await world.verdict() == "Failed"
            assert await world.said("RolloutBlocked") == ("True", "MaxFailuresExceeded")
            await world.report("c2")
            await world.settle()
            assert await world.verdict() == "Progressing"
            assert await world.enforced() == ["c1", "c2", "c3"]

        told(story)

    def test_late_success_after_the_deadline_counts(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive(progressDeadline="60s"))
            await world.settle(70)
            assert await world.verdict() == "Failed"
            assert (await world.stored())["c1"] == "TimeOut"
            await world.report("c1")
            await world.settle()
            assert (await world.told())["c1"] == "Succeeded"
            assert await world.enforced() == ["c1", "c2"]
            await world.finish()

        told(story)

    def test_a_failure_after_the_deadline_changes_nothing(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive(progressDeadline="60s"))
            await world.settle(70)
            await world.report("c1", compliant="NonCompliant")
            await world.settle()
            assert (await world.told())["c1"] == "TimeOut"
            assert (await world.stored())["c1"] == "TimeOut"

        told(story)


class TestGroups:
    """Group after group."""

    CANARY: Groups = (("canary", ["c4"]), ("", ["c1", "c2"]), ("", ["c3"]))

    def test_groups_go_by_index_each_whole(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, per_group(), self.CANARY)
            for enforced in (["c4"], ["c1", "c2", "c4"], FOUR):
                assert await world.enforced() == enforced
                await world.report(*enforced)
                await world.settle()
            assert await world.verdict() == "Succeeded"

        told(story)

    def test_a_soak_holds_the_next_group(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, per_group(minSuccessTime="60s"), self.CANARY)
            await world.report("c4")
            await world.settle(50)
            assert await world.enforced() == ["c4"]
            await world.settle(15)
            assert await world.enforced() == ["c1", "c2", "c4"]

        told(story)

    @pytest.mark.parametrize("kind", [progressive, per_group])
    def test_mandatory_groups_come_first_and_tolerate_no_failure(self, kind: Any) -> None:
        async def story(world: PolicyWorld) -> None:
            groups = [("", ["c1", "c2"]), ("canary", ["c3", "c4"])]
            await begin(world, kind(maxFailures=1, mandatoryDecisionGroups=[{"groupName": "canary"}]), groups)
            assert await world.enforced() == ["c3", "c4"]
            await world.report("c3")
            await world.report("c4", compliant="NonCompliant")
            await world.settle()
            assert await world.enforced() == ["c3", "c4"]
            assert await world.verdict() == "Failed"
            await world.report("c4")
            await world.settle()
            assert (await world.enforced())[0] == "c1"

        told(story)

    def test_groups_of_one_name_are_walked_one_after_the_other(self) -> None:
        async def story(world: PolicyWorld) -> None:
            groups = [("prod", ["c1"]), ("prod", ["c2"]), ("", ["c3"])]
            await begin(world, per_group(mandatoryDecisionGroups=[{"groupName": "prod"}]), groups)
            for enforced in (["c1"], ["c1", "c2"], ["c1", "c2", "c3"]):
                assert await world.enforced() == enforced
                await world.report(*enforced)
                await world.settle()

        told(story)

    def test_a_tolerated_failure_lets_the_next_group_go(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, per_group(maxFailures="50%"), [("", ["c1", "c2"]), ("", ["c3", "c4"])])
            await world.report("c1", compliant="NonCompliant")
            await world.report("c2")
            await world.settle()
            assert await world.enforced() == FOUR

        told(story)

    @pytest.mark.parametrize(
        ("group", "reason"),
        [({"groupName": "mistyped"}, "UnknownDecisionGroup"), ({"groupIndex": 7}, "UnknownDecisionGroup")],
    )
    def test_a_mandatory_group_that_is_not_there_holds_everybody(self, group: JSONObject, reason: str) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, per_group(mandatoryDecisionGroups=[group]), self.CANARY)
            assert await world.enforced() == []
            assert await world.stored() == dict.fromkeys(FOUR, "ToApply")
            assert await world.said("PlacementVerified") == ("False", reason)

        told(story)


class TestSeveralPlacements:
    """One strategy over all placements of a policy."""

    async def _begin(self, world: PolicyWorld, strategy: JSONObject, **placements: Groups) -> None:
        for name, groups in placements.items():
            await world.place(groups, name)
            await world.bind(name=f"to-{name}", placement=name)
        await world.write(strategy=strategy)
        world.start()
        await world.settle()

    async def _walks(self, world: PolicyWorld, *waves: str) -> None:
        """See who is enforced, wave by wave; clusters are called by one letter here."""
        enforced: set[str] = set()
        for wave in waves:
            enforced |= set(wave)
            assert await world.enforced() == sorted(enforced)
            await world.report(*sorted(enforced))
            await world.settle()
        assert await world.verdict() == "Succeeded"

    def test_groups_of_one_placement_are_finished_before_those_of_the_next_by_name(self) -> None:
        async def story(world: PolicyWorld) -> None:
            west: Groups = [("", ["a"]), ("", ["b"])]
            east: Groups = [("", ["y"]), ("", ["z"])]
            await self._begin(world, per_group(), west=west, east=east)
            await self._walks(world, "y", "z", "a", "b")

        told(story)

    def test_mandatory_groups_are_those_of_each_placement(self) -> None:
        async def story(world: PolicyWorld) -> None:
            east: Groups = [("", ["a"]), ("canary", ["b"])]
            west: Groups = [("", ["c"]), ("canary", ["d"])]
            mandatory = {"mandatoryDecisionGroups": [{"groupName": "canary"}]}
            await self._begin(world, per_group(**mandatory), east=east, west=west)
            await self._walks(world, "b", "a", "d", "c")

        told(story)

    def test_one_by_one_mandatory_groups_of_all_placements_come_first(self) -> None:
        async def story(world: PolicyWorld) -> None:
            east: Groups = [("", ["a"]), ("canary", ["b"])]
            west: Groups = [("", ["c"]), ("canary", ["d"])]
            mandatory = {"mandatoryDecisionGroups": [{"groupName": "canary"}]}
            await self._begin(world, progressive(**mandatory), east=east, west=west)
            await self._walks(world, "b", "d", "a", "c")

        told(story)

    def test_one_by_one_a_mandatory_group_keeps_whom_another_placement_selects_too(self) -> None:
        async def story(world: PolicyWorld) -> None:
            east: Groups = [("", ["a", "c"])]
            west: Groups = [("", ["b"]), ("canary", ["c"])]
            mandatory = {"mandatoryDecisionGroups": [{"groupName": "canary"}]}
            await self._begin(world, progressive(**mandatory), east=east, west=west)
            await self._walks(world, "c", "a", "b")

        told(story)

    def test_the_union_is_walked_by_name_and_who_is_in_both_counts_once(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await self._begin(world, progressive(maxConcurrency="50%"), one=[("", ["a", "c"])], two=[("", ["b", "c"])])
            await self._walks(world, "ab", "c")
            status = (await world.policy()).status
            assert [each.clustername for each in status.status] == ["a", "b", "c"]
            assert status.rollout is not None
            assert status.rollout.succeeded == 3

        told(story)

    def test_who_is_in_both_is_where_the_first_placement_has_it(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await self._begin(world, per_group(), one=[("", ["a", "c"])], two=[("", ["c"]), ("", ["b"])])
            await self._walks(world, "ac", "b")

        told(story)

    def test_a_rule_is_one_group_among_placements(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await world.rule("a", "b", name="older")
            await world.bind(name="by-rule", placement="older", kind="PlacementRule")
            await self._begin(world, per_group(), newer=[("", ["y"]), ("", ["z"])])
            await self._walks(world, "y", "z", "ab")

        told(story)

    def test_a_failure_in_one_placement_keeps_the_next_from_starting(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await self._begin(world, per_group(), one=[("", ["a"])], two=[("", ["b"])])
            await world.report("a", compliant="NonCompliant")
            await world.settle()
            assert await world.enforced() == ["a"]
            assert await world.verdict() == "Failed"

        told(story)

    def test_a_placement_that_is_missing_holds_a_rollout_that_goes_in_turn(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await world.bind(name="wrong", placement="missing")
            await self._begin(world, progressive(), one=[("", ["a"])])
            assert await world.enforced() == []
            assert "missing" in (await world.condition("PlacementVerified")).message

        told(story)

    def test_placements_of_restricted_bindings_take_no_part(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await world.place([("canary", ["z"])], "extra")
            await world.bind(name="extra", placement="extra", subFilter="restricted")
            await self._begin(world, per_group(), one=[("", ["a"]), ("", ["b"])])
            await self._walks(world, "a", "b")

        told(story)


class TestChanges:
    """What people do in the middle of it."""

    def test_an_update_in_the_middle_begins_again_with_everybody(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive())
            await world.report("c1")
            await world.settle()
            assert await world.enforced() == ["c1", "c2"]
            await world.upgrade("2")
            await world.settle()
            assert await world.enforced() == ["c1"]
            assert await world.stored() == {"c1": "Progressing", "c2": "ToApply", "c3": "ToApply", "c4": "ToApply"}
            await world.finish()
            assert await world.verdict() == "Succeeded"

        told(story)

    @pytest.mark.parametrize("change", [{"labels": {"team": "blue"}}, {"annotations": {"example.com/why": "x"}}])
    def test_a_change_of_labels_or_annotations_begins_nothing(self, change: JSONObject) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive())
            await world.report("c1")
            await world.settle()
            await world.hub.patch(POLICY, "audit", {"metadata": change}, NS)
            await world.settle()
            assert await world.enforced() == ["c1", "c2"]
            assert (await world.told())["c1"] == "Succeeded"

        told(story)

    def test_a_change_of_the_strategy_goes_on_where_it_is(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive())
            await world.report("c1")
            await world.settle()
            await world.change(rolloutStrategy=progressive(maxConcurrency=2))
            await world.settle()
            assert await world.enforced() == ["c1", "c2", "c3"]
            assert await world.told() == {
                "c1": "Succeeded",
                "c2": "Progressing",
                "c3": "Progressing",
                "c4": "ToApply",
            }
            for each in (await world.replicas()).values():
                assert each.spec.rollout_strategy is not None
                assert each.spec.rollout_strategy.progressive is not None
                assert each.spec.rollout_strategy.progressive.max_concurrency == 2
            assert len(await world.revisions()) == 1

        told(story)

    def test_a_change_of_the_strategy_mends_no_failure(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive(maxConcurrency=2))
            await world.report("c1", compliant="NonCompliant")
            await world.report("c2")
            await world.settle()
            assert await world.enforced() == ["c1", "c2"]
            await world.change(rolloutStrategy=progressive(maxConcurrency=3))
            await world.settle(30)
            assert await world.enforced() == ["c1", "c2"]
            assert (await world.told())["c1"] == "Failed"
            assert await world.verdict() == "Failed"
            await world.report("c1")
            await world.settle()
            assert await world.enforced() == FOUR

        told(story)

    def test_a_strategy_that_becomes_all_releases_everybody(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive())
            await world.change(rolloutStrategy={"type": "All", "progressive": None})
            await world.settle()
            assert await world.enforced() == FOUR
            assert not any(HELD_ANNOTATION in each.metadata.annotations for each in (await world.replicas()).values())

        told(story)

    def test_a_strategy_that_is_no_longer_all_takes_nobody_back(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, None)
            await world.change(rolloutStrategy=progressive())
            await world.settle()
            assert await world.enforced() == FOUR

        told(story)

    def test_going_back_by_hand_is_a_rollout_of_its_own(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive())
            await world.finish()
            await world.upgrade("2")
            await world.settle()
            await world.report("c1", compliant="NonCompliant")
            await world.settle()
            assert await world.verdict() == "Failed"
            await world.upgrade("1")
            await world.settle()
            assert await world.enforced() == ["c1"]
            assert await world.verdict() == "Progressing"
            await world.finish()
            assert await world.enforced() == FOUR
            assert await world.verdict() == "Succeeded"

        told(story)

    def test_inform_to_enforce_begins_without_writing_the_content_again(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive(), spec={"remediationAction": "Inform"})
            await world.finish()
            before = {c: each.metadata.generation for c, each in (await world.replicas()).items()}
            await world.change(remediationAction="enforce")
            await world.settle()
            assert await world.enforced() == ["c1"]
            after = {c: each.metadata.generation for c, each in (await world.replicas()).items() if c != "c1"}
            assert after == {c: each for c, each in before.items() if c != "c1"}
            assert await world.stored() == {"c1": "Progressing", "c2": "ToApply", "c3": "ToApply", "c4": "ToApply"}
            await world.finish()
            assert await world.verdict() == "Succeeded"

        told(story)

    def test_enforce_to_inform_reaches_everybody_at_once(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive())
            await world.report("c1", compliant="NonCompliant")
            await world.settle()
            await world.change(remediationAction="inform")
            await world.settle()
            assert await world.enforced() == []
            assert await world.stored() == dict.fromkeys(FOUR, "Progressing")
            await world.report(*FOUR, compliant="NonCompliant")
            await world.settle()
            assert await world.verdict() == "Succeeded"

        told(story)

    def test_a_policy_that_is_disabled_in_the_middle_starts_over_when_it_is_enabled(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive())
            await world.report("c1")
            await world.settle()
            await world.change(disabled=True)
            await world.settle()
            assert await world.reach() == []
            assert await world.verdict() == ""
            await world.change(disabled=False)
            await world.settle()
            assert await world.enforced() == ["c1"]
            assert await world.verdict() == "Progressing"
            await world.finish()
            assert await world.verdict() == "Succeeded"

        told(story)

    def test_a_changed_set_among_the_dependencies_begins_again(self) -> None:
        async def story(world: PolicyWorld) -> None:
            on = {"apiVersion": "policy.open-cluster-management.io/v1beta1", "kind": "PolicySet", "name": "basics"}
            await world.policy_set("basics", "one")
            await begin(world, progressive(), spec={"dependencies": [{**on, "compliance": "Compliant"}]})
            await world.finish()
            await world.hub.patch(POLICY_SET, "basics", {"spec": {"policies": ["one", "two"]}}, NS)
            await world.settle()
            assert await world.enforced() == ["c1"]
            assert len(await world.revisions()) == 2
            await world.finish()
            assert await world.verdict() == "Succeeded"

        told(story)

    def test_a_policy_that_is_deleted_and_made_again_starts_over(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive())
            await world.report("c1")
            await world.settle()
            await world.hub.delete(POLICY, "audit", NS)
            await world.settle()
            assert await world.reach() == []
            await world.write(strategy=progressive())
            await world.settle()
            assert await world.enforced() == ["c1"]

        told(story)


class TestFleet:
    """Clusters that come and go in the middle of it."""

    def test_a_cluster_that_comes_while_it_runs_waits_for_its_turn(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive(), [("", ["c2", "c3"])])
            await world.decide([("", ["c1", "c2", "c3"])])
            await world.settle()
            assert await world.stored() == {"c1": "ToApply", "c2": "Progressing", "c3": "ToApply"}
            await world.report("c2")
            await world.settle()
            assert await world.enforced() == ["c1", "c2"]

        told(story)

    def test_clusters_that_come_later_have_a_rollout_of_their_own_with_shares_of_all(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive(maxConcurrency="34%"))
            await world.finish()
            await world.decide([("", [*FOUR, "d1", "d2"])])
            await world.settle()
            assert await world.verdict() == "Progressing"
            # A third of six, and so both at a time; of the two that are new it would be one.
            assert await world.enforced() == [*FOUR, "d1", "d2"]
            await world.finish()
            assert await world.verdict() == "Succeeded"

        told(story)

    def test_one_that_comes_later_takes_nobody_back(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive())
            await world.finish()
            before = {c: each.metadata.generation for c, each in (await world.replicas()).items()}
            await world.decide([("", [*FOUR, "d1"])])
            await world.settle()
            after = {c: each.metadata.generation for c, each in (await world.replicas()).items()}
            assert {c: each for c, each in after.items() if c in FOUR} == before
            assert await world.told() == {**dict.fromkeys(FOUR, "Succeeded"), "d1": "Progressing"}
            assert await world.verdict() == "Progressing"

        told(story)

    def test_a_cluster_that_joins_an_earlier_group_is_served_before_later_ones_go_on(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, per_group(), [("canary", ["c1"]), ("", ["c2"]), ("", ["c3"])])
            await world.report("c1")
            await world.settle()
            assert await world.enforced() == ["c1", "c2"]
            await world.decide([("canary", ["c1", "d1"]), ("", ["c2"]), ("", ["c3"])])
            await world.settle()
            assert await world.enforced() == ["c1", "c2", "d1"]
            await world.report("c2")
            await world.settle()
            assert await world.enforced() == ["c1", "c2", "d1"]
            await world.report("d1")
            await world.settle()
            assert await world.enforced() == ["c1", "c2", "c3", "d1"]

        told(story)

    def test_one_that_comes_while_it_has_failed_waits(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive(maxConcurrency=3), [("", ["c1"])])
            await world.report("c1", compliant="NonCompliant")
            await world.settle()
            await world.decide([("", ["c1", "c2"])])
            await world.settle()
            assert await world.stored() == {"c1": "Failed", "c2": "ToApply"}
            assert await world.verdict() == "Failed"

        told(story)

    def test_a_cluster_that_blocks_and_is_deselected_blocks_no_more(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive())
            await world.report("c1", compliant="NonCompliant")
            await world.settle()
            assert await world.verdict() == "Failed"
            await world.decide([("", ["c2", "c3", "c4"])])
            await world.settle()
            assert await world.reach() == ["c2", "c3", "c4"]
            assert await world.enforced() == ["c2"]
            assert await world.verdict() == "Progressing"

        told(story)

    def test_groups_that_are_cut_anew_are_followed(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, per_group(), [("", ["c1"]), ("", ["c2", "c3", "c4"])])
            await world.decide([("", ["c1", "c4"]), ("", ["c2", "c3"])])
            await world.settle()
            assert await world.enforced() == ["c1", "c4"]

        told(story)


class TestLater:
    """What reports mean that come when nobody expects them."""

    def test_who_has_succeeded_and_soaked_stays_so_whatever_drifts(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive(minSuccessTime="10s"))
            await world.report("c1")
            await world.settle(15)
            assert await world.enforced() == ["c1", "c2"]
            await world.report("c1", compliant="NonCompliant")
            await world.settle()
            assert await world.told() == {
                "c1": "Succeeded",
                "c2": "Progressing",
                "c3": "ToApply",
                "c4": "ToApply",
            }
            assert (await world.policy()).status.compliant == "NonCompliant"
            await world.report("c2")
            await world.settle(15)
            assert await world.enforced() == ["c1", "c2", "c3"]

        told(story)

    def test_who_fails_in_its_soak_has_failed(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive(minSuccessTime="60s"))
            await world.report("c1")
            await world.settle(30)
            await world.report("c1", compliant="NonCompliant")
            await world.settle()
            assert (await world.told())["c1"] == "Failed"
            assert await world.verdict() == "Failed"
            await world.report("c1")
            await world.settle(50)
            assert await world.enforced() == ["c1"]
            await world.settle(15)
            assert await world.enforced() == ["c1", "c2"]

        told(story)

    @pytest.mark.parametrize(("fails_after", "word"), [(30, "Failed"), (70, "Succeeded")])
    def test_who_fails_while_nobody_looks_is_judged_by_when_it_failed(self, fails_after: float, word: str) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive(minSuccessTime="60s"))
            await world.report("c1")
            await world.settle()
            await world.hub.stop()
            world.hub.controllers.clear()
            await asyncio.sleep(fails_after)
            await world.report("c1", compliant="NonCompliant")
            await asyncio.sleep(100)
            world.start()
            await world.settle()
            assert (await world.told())["c1"] == word
            assert await world.enforced() == (["c1"] if word == "Failed" else ["c1", "c2"])

        told(story)

    def test_drift_after_the_end_stops_no_cluster_that_comes_later(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive())
            await world.finish()
            await world.report("c2", compliant="NonCompliant")
            await world.settle()
            await world.decide([("", [*FOUR, "d1"])])
            await world.settle()
            assert await world.enforced() == [*FOUR, "d1"]

        told(story)

    @pytest.mark.parametrize("verdict", ["Succeeded", "Failed"])
    def test_a_verdict_on_an_older_replica_never_counts(self, verdict: str) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive())
            replica = await world.replica("c1")
            status: JSONObject = {
                "compliant": "Compliant",
                "observedGeneration": replica.metadata.generation - 1,
                "rolloutStatus": verdict,
                "rolloutLastTransitionTime": now().strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
            await world.hub.patch(POLICY, f"{NS}.audit", {"status": status}, "c1", "status")
            await world.settle(30)
            assert (await world.told())["c1"] == "Progressing"
            assert await world.enforced() == ["c1"]

        told(story)

    def test_what_a_held_replica_reports_is_no_verdict(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive())
            replica = await world.replica("c2")
            status: JSONObject = {
                "compliant": "NonCompliant",
                "observedGeneration": replica.metadata.generation,
                "rolloutStatus": "Failed",
            }
            await world.hub.patch(POLICY, f"{NS}.audit", {"status": status}, "c2", "status")
            await world.settle()
            assert (await world.told())["c2"] == "ToApply"
            assert (await world.stored())["c2"] == "ToApply"
            assert await world.verdict() == "Progressing"

        told(story)


class TestOtherAgents:
    """Agents that know nothing of rollouts, and overwrite what they do not know."""

    async def _report(self, world: PolicyWorld, *clusters: str, compliant: str = "Compliant", **events: str) -> None:
        """Have stock agents replace the whole status; events by template, the newest of each."""
        for cluster in clusters:
            replica = await world.hub.client.get(POLICY.untyped(), f"{NS}.audit", cluster)
            moment = now().strftime("%Y-%m-%dT%H:%M:%SZ")
            replica["status"] = {
                "compliant": compliant,
                "details": [
                    {
                        "templateMeta": {"name": name},
                        "compliant": compliant,
                        "history": [{"eventName": event, "message": f"{compliant}; x", "lastTimestamp": moment}],
                    }
                    for name, event in events.items()
                ],
            }
            fields = ("rolloutStatus", "rolloutLastTransitionTime", "observedGeneration")
            patch = {**dict.fromkeys(fields), **replica["status"]}
            await world.hub.patch(POLICY, f"{NS}.audit", {"status": patch}, cluster, "status")

    def test_a_later_report_than_the_release_is_the_verdict(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive())
            await world.annotate({"echelon.dev/paused": "true"})
            await self._report(world, *FOUR, compliant="NonCompliant", demo="demo.1")
            await world.upgrade("2")
            await world.settle()
            await self._report(world, *FOUR, compliant="NonCompliant", demo="demo.2")
            await world.annotate({"echelon.dev/paused": None})
            await world.settle()
            assert await world.enforced() == ["c1"]
            replica = await world.replica("c1")
            assert replica.metadata.annotations[EVENTS_ANNOTATION] == '{"demo":"demo.2"}'
            assert (await world.told())["c1"] == "Progressing"
            await self._report(world, "c1", compliant="NonCompliant", demo="demo.3")
            await world.settle()
            assert (await world.told())["c1"] == "Failed"
            await self._report(world, "c1", demo="demo.4")
            await world.settle()
            assert (await world.told())["c1"] == "Succeeded"
            assert await world.enforced() == ["c1", "c2"]

        told(story)

    def test_nobody_fights_over_the_status(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive())
            await self._report(world, *FOUR, demo="demo.1")
            await world.settle()
            done = len(world.hub.commits)
            await self._report(world, *FOUR, demo="demo.1")
            await world.settle(60)
            assert [each for each in world.hub.commits[done + 4 :] if "audit" in each] == []
            assert (await world.stored())["c2"] == ""

        told(story)

    def test_an_inform_policy_has_succeeded_when_they_looked_at_it(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, None, spec={"remediationAction": "inform"})
            await self._report(world, *FOUR, compliant="NonCompliant", demo="demo.1")
            await world.settle()
            assert await world.verdict() == "Succeeded"

        told(story)

    def test_a_template_that_a_release_does_not_change_needs_no_later_report(self) -> None:
        async def story(world: PolicyWorld) -> None:
            both = [template(), template(name="look", remediationAction="informonly")]
            await world.place([("", FOUR)])
            await world.write(strategy=progressive(), spec={"policy-templates": both})
            await world.annotate({"echelon.dev/paused": "true"})
            await world.bind()
            world.start()
            await world.settle()
            await self._report(world, *FOUR, demo="demo.1", look="look.1")
            await world.annotate({"echelon.dev/paused": None})
            await world.settle()
            await self._report(world, "c1", demo="demo.1", look="look.1")
            await world.settle()
            assert (await world.told())["c1"] == "Progressing"
            await self._report(world, "c1", demo="demo.2", look="look.1")
            await world.settle()
            assert (await world.told())["c1"] == "Succeeded"

        told(story)

    def test_a_template_that_an_update_does_not_change_needs_no_later_report(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, None, spec={"policy-templates": [template(), template(name="other")]})
            await self._report(world, *FOUR, demo="demo.1", other="other.1")
            await world.settle()
            assert await world.verdict() == "Succeeded"
            both: JSONObject = {"policy-templates": [template("2"), template(name="other")]}
            await world.change(**both)
            await world.settle()
            assert await world.verdict() == "Progressing"
            await self._report(world, *FOUR, demo="demo.2", other="other.1")
            await world.settle()
            assert await world.verdict() == "Succeeded"

        told(story)

    def test_who_is_released_before_it_was_seen_held_needs_reports_on_what_the_update_changed(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive(), spec={"policy-templates": [template(), template(name="other")]})
            for number in range(1, 5):
                await self._report(world, *FOUR, demo=f"demo.{number}", other=f"other.{number}")
                await world.settle()
            assert await world.verdict() == "Succeeded"
            both: JSONObject = {"policy-templates": [template("2"), template(name="other")]}
            await world.change(**both)
            await world.settle()
            assert await world.enforced() == ["c1"]
            assert (await world.told())["c1"] == "Progressing"
            await self._report(world, "c1", demo="demo.5", other="other.4")
            await world.settle()
            assert (await world.told())["c1"] == "Succeeded"
            await self._report(world, "c3", demo="demo.5", other="other.5")  # which has looked at it meanwhile
            await self._report(world, "c2", demo="demo.5", other="other.4")
            await world.settle()
            assert await world.enforced() == ["c1", "c2", "c3"]
            await self._report(world, "c3", demo="demo.6", other="other.5")
            await world.settle()
            assert (await world.told())["c3"] == "Progressing"
            await self._report(world, "c3", demo="demo.6", other="other.6")
            await world.settle()
            assert (await world.told())["c3"] == "Succeeded"

        told(story)

    def test_a_template_that_was_never_reported_on_is_waited_for(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, None, spec={"policy-templates": [template(), template(name="other")]})
            await self._report(world, *FOUR, demo="demo.1")
            await world.settle()
            assert await world.verdict() == "Progressing"

        told(story)
