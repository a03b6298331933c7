"""What a work set makes of decisions and reports, from its creation to its end."""

import pytest

from echelon.api.work import MANIFEST_WORK
from echelon.controllers.running import NAMES
from echelon.engine.work_set.names import FINALIZER, PLACEMENT_LABEL, SET_LABEL
from echelon.kube.errors import Invalid, NotFound
from tests.controllers.hub import NS, names
from tests.controllers.work_world import SET, WorkWorld, per_group, progressive, template, told


def test_the_controllers_run_unless_others_are_named() -> None:
    assert {"work-sets", "work-expiry"} <= set(NAMES)


def test_every_selected_cluster_gets_a_work_and_the_set_says_when_all_are_done() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a", "b", "c"])])
        world.start()
        await world.roll_out(labels={"team": "x"})
        await world.settle()
        assert FINALIZER in (await world.set()).metadata.finalizers
        assert await world.at("1") == ["a", "b", "c"]
        for work in (await world.works()).values():
            assert work.metadata.labels == {"team": "x", SET_LABEL: f"{NS}.web", PLACEMENT_LABEL: "p"}
        assert await world.counts() == {"total": 3, "desired_total": 3, "updated": 3}
        assert await world.said("PlacementRolledOut") == ("False", "Progressing")
        assert await world.said("ManifestworkApplied") == ("False", "NotAsExpected")
        await world.finish()
        assert await world.said("PlacementRolledOut") == ("True", "Complete")
        assert await world.said("PlacementVerified") == ("True", "AsExpected")
        assert await world.said("ManifestworkApplied") == ("True", "AsExpected")
        assert await world.said("RolloutBlocked") == ("False", "NotBlocked")
        assert await world.said("ClustersTimedOut") == ("False", "NoneTimedOut")
        done = {"total": 3, "applied": 3, "available": 3, "desired_total": 3, "updated": 3}
        assert await world.counts() == done
        assert await world.events() == ["GroupsStarted", "RolloutComplete"]
        await world.decide([("", ["a", "b"])])
        await world.settle(90)
        assert await world.at("1") == ["a", "b"]
        await world.hub.delete(SET, "web", NS)
        await world.settle()
        assert await world.works() == {}
        with pytest.raises(NotFound):
            await world.set()

    told(story)


def test_a_window_moves_over_the_clusters_when_it_is_created_and_when_it_is_changed() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", list("abcdef"))])
        world.start()
        await world.roll_out(progressive(maxConcurrency=2))
        await world.settle()
        for version in ("1", "2"):
            for reached in ("ab", "abcd", "abcdef"):
                assert await world.at(version) == list(reached)
                assert await world.said("PlacementRolledOut") == ("False", "Progressing")
                await world.finish()
            assert await world.said("PlacementRolledOut") == ("True", "Complete")
            if version == "1":
                await world.upgrade("2")
                await world.settle()

    told(story)


def test_failures_beyond_the_budget_stop_the_rest() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a", "b", "c"])])
        world.start()
        await world.roll_out(progressive(maxConcurrency=2, maxFailures=1))
        await world.settle()
        await world.report("a", "b", progressing="True", degraded="True")
        await world.settle()
        assert await world.at("1") == ["a", "b"]
        assert await world.said("PlacementRolledOut") == ("False", "Progressing")
        assert await world.said("RolloutBlocked") == ("True", "MaxFailuresExceeded")
        assert "RolloutMaxFailuresExceeded" in await world.events()

    told(story)


def test_the_next_cluster_waits_for_the_soak_of_the_one_before() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a", "b"])])
        world.start()
        await world.roll_out(progressive(maxConcurrency=1, minSuccessTime="60s"))
        await world.settle()
        for reached in (["a"], ["a", "b"]):
            assert await world.at("1") == reached
            await world.report(reached[-1])
            await world.settle(50)
            assert await world.at("1") == reached
            assert await world.said("PlacementRolledOut") == ("False", "Progressing")
            await world.settle(11)
        assert await world.said("PlacementRolledOut") == ("True", "Complete")

    told(story)


def test_a_soak_begins_anew_with_each_revision_though_the_agents_conditions_keep_their_time() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a", "b"])])
        world.start()
        await world.roll_out(progressive(maxConcurrency=1, minSuccessTime="60s"))
        for _ in range(2):
            await world.settle()
            await world.finish()
            await world.settle(61)
        assert await world.said("PlacementRolledOut") == ("True", "Complete")
        await world.settle(3600)
        await world.upgrade("2")
        await world.settle()
        await world.finish()  # Progressing was False all the time, and keeps its old lastTransitionTime
        await world.settle(30)
        assert await world.at("2") == ["a"]
        await world.settle(31)
        assert await world.at("2") == ["a", "b"]

    told(story)


