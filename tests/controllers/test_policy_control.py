"""What people tell the rollout of a policy: pause, abort, retry, undo, approve, promote, and stops that are final."""

from echelon.api.base import JSONObject
from echelon.api.policy import POLICY
from echelon.engine.policy.content import rollback_patch
from echelon.engine.policy.names import HASH_LABEL, HELD_ANNOTATION
from echelon.engine.policy.view import read_revision
from echelon.engine.rollout.annotations import RETRIED_ANNOTATION
from echelon.engine.rollout.control import abort, approve, pause, promote, resume, retry
from echelon.kube.client import JSONPatch
from tests.controllers.hub import NS, now
from tests.controllers.policy_world import PolicyWorld, template, told
from tests.controllers.work_world import Groups, per_group, progressive

THREE = ["c1", "c2", "c3"]


async def begin(world: PolicyWorld, strategy: JSONObject | None, groups: Groups = (("", THREE),)) -> None:
    await world.place(groups)
    await world.write(strategy=strategy)
    await world.bind()
    world.start()
    await world.settle()


async def versions(world: PolicyWorld) -> dict[str, str]:
    """Return which version of the template each replica has, with a question mark where it only looks."""
    found = {}
    for cluster, each in (await world.replicas()).items():
        wanted = each.spec.policy_templates[0].object_definition["spec"]["object-templates"][0]["objectDefinition"]
        held = "?" if each.metadata.annotations.get(HELD_ANNOTATION) == "true" else ""
        assert (each.spec.remediation_action == "inform") == bool(held)
        found[cluster] = wanted["data"]["version"] + held
    return found


async def revision(world: PolicyWorld) -> str:
    """Return the revision that is wanted now."""
    return (await world.revisions())[-1].metadata.labels[HASH_LABEL]


async def fail(world: PolicyWorld, *clusters: str) -> None:
    await world.report(*clusters, compliant="NonCompliant")
    await world.settle()


class TestPause:
    """Nothing is released; what is to be looked at is looked at."""

    def test_everybody_gets_it_to_look_at_and_nobody_is_released(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive())
            await world.finish()
            await world.annotate(pause())
            await world.upgrade("2")
            await world.settle()
            assert await versions(world) == dict.fromkeys(THREE, "2?")
            assert await world.stored() == dict.fromkeys(THREE, "ToApply")
            assert await world.said("RolloutBlocked") == ("True", "Paused")
            await world.annotate(resume(now()))
            await world.settle()
            assert await versions(world) == {"c1": "2", "c2": "2?", "c3": "2?"}

        told(story)

    def test_a_cluster_that_comes_is_held(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive())
            await world.annotate(pause())
            await world.decide([("", [*THREE, "d1"])])
            await world.settle()
            assert (await versions(world))["d1"] == "1?"

        told(story)

    def test_nothing_is_removed_but_from_everywhere(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive())
            await world.annotate(pause())
            await world.decide([("", ["c1", "c2"])])
            await world.settle()
            assert await world.reach() == THREE
            await world.change(disabled=True)
            await world.settle()
            assert await world.reach() == []

        told(story)

    def test_a_word_that_cannot_be_understood_pauses(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive())
            await world.annotate({"echelon.dev/paused": "yes"})
            await world.report("c1")
            await world.settle()
            assert await world.enforced() == ["c1"]
            found = await world.condition("RolloutBlocked")
            assert (found.status, found.reason) == ("True", "Paused")
            assert 'echelon.dev/paused is "yes"' in found.message

        told(story)

    def test_everywhere_at_once_a_pause_keeps_an_update_from_everybody(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, None)
            await world.annotate(pause())
            await world.upgrade("2")
            await world.settle()
            assert await versions(world) == dict.fromkeys(THREE, "1")

        told(story)


