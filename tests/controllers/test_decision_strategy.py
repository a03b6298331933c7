"""The examples of the decision strategy's proposal, in today's spelling, on both hubs.

Its text counts 320 clusters and means 310: 290, and ten for each of two canaries.
"""

from typing import Any

from echelon.api.cluster import MANAGED_CLUSTER
from tests.controllers.hub import Hub, names
from tests.controllers.targets import Told
from tests.controllers.test_rolling_update import members, shows_members

COMMON = [{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"common-profile": "true"}}}}]
WEST, EAST = "prod-canary-west", "prod-canary-east"


def grouping(per_group: int | str, *canaries: tuple[str, list[str]]) -> dict[str, Any]:
    groups = []
    for name, values in canaries:
        chosen = {"matchExpressions": [{"key": "canary", "operator": "In", "values": values}]}
        groups.append({"groupName": name, "groupClusterSelector": {"labelSelector": chosen}})
    return {"groupStrategy": {"clustersPerDecisionGroup": per_group, "decisionGroups": groups}}


async def sizes(hub: Hub, name: str) -> list[list[int]]:
    """Return how many clusters each decision of each group has."""
    decisions = await hub.decisions(name)
    listed = {each: len(item.status.decisions) if item.status else 0 for each, item in decisions.items()}
    groups = (await hub.placement(name)).status.decision_groups
    return [[listed[each] for each in group.decisions] for group in groups]


def test_the_examples_with_310_clusters(tell: Told) -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        profile = {"common-profile": "true"}
        await hub.clusters(names("c", 290), **profile)
        await hub.clusters(names("w", 10), canary="west", **profile)
        await hub.clusters(names("e", 10), canary="east", **profile)
        await hub.clusters(["other"], canary="west")
        hub.start()
        two = grouping(150, (WEST, ["west"]), (EAST, ["east"]))
        one = grouping("100%", ("prod-canary", ["west", "east"]))
        await hub.place("two-canaries", predicates=COMMON, decisionStrategy=two)
        await hub.place("no-strategy", predicates=COMMON)
        await hub.place("one-canary", predicates=COMMON, decisionStrategy=one)
        await hub.place("only-size", predicates=COMMON, decisionStrategy=grouping(150))

        await hub.shows([(WEST, 10), (EAST, 10), ("", 150), ("", 140)], "two-canaries")
        assert await sizes(hub, "two-canaries") == [[10], [10], [100, 50], [100, 40]]
        await hub.shows([("", 310)], "no-strategy")
        assert await sizes(hub, "no-strategy") == [[100, 100, 100, 10]]
        await hub.shows([("prod-canary", 20), ("", 290)], "one-canary")
        assert await sizes(hub, "one-canary") == [[20], [100, 100, 90]]
        await hub.shows([("", 150), ("", 150), ("", 10)], "only-size")
        assert await sizes(hub, "only-size") == [[100, 50], [100, 50], [10]]

        assert list(await hub.decisions("two-canaries")) == [
            f"two-canaries-decision-{number}" for number in range(1, 7)
        ]
        status = (await hub.placement("two-canaries")).status
        assert status.number_of_selected_clusters == 310
        assert status.decision_groups[2].decisions == ["two-canaries-decision-3", "two-canaries-decision-4"]
        condition = await hub.condition(name="two-canaries")
        assert condition == ("True", "AllDecisionsScheduled", "All cluster decisions scheduled")

    tell(story)


def test_the_special_case_new_clusters_fill_the_last_group_and_then_the_hole(tell: Told) -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(names("c", 8))
        hub.start()
        await hub.place(decisionStrategy=grouping(3))
        await shows_members(hub, names("c", 3), names("c", 3, start=3), ["c006", "c007"])
        await hub.delete(MANAGED_CLUSTER, "c003")
        await hub.delete(MANAGED_CLUSTER, "c004")
        await shows_members(hub, names("c", 3), ["c005"], ["c006", "c007"])  # nobody is shifted
        await hub.clusters(["a"])
        await shows_members(hub, names("c", 3), ["c005"], ["a", "c006", "c007"])  # the last group first
        await hub.clusters(["b"])
        await shows_members(hub, names("c", 3), ["b", "c005"], ["a", "c006", "c007"])  # then the one with the hole
        await hub.clusters(["d"])
        await hub.clusters(["e"])
        await hub.shows([("", 3), ("", 3), ("", 3), ("", 1)])  # and then a new one
        assert (await members(hub))[3] in (["d"], ["e"])

    tell(story)