def test_a_cluster_that_failed_makes_room_when_its_deadline_has_passed() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a", "b"])])
        world.start()
        await world.roll_out(progressive(maxConcurrency=1, maxFailures=1, progressDeadline="60s"))
        await world.settle()
        await world.report("a", progressing="True", degraded="True")
        await world.settle(50)
        assert await world.at("1") == ["a"]
        await world.settle(20)
        assert await world.at("1") == ["a", "b"]
        await world.report("b")
        await world.settle()
        assert await world.said("PlacementRolledOut") == ("False", "Progressing")
        assert await world.said("ClustersTimedOut") == ("True", "ProgressDeadlineExceeded")

    told(story)


def test_a_cluster_that_never_answers_blocks_no_longer_than_its_deadline() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a", "b"])])
        world.start()
        await world.roll_out(progressive(maxConcurrency=1, maxFailures=1, progressDeadline="60s"))
        await world.settle(58)
        assert await world.at("1") == ["a"]
        await world.settle(5)
        assert await world.at("1") == ["a", "b"]
        assert await world.standing("a") == ("TimeOut", "ProgressDeadlineExceeded")
        await world.report("a", "b")
        await world.settle()
        assert await world.said("PlacementRolledOut") == ("True", "Complete")
        assert await world.said("ClustersTimedOut") == ("False", "NoneTimedOut")

    told(story)


def test_a_set_whose_works_must_end_first_waits_for_them() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a"])])
        world.start()
        await world.roll_out(spec={"cascadeDeletionPolicy": "Foreground"})
        await world.settle()
        await world.hub.patch(MANIFEST_WORK, "web", {"metadata": {"finalizers": ["example.com/wait"]}}, "a")
        await world.hub.delete(SET, "web", NS)
        await world.settle()
        assert (await world.set()).metadata.deletion_timestamp
        assert (await world.works())["a"].metadata.deletion_timestamp
        await world.hub.patch(MANIFEST_WORK, "web", {"metadata": {"finalizers": []}}, "a")
        await world.settle()
        with pytest.raises(NotFound):
            await world.set()

    told(story)


def test_a_set_that_need_not_wait_is_gone_before_its_works() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a"])])
        world.start()
        await world.roll_out()
        await world.settle()
        await world.hub.patch(MANIFEST_WORK, "web", {"metadata": {"finalizers": ["example.com/wait"]}}, "a")
        await world.hub.delete(SET, "web", NS)
        await world.settle()
        with pytest.raises(NotFound):
            await world.set()
        assert (await world.works())["a"].metadata.deletion_timestamp

    told(story)


def test_a_name_with_dots_hears_of_its_works() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a"])])
        world.start()
        await world.roll_out(name="web.v1.example")
        await world.settle()
        await world.finish("web.v1.example")
        assert await world.said("PlacementRolledOut", "web.v1.example") == ("True", "Complete")

    told(story)


def test_a_namespace_and_name_that_are_too_long_together_are_named() -> None:
    long = "n" * 59

    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a"])])
        world.start()
        await world.roll_out(name=long)
        await world.settle()
        condition = await world.condition("ManifestworkApplied", long)
        assert (condition.status, condition.reason) == ("False", "InvalidManifestWorkName")
        assert "63" in condition.message
        assert (await world.hub.client.list(MANIFEST_WORK)).items == []
        await world.hub.delete(SET, long, NS)
        await world.settle()
        with pytest.raises(NotFound):
            await world.set(long)

    told(story)


def test_a_name_that_somebody_has_already_does_not_keep_a_set_from_a_cluster() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a"])])
        await world.hub.create(MANIFEST_WORK, "web", "a", spec=template("theirs"))
        world.start()
        await world.roll_out()
        await world.settle()
        (work,) = (await world.works()).values()
        assert work.metadata.name != "web"
        assert len((await world.hub.client.list(MANIFEST_WORK, "a")).items) == 2
        await world.finish()
        assert await world.said("PlacementRolledOut") == ("True", "Complete")

    told(story)


def test_a_restart_changes_nothing() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["a", "b"]), ("", ["c"])])
        world.start()
        await world.roll_out(per_group(), labels={"team": "x"})
        await world.settle()
        await world.finish()
        before = len(world.hub.commits)
        await world.restart()
        await world.settle()
        assert world.hub.commits[before:] == []

    told(story)


def test_many_reports_lead_to_few_plans_and_few_writes_of_the_status() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", names("c", 100))])
        world.start()
        await world.roll_out()
        await world.settle()
        planned, before = plans(world), len(world.hub.commits)
        await world.finish()
        assert plans(world) - planned <= 5
        assert sum("manifestworkreplicasets" in each for each in world.hub.commits[before:]) <= 3

    told(story)


def plans(world: WorkWorld) -> float:
    registry = world.hub.metrics.registry
    name, labels = "echelon_reconciles_total", {"controller": "work-sets", "result": "ok"}
    return registry.get_sample_value(name, labels) or pytest.fail("nothing is counted")


def test_a_hub_refuses_templates_that_cannot_work() -> None:
    async def story(world: WorkWorld) -> None:
        for manifests in ([], [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x"}}]):
            with pytest.raises(Invalid):
                await world.roll_out(template={"workload": {"manifests": manifests}})
        with pytest.raises(Invalid, match="type"):
            await world.roll_out({"progressive": {"maxConcurrency": 1}})

    told(story)
