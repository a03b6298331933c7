"""The rolling update of decisions: the cases of its proposal, on both hubs.

The reader sees every committed state. Clusters do not move from one decision to the next when another one comes or
goes, as they did where the proposal was written; so what it expects of those cases in between holds from the beginning,
and the surge is seen where clusters do change places.
"""

from typing import Any

import pytest

from echelon.api.cluster import MANAGED_CLUSTER
from tests.controllers.hub import Hub, names, told
from tests.controllers.targets import Told

ONE, TWO = "p-decision-1", "p-decision-2"


def strategy(per_group: int | str = "100%", *groups: str, update: str = "RollingUpdate") -> dict[str, Any]:
    named = [
        {"groupName": name, "groupClusterSelector": {"labelSelector": {"matchLabels": {"group": name}}}}
        for name in groups
    ]
    return {
        "groupStrategy": {"clustersPerDecisionGroup": per_group, "decisionGroups": named},
        "updateStrategy": {"type": update},
    }


async def members(hub: Hub) -> list[list[str]]:
    """Return the clusters of each group."""
    await hub.groups()
    decisions = await hub.decisions()
    groups = (await hub.placement()).status.decision_groups
    listed = {name: item.status.decisions if item.status else () for name, item in decisions.items()}
    return [
        sorted(entry.cluster_name.removeprefix(hub.prefix) for name in group.decisions for entry in listed[name])
        for group in groups
    ]


async def shows_members(hub: Hub, *groups: list[str]) -> None:
    """Wait until the groups have exactly these clusters."""

    async def check() -> None:
        assert await members(hub) == list(groups)

    await hub.until(check)
    await hub.shows(await hub.groups())


async def placed(hub: Hub, clusters: int, update: str = "RollingUpdate") -> None:
    await hub.bound_set()
    await hub.clusters(names("c", clusters, start=1))
    hub.start()
    await hub.place(decisionStrategy=strategy(update=update))
    await hub.shows([("", clusters)])
    hub.sight.protect("p")
    hub.sight.writes.clear()


async def sizes(hub: Hub) -> dict[str, int]:
    return {name: len(item.status.decisions) for name, item in (await hub.decisions()).items() if item.status}


def test_bind_with_rolling_update_cluster_move(tell: Told) -> None:
    """A cluster comes that is first in the order of names: one write, nobody moves, nobody vanishes."""

    async def story(hub: Hub) -> None:
        await placed(hub, 150)
        await hub.clusters(["a-first"])
        await hub.shows([("", 151)])
        assert hub.sight.writes == [TWO]
        assert await sizes(hub) == {ONE: 100, TWO: 51}
        assert hub.sight.vanished == set()

    tell(story)


def test_bind_with_rolling_update_cluster_delete(tell: Told) -> None:
    """The first cluster goes: one write, nobody else moves or vanishes."""

    async def story(hub: Hub) -> None:
        await placed(hub, 151)
        hub.sight.protect("p", "c001")
        await hub.delete(MANAGED_CLUSTER, "c001")
        await hub.shows([("", 150)])
        assert hub.sight.writes == [ONE]
        assert await sizes(hub) == {ONE: 99, TWO: 51}
        assert hub.sight.vanished == set()

    tell(story)


def test_bind_with_rolling_update_decision_group_change(tell: Told) -> None:
    """From one group of 250 to five of 50: three decisions become five and nobody vanishes meanwhile."""

    async def story(hub: Hub) -> None:
        await placed(hub, 250)
        assert sorted((await sizes(hub)).values()) == [50, 100, 100]
        await hub.respec(decisionStrategy=strategy(50))
        await hub.shows([("", 50)] * 5)
        assert list((await sizes(hub)).values()) == [50] * 5
        assert await hub.selected() == names("c", 250, start=1)
        assert hub.sight.vanished == set()

    tell(story)


@pytest.mark.parametrize("update", [None, {}, {"type": "All"}], ids=["no strategy", "no type", "All"])
def test_bind_all_backward_compatibility(tell: Told, update: dict[str, Any] | None) -> None:
    """Unless somebody asks for more, a decision that changes is written once, and is never over the limit."""

    async def story(hub: Hub) -> None:
        await hub.bound_set()
        one, two = names("a", 100), names("b", 2)
        await hub.clusters(one, group="one")
        await hub.clusters(two, group="two")
        hub.start()
        wanted = strategy("100%", "one", "two") | {"updateStrategy": update}
        await hub.place(decisionStrategy={key: value for key, value in wanted.items() if value is not None})
        await shows_members(hub, one, two)
        await hub.stop()
        hub.sight.writes.clear()
        await exchange(hub, {"a000": "two", "b000": "one"})
        hub.start()
        await shows_members(hub, [*one[1:], "b000"], ["a000", "b001"])
        assert sorted(hub.sight.writes) == [ONE, TWO]
        assert hub.sight.largest == 100
        assert not [reason for reason, _ in await hub.events() if reason == "DecisionSurge"]

    tell(story)


async def exchange(hub: Hub, groups: dict[str, str]) -> None:
    for name, group in groups.items():
        await hub.patch(MANAGED_CLUSTER, name, {"metadata": {"labels": {"group": group}}})


