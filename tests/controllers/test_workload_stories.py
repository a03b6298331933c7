"""The two stories that federated budgets are for, round by round, on a hub with members that act as real ones do."""

from tests.controllers.workload_world import WorkloadWorld, of_deployment, pod_template, rolling, told


def test_a_deployment_over_two_clusters_is_updated_within_one_budget() -> None:
    """Ten pods, two may be missing and one too many: never fewer than 8 available, never more than 11."""

    async def story(world: WorkloadWorld) -> None:
        await world.join("c1", "c2")
        await world.template(10, strategy=of_deployment(2, 1))
        await world.bind({"c1": 4, "c2": 6})
        world.start()
        await world.finish()
        assert world.pods() == {"c1": "0/0, 4/4", "c2": "0/0, 6/6"}
        world.budgets(8, 11)
        await world.upgrade("2")
        await world.settle(2)
        assert await world.sent() == {"c1": "r4 u1 s0 p0", "c2": "r6 u1 s1 p0"}
        rounds = [world.pods()]
        for _ in range(4):
            await world.settle(10.5)
            rounds.append(world.pods())
        assert rounds == [
            {"c1": "3/3, 0/1", "c2": "5/5, 0/2"},
            {"c1": "2/2, 1/2", "c2": "3/3, 2/4"},
            {"c1": "1/1, 2/3", "c2": "1/1, 4/6"},
            {"c1": "0/0, 3/4", "c2": "0/0, 6/6"},
            {"c1": "0/0, 4/4", "c2": "0/0, 6/6"},
        ]
        await world.finish()

    told(story)


def test_a_clone_set_stops_at_its_partition_and_goes_on_when_it_is_lowered() -> None:
    """Ten pods of which four stay old: the update stops at six new ones, 2 and 4."""

    async def story(world: WorkloadWorld) -> None:
        await world.join("c1", "c2")
        await world.template(10, strategy=rolling(2, partition=0))
        await world.bind({"c1": 3, "c2": 7})
        world.start()
        await world.finish()
        world.budgets(8, 10)
        await world.change(template=pod_template("2"), updateStrategy=rolling(2, partition=4))
        await world.settle(60)
        assert world.pods() == {"c1": "1/1, 2/2", "c2": "3/3, 4/4"}
        await world.change(updateStrategy=rolling(2, partition=0))
        await world.finish()
        assert world.pods() == {"c1": "0/0, 3/3", "c2": "0/0, 7/7"}

    told(story, "CloneSet")
