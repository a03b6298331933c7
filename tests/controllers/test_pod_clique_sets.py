"""PodCliqueSets on a simulated cluster: what is made of them, and what becomes of it."""

from typing import Any

from echelon.api.controller_revisions import CONTROLLER_REVISION
from echelon.api.core import POD, SERVICE
from echelon.api.grove import POD_CLIQUE, POD_CLIQUE_SET
from echelon.api.kinds import Kind
from echelon.api.podgangs import POD_GANG
from tests.controllers.clique_world import NS, CliqueWorld, clique, group, set_of, told

MIXED = set_of(
    clique("front"), clique("lead", 1), clique("work", 2), podCliqueScalingGroups=[group("pool", "lead", "work")]
)


def test_a_set_comes_to_life_with_its_cliques_groups_gangs_and_pods() -> None:
    async def story(world: CliqueWorld) -> None:
        world.start()
        await world.apply(MIXED)
        await world.settle()
        assert world.ready() == len(world.names()) == 2 + 2 * 3
        status = (await world.set()).status
        assert (status.replicas, status.available_replicas, status.updated_replicas) == (1, 1, 1)
        assert status.observed_generation == 1
        assert await world.condition("Accepted") == ("True", "Accepted")
        gangs = [each.metadata.name for each in (await world.client.list(POD_GANG, NS)).items]
        assert gangs == ["w-0", "w-0-pool-0"]
        assert [each.metadata.name for each in (await world.client.list(SERVICE, NS)).items] == ["w-0"]

    told(story)


def test_an_edit_under_on_delete_deletes_nothing_and_a_deleted_pod_comes_back_with_it() -> None:
    async def story(world: CliqueWorld) -> None:
        world.start()
        await world.apply(set_of(clique("front", 3, minAvailable=1), strategy="OnDelete"))
        await world.settle()
        before = world.names()
        await world.roll("v2")
        await world.settle()
        assert (world.names(), world.log.ended) == (before, [])
        status = (await world.set()).status
        assert status.update_progress is not None
        assert status.update_progress.update_started_at == status.update_progress.update_ended_at != ""
        assert (status.outdated_pods_count, sorted(status.outdated_pods)) == (3, before)
        await world.delete(before[0])
        await world.settle()
        assert world.images() == ["v1", "v1", "v2"]
        await world.scale("w-0-front", 1)
        await world.settle()
        assert world.images() == ["v2"]
        assert (await world.set()).status.outdated_pods_count == 0

    told(story)


def test_whoever_edits_and_deletes_in_one_breath_gets_the_new_template() -> None:
    async def story(world: CliqueWorld) -> None:
        world.start()
        await world.apply(set_of(clique("front", 4, minAvailable=1), strategy="OnDelete"))
        await world.settle()
        await world.roll("v2")
        await world.delete(*world.names())
        await world.settle()
        assert world.images() == ["v2"] * 4

    for seed in range(20):
        told(story, seed)


def test_a_rolling_update_replaces_every_pod_one_at_a_time() -> None:
    async def story(world: CliqueWorld) -> None:
        world.start()
        await world.apply(set_of(clique("front", 3), clique("back", 2), replicas=2))
        await world.settle()
        before = set(world.names())
        await world.roll("v2")
        await world.settle(600)
        assert world.images() == ["v2"] * 10
        assert not before & set(world.names())
        status = (await world.set()).status
        assert (status.updated_replicas, status.available_replicas) == (2, 2)
        assert status.update_progress is not None
        assert status.update_progress.update_ended_at

    told(story)


def test_a_deleted_set_takes_everything_along() -> None:
    async def story(world: CliqueWorld) -> None:
        world.start()
        await world.apply(MIXED)
        await world.settle()
        await world.delete("w", kind=POD_CLIQUE_SET)
        await world.settle()
        kinds: tuple[Kind[Any], ...] = (POD, POD_CLIQUE, POD_GANG, SERVICE, CONTROLLER_REVISION)
        for kind in kinds:
            assert (await world.client.list(kind, NS)).items == []

    told(story)


def test_a_set_that_comes_back_under_its_name_is_another_one() -> None:
    async def story(world: CliqueWorld) -> None:
        world.start()
        await world.apply(MIXED)
        await world.settle()
        before = set(world.names())
        await world.delete("w", kind=POD_CLIQUE_SET)
        await world.apply(MIXED)
        await world.settle()
        assert world.ready() == len(world.names()) == 8
        assert not before & set(world.names())
        assert len((await world.client.list(CONTROLLER_REVISION, NS)).items) == 1

    for seed in range(5):
        told(story, seed)


def test_a_deleted_clique_comes_back_and_its_pods_do_not_meet_those_of_the_first() -> None:
    async def story(world: CliqueWorld) -> None:
        world.start()
        await world.apply(MIXED)
        await world.settle()
        before = world.names("w-0-front")
        await world.leave_garbage()
        await world.delete("w-0-front", kind=POD_CLIQUE)
        await world.settle()
        assert (await world.client.get(POD_CLIQUE, "w-0-front", NS)).status.replicas == 0
        assert world.names("w-0-front") == before, "those of the first are there yet"
        world.collect_garbage()
        await world.settle()
        assert world.ready() == 8
        assert not set(before) & set(world.names("w-0-front"))

    told(story)


def test_what_looks_like_a_part_of_a_set_and_has_no_owner_is_told_and_left_alone() -> None:
    async def story(world: CliqueWorld) -> None:
        world.start()
        await world.apply(set_of(clique("front", 1)))
        await world.settle()
        labels = {"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "w"}
        spec = {"containers": [{"name": "main", "image": "v0"}]}
        await world.create(POD, "stray", metadata={"labels": labels}, spec=spec)
        await world.settle()
        assert [note for reason, note in await world.events() if reason == "NotOwned"] == [
            "Pod stray has the labels of this set and no owner: it is left alone and does not count"
        ]
        assert "stray" in world.names()
        assert (await world.client.get(POD_CLIQUE, "w-0-front", NS)).status.replicas == 1

    told(story)


def test_a_set_that_cannot_be_carried_out_says_so_and_makes_nothing() -> None:
    async def story(world: CliqueWorld) -> None:
        world.start()
        await world.apply(
            set_of(
                clique("front", startsAfter=["back"]),
                clique("back", startsAfter=["front"]),
                cliqueStartupType="CliqueStartupTypeExplicit",
            )
        )
        await world.settle()
        status, _ = await world.condition("Accepted")
        assert (status, world.names()) == ("False", [])

    told(story)