class TestAbort:
    """A revision is given up."""

    def test_the_last_complete_revision_is_put_back_at_once(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive())
            await world.finish()
            await world.upgrade("2")
            await world.settle()
            assert await versions(world) == {"c1": "2", "c2": "2?", "c3": "2?"}
            await world.annotate(abort(await revision(world)))
            await world.settle()
            assert await versions(world) == dict.fromkeys(THREE, "1")
            assert await world.said("RolloutBlocked") == ("True", "Aborted")
            await world.report(*THREE)
            await world.settle()
            assert await versions(world) == dict.fromkeys(THREE, "1")
            assert await world.verdict() == "Failed"
            assert (await world.said("PlacementRolledOut"))[0] == "False"

        told(story)

    def test_without_a_complete_revision_what_was_released_is_held(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive(maxConcurrency=2))
            await world.report("c1")
            await world.settle()
            assert await world.enforced() == THREE
            await world.annotate(abort(await revision(world)))
            await world.settle()
            assert await versions(world) == dict.fromkeys(THREE, "1?")
            assert await world.stored() == dict.fromkeys(THREE, "ToApply")
            assert await world.verdict() == "Failed"
            await world.restart()
            await world.settle()
            assert await versions(world) == dict.fromkeys(THREE, "1?")

        told(story)

    def test_a_new_revision_leaves_the_abort_behind(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive())
            await world.annotate(abort(await revision(world)))
            await world.settle()
            await world.upgrade("2")
            await world.settle()
            assert await versions(world) == {"c1": "2", "c2": "2?", "c3": "2?"}
            assert await world.verdict() == "Progressing"

        told(story)

    def test_what_is_complete_is_not_aborted(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive())
            await world.finish()
            await world.annotate(abort(await revision(world)))
            await world.settle()
            assert await world.enforced() == THREE
            assert await world.verdict() == "Succeeded"
            assert await world.count("AbortIgnored") == 1

        told(story)

    def test_a_retry_takes_the_abort_back(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive())
            await world.annotate(abort(await revision(world)))
            await world.settle()
            assert await world.enforced() == []
            await world.annotate(retry(now()))
            await world.settle()
            assert await world.enforced() == ["c1"]

        told(story)


class TestRetry:
    """What has failed gets another chance."""

    def test_the_agent_is_asked_and_the_cluster_is_in_flight_again(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive())
            await fail(world, "c1")
            assert await world.verdict() == "Failed"
            await world.annotate(retry(now()))
            await world.settle()
            assert RETRIED_ANNOTATION in (await world.replica("c1")).metadata.annotations
            assert (await world.told())["c1"] == "Progressing"
            assert await world.verdict() == "Progressing"
            assert await world.enforced() == ["c1"]
            await world.report("c1")
            await world.settle()
            assert await world.enforced() == ["c1", "c2"]
            await world.finish()

        told(story)

    def test_who_fails_again_has_failed_again(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive())
            await fail(world, "c1")
            await world.settle(30)
            await world.annotate(retry(now()))
            await world.settle()
            assert (await world.stored())["c1"] == "Progressing"
            await fail(world, "c1")
            assert (await world.told())["c1"] == "Failed"
            assert await world.verdict() == "Failed"

        told(story)

    def test_who_timed_out_gets_another_deadline(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive(progressDeadline="60s"))
            await world.settle(70)
            assert (await world.stored())["c1"] == "TimeOut"
            await world.annotate(retry(now()))
            await world.settle(30)
            assert (await world.stored())["c1"] == "Progressing"
            await world.settle(40)
            assert (await world.stored())["c1"] == "TimeOut"

        told(story)

    def test_who_has_not_failed_is_not_asked(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive())
            await world.report("c1")
            await world.settle()
            await world.annotate(retry(now()))
            await world.settle()
            asked = [
                c for c, each in (await world.replicas()).items() if RETRIED_ANNOTATION in each.metadata.annotations
            ]
            assert "c1" not in asked
            assert "c3" not in asked

        told(story)


class TestUndo:
    """Going back to what was."""

    def test_a_stored_revision_is_put_back_as_a_rollout_of_its_own(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive())
            await world.finish()
            await world.change(remediationAction="Enforce")  # which is the same content
            await world.upgrade("2")
            await world.settle()
            first = read_revision((await world.revisions())[0])
            await world.hub.client.patch(POLICY.untyped(), "audit", JSONPatch(rollback_patch(first)), NS)
            await world.settle()
            assert await versions(world) == {"c1": "1", "c2": "1?", "c3": "1?"}
            await world.finish()
            assert await versions(world) == dict.fromkeys(THREE, "1")
            assert await world.verdict() == "Succeeded"
            assert len(await world.revisions()) == 2

        told(story)

    def test_what_the_old_content_did_not_have_goes(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, None)
            own: JSONObject = {"policy-templates": [template(remediationAction="inform")]}
            on = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "compliance": "Compliant"}
            await world.change(remediationAction=None, dependencies=[on], **own)
            await world.settle()
            first = read_revision((await world.revisions())[0])
            await world.hub.client.patch(POLICY.untyped(), "audit", JSONPatch(rollback_patch(first)), NS)
            await world.settle()
            spec = (await world.replica("c1")).spec
            assert (spec.remediation_action, spec.dependencies) == ("enforce", [])

        told(story)

    def test_ten_revisions_are_kept(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, None)
            for number in range(2, 14):
                await world.upgrade(str(number))
                await world.settle(2)
            assert len(await world.revisions()) == 10

        told(story)