@pytest.mark.parametrize(
    ("moving", "union"),
    [
        ({"a000": "two", "a001": "two", "b000": "one", "b001": "one"}, ["a000", "a001", "b000", "b001"]),
        ({"a001": "two", "b000": "one"}, ["a000", "a001", "b000"]),
        ({}, None),
    ],
    ids=["no overlap", "partial overlap", "full overlap"],
)
def test_merge_placement_decisions(tell: Told, moving: dict[str, str], union: list[str] | None) -> None:
    """Between the old and the new clusters of a decision it shows both, each once, in order of their names."""
    home = {"a000": "one", "a001": "one", "b000": "two", "b001": "two"} | moving

    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(names("a", 2), group="one")
        await hub.clusters(names("b", 2), group="two")
        hub.start()
        await hub.place(decisionStrategy=strategy("100%", "one", "two"))
        await shows_members(hub, names("a", 2), names("b", 2))
        hub.sight.protect("p")
        await hub.stop()  # so that all changes are seen at once
        await exchange(hub, moving)
        hub.sight.contents.clear()
        hub.start()
        await shows_members(hub, *([name for name in home if home[name] == group] for group in ("one", "two")))
        await hub.place("q")  # once this one is there, the other has been looked at
        await hub.shows([("", 4)], "q")
        seen = [clusters for name, clusters in hub.sight.contents if name in {ONE, TWO}]
        assert seen[:1] == ([union] if union else [])
        assert hub.sight.vanished == set()

    tell(story)


def test_placement_rolling_update_cluster_movement(tell: Told) -> None:
    """150 clusters, one more, one less, and other sizes of groups: no state without a cluster that stays."""

    async def story(hub: Hub) -> None:
        await placed(hub, 150)
        assert await sizes(hub) == {ONE: 100, TWO: 50}
        assert (await hub.satisfied())[0] == "True"
        await hub.clusters(["c000"])
        await hub.shows([("", 151)])
        hub.sight.protect("p", "c000")
        await hub.delete(MANAGED_CLUSTER, "c000")
        await hub.shows([("", 150)])
        for size, shape in ((50, [50, 50, 50]), ("20%", [30] * 5), (149, [149, 1]), ("100%", [150])):
            await hub.respec(decisionStrategy=strategy(size))
            await hub.shows([("", each) for each in shape])
            assert await hub.selected() == names("c", 150, start=1)
        assert hub.sight.vanished == set()

    tell(story)


def test_placement_rolling_update_events(tell: Told) -> None:
    """Both phases are told: that a surge begins, what is written, and that it is over."""

    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(names("a", 100), group="one")
        await hub.clusters(names("b", 100), group="two")
        hub.start()
        await hub.place(decisionStrategy=strategy("100%", "one", "two"))
        await hub.shows([("one", 100), ("two", 100)])
        told = [("DecisionUpdate", ONE), ("ScoreUpdate", ""), ("DecisionUpdate", TWO)]

        async def check() -> None:
            events = await hub.events()
            assert set(events[:2]) == {("DecisionCreate", ONE), ("DecisionCreate", TWO)}
            assert events[2:] == told  # group by group

        await hub.until(check)
        hub.sight.protect("p")
        await hub.stop()
        await exchange(hub, {"a000": "two", "b000": "one"})
        hub.start()
        await shows_members(hub, [*names("a", 99, start=1), "b000"], ["a000", *names("b", 99, start=1)])
        assert hub.sight.vanished == set()
        assert hub.sight.largest == 101
        surged = [name for name, clusters in hub.sight.contents if len(clusters) > 100]
        assert len(surged) == 1

        async def check_surge() -> None:
            events = (await hub.events())[2 + len(told) :]
            reasons = [reason for reason, _ in events if reason != "ScoreUpdate"]
            # The decision that was written in both phases says so in one event, which counts.
            assert reasons == ["DecisionSurge", "DecisionUpdate", "DecisionUpdate", "DecisionSurge"]

        await hub.until(check_surge)
        assert hub.metrics.registry.get_sample_value("scheduling_surge_duration_seconds_count") is not None

    tell(story)


def test_the_end_of_a_surge_is_told_however_much_was_said_of_its_placement_before() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(names("a", 2), group="one")
        await hub.clusters(names("b", 2), group="two")
        hub.start("placement")
        await hub.place(decisionStrategy=strategy("100%", "one", "two"))
        for name in names("c", 30):
            await hub.clusters([name], group="one")
            await hub.settle(2)
        await exchange(hub, {"a000": "two", "b000": "one"})
        await hub.settle(10)
        reasons = [reason for reason, _ in await hub.events()]
        assert reasons[-1] == "DecisionSurge"
        assert reasons.count("DecisionSurge") == 1, "there was no room left to tell that it began"

    told(story)


@pytest.mark.parametrize("update", ["All", "RollingUpdate"])
def test_events_tell_what_became_of_decisions(tell: Told, update: str) -> None:
    async def story(hub: Hub) -> None:
        await placed(hub, 102, update)
        for name in names("c", 2, start=101):
            await hub.delete(MANAGED_CLUSTER, name)
        await hub.shows([("", 100)])

        async def check() -> None:
            events = await hub.events()
            assert set(events[:2]) == {("DecisionCreate", ONE), ("DecisionCreate", TWO)}
            # Decisions of one group are written side by side.
            written = [("DecisionUpdate", ONE), ("DecisionUpdate", TWO), ("ScoreUpdate", "")]
            assert sorted(events[2:5]) == written, "scores are told once"
            assert events[-1] == ("DecisionDelete", TWO)

        await hub.until(check)
        bound = hub.metrics.registry.get_sample_value(
            "scheduling_bind_duration_seconds_count", {"name": "placement_scheduling"}
        )
        assert bound is not None
        assert bound >= 2

    tell(story)
