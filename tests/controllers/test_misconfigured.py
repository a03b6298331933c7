"""What cannot be understood is refused, or said in a condition; it evicts nobody and disturbs nobody else."""

from typing import Any

import pytest

from echelon.api.cluster import MANAGED_CLUSTER_SET
from echelon.kube.errors import Invalid
from tests.controllers.hub import Hub, names, told


def test_a_toleration_with_exists_and_a_value_is_refused() -> None:
    async def story(hub: Hub) -> None:
        with pytest.raises(Invalid, match=r"spec.tolerations\[0\].value"):
            await hub.place(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}])

    told(story)


def test_a_toleration_with_exists_and_a_value_that_was_stored_is_a_misconfiguration_until_it_is_fixed() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(["c"])
        hub.start()
        await hub.place(numberOfClusters=1, tolerations=[{"key": "a", "operator": "Exists", "value": "b"}])
        await hub.settle()
        assert (await hub.condition("PlacementMisconfigured"))[0] == "True"
        assert await hub.groups() == [("", 0)]
        assert list(await hub.decisions()) == ["p-decision-1"]
        await hub.respec(tolerations=[{"key": "a", "operator": "Exists"}])
        await hub.settle()
        assert (await hub.condition("PlacementMisconfigured"))[0] == "False"
        assert await hub.selected() == ["c"]
        assert await hub.satisfied() == ("True", "AllDecisionsScheduled")

    told(story, rules=False)


GROUPS = {
    "groupName": "one",
    "groupClusterSelector": {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}},
}


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({"numberOfClusters": -1}, "numberOfClusters"),
        ({"tolerations": [{"operator": "Equal"}]}, "key is empty"),
        ({"prioritizerPolicy": {"mode": "Maybe"}}, "mode"),
        ({"prioritizerPolicy": {"configurations": [{"scoreCoordinate": {"builtIn": "Luck"}}]}}, "Luck"),
        ({"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": "10"}}}, "10"),
        ({"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": -2}}}, "clustersPerDecisionGroup"),
        ({"decisionStrategy": {"groupStrategy": {"decisionGroups": [GROUPS]}}}, "Is"),
    ],
)
def test_what_cannot_be_understood_is_said_and_changes_nothing(spec: dict[str, Any], named: str) -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(names("c", 3))
        hub.start()
        await hub.place()
        await hub.settle()
        written = len(hub.sight.writes)
        await hub.respec(**spec)
        await hub.settle()
        status, _, message = await hub.condition("PlacementMisconfigured")
        assert status == "True"
        assert named in message
        assert await hub.groups() == [("", 3)]
        assert len(hub.sight.writes) == written

    told(story, rules=False)


def test_a_placement_with_too_long_a_name_says_so_and_nothing_is_tried() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(["c"])
        hub.start()
        name = "p" * 64
        await hub.place(name)
        await hub.settle()
        assert "63 characters" in (await hub.condition("PlacementMisconfigured", name))[2]
        assert hub.sight.writes == []

    told(story, rules=False)


def test_a_malformed_set_disturbs_nobody() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set("good")
        await hub.bound_set("bad", {"matchLabels": {"vendor": "x"}})
        await hub.clusters(names("a", 2), "good")
        await hub.clusters(names("b", 2), "", vendor="x")
        hub.start()
        await hub.place()
        await hub.settle()
        assert await hub.selected() == [*names("a", 2), *names("b", 2)]
        broken = {"matchExpressions": [{"key": "vendor", "operator": "Is"}], "matchLabels": None}
        await hub.patch(MANAGED_CLUSTER_SET, "bad", {"spec": {"clusterSelector": {"labelSelector": broken}}})
        await hub.clusters(["new"], "good")
        await hub.settle()
        assert await hub.selected() == [*names("a", 2), *names("b", 2), "new"]

    told(story, rules=False)


def test_a_mistake_in_a_placement_that_has_decisions_keeps_them() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(names("c", 150))
        hub.start()
        await hub.place(decisionStrategy={"groupStrategy": {"clustersPerDecisionGroup": 60}})
        await hub.place("good")
        await hub.settle()
        assert await hub.groups() == [("", 60), ("", 60), ("", 30)]
        written = len(hub.sight.writes)
        await hub.respec(predicates=[{"requiredClusterSelector": {"celSelector": {"celExpressions": ["no such"]}}}])
        await hub.settle()
        status, reason, message = await hub.condition("PlacementMisconfigured")
        assert (status, reason) == ("True", "Misconfigured")
        assert message.startswith("Predicate:")
        assert await hub.groups() == [("", 60), ("", 60), ("", 30)]
        assert len(hub.sight.writes) == written
        assert (await hub.satisfied())[0] == "False"
        await hub.clusters(["d"])  # others go on
        await hub.settle()
        assert await hub.groups("good") == [("", 151)]
        assert len(await hub.selected()) == 150

    told(story)