class TestApprovals:
    """Groups that wait for a person's word."""

    GROUPS: Groups = (("canary", ["c1"]), ("prod", ["c2", "c3"]))

    def test_a_group_waits_for_its_approval(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, per_group(), self.GROUPS)
            await world.annotate({"echelon.dev/approval": "prod"})
            await world.report("c1")
            await world.settle()
            assert await world.enforced() == ["c1"]
            assert await world.said("RolloutBlocked") == ("True", "AwaitingApproval")
            await world.annotate(approve(await revision(world), ["prod"]))
            await world.settle()
            assert await world.enforced() == THREE

        told(story)

    def test_an_approval_is_for_one_revision(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, per_group(), self.GROUPS)
            await world.annotate({"echelon.dev/approval": "prod", **approve(await revision(world), ["prod"])})
            await world.finish()
            assert await world.enforced() == THREE
            await world.upgrade("2")
            await world.settle()
            await world.report("c1")
            await world.settle()
            assert await world.enforced() == ["c1"]

        told(story)

    def test_with_several_placements_an_approval_names_both(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await world.place([("canary", ["a"]), ("prod", ["b"])], "east")
            await world.place([("canary", ["c"]), ("prod", ["d"])], "west")
            await world.bind(name="east", placement="east")
            await world.bind(name="west", placement="west")
            await world.write(strategy=per_group(), annotations={"echelon.dev/approval": "east/prod, west/prod"})
            world.start()
            await world.settle()
            await world.report("a")
            await world.settle()
            assert await world.enforced() == ["a"]
            await world.annotate(approve(await revision(world), ["west/prod"]))
            await world.settle()
            assert await world.enforced() == ["a"]
            await world.annotate(approve(await revision(world), ["east/prod", "west/prod"]))
            await world.settle()
            assert await world.enforced() == ["a", "b"]
            await world.finish()
            assert await world.enforced() == ["a", "b", "c", "d"]

        told(story)

    def test_a_gate_that_no_placement_has_holds_everybody(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await world.place([("canary", ["a"])], "east")
            await world.place([("canary", ["b"])], "west")
            await world.bind(name="east", placement="east")
            await world.bind(name="west", placement="west")
            await world.write(strategy=per_group(), annotations={"echelon.dev/approval": "north/canary"})
            world.start()
            await world.settle()
            assert await world.enforced() == []
            assert await world.said("PlacementVerified") == ("False", "UnknownDecisionGroup")

        told(story)

    def test_a_mandatory_group_is_there_if_one_placement_has_it(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await world.place([("", ["a"])], "east")
            await world.place([("", ["b"]), ("canary", ["c"])], "west")
            await world.bind(name="east", placement="east")
            await world.bind(name="west", placement="west")
            await world.write(strategy=progressive(mandatoryDecisionGroups=[{"groupName": "canary"}]))
            world.start()
            await world.settle()
            assert await world.enforced() == ["c"]
            await world.change(rolloutStrategy=progressive(mandatoryDecisionGroups=[{"groupName": "kanary"}]))
            await world.settle()
            assert await world.said("PlacementVerified") == ("False", "UnknownDecisionGroup")

        told(story)


class TestPromote:
    """The rest of a soak is skipped."""

    def test_who_has_succeeded_has_soaked_enough(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive(minSuccessTime="1h"))
            await world.report("c1")
            await world.settle()
            await world.annotate(promote(now()))
            await world.settle()
            assert await world.enforced() == ["c1", "c2"]
            await world.report("c2")
            await world.settle()
            assert await world.enforced() == ["c1", "c2"]
            await world.settle(3600)
            await world.finish()
            await world.settle(3600)

        told(story)

    def test_who_was_promoted_stays_good_whatever_drifts(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive(minSuccessTime="1h"))
            await world.report("c1")
            await world.settle()
            await world.annotate(promote(now()))
            await world.settle()
            await fail(world, "c1")
            assert (await world.told())["c1"] == "Succeeded"
            assert await world.verdict() == "Progressing"

        told(story)


class TestFinalStops:
    """A breach that waits for a person."""

    def test_a_stop_stays_though_the_cluster_recovers_until_somebody_resumes_it(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive())
            await world.annotate({"echelon.dev/on-breach": "stop"})
            await fail(world, "c1")
            await world.report("c1")
            await world.settle()
            assert await world.enforced() == ["c1"]
            assert await world.said("RolloutBlocked") == ("True", "MaxFailuresExceeded")
            assert await world.verdict() == "Failed"
            await world.restart()
            await world.settle()
            assert await world.enforced() == ["c1"]
            await world.annotate(resume(now()))
            await world.settle()
            assert await world.enforced() == ["c1", "c2"]

        told(story)

    def test_a_new_revision_goes_on_after_a_stop(self) -> None:
        async def story(world: PolicyWorld) -> None:
            await begin(world, progressive())
            await world.annotate({"echelon.dev/on-breach": "stop"})
            await fail(world, "c1")
            await world.upgrade("2")
            await world.settle()
            assert await world.enforced() == ["c1"]
            await world.report("c1")
            await world.settle()
            assert await world.enforced() == ["c1", "c2"]

        told(story)
