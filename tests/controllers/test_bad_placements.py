"""Whatever can be mistyped in a placement: refused with the name of the field, or said in a condition that names it.

Each mistake is made twice. On a hub with our CRDs, embedded and real, as far as the server can know better; and on one
that checks hardly anything, as those with other CRDs do, where the controller has to. There the placement had decisions
before the mistake, and it keeps them; and another one beside it goes on as if nothing had happened.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from echelon.api.cluster import MANAGED_CLUSTER, MANAGED_CLUSTER_SET
from echelon.api.placement import PLACEMENT
from echelon.kube.errors import Invalid
from tests.controllers.hub import Hub, names, told
from tests.controllers.targets import Told

Spec = dict[str, Any]


@dataclass(frozen=True)
class Mistake:
    """A spec, the field in it that is wrong, and how a condition puts it where the server has let it pass."""

    name: str
    spec: Spec
    field: str
    said: str = ""  # empty where every CRD in the field refuses it
    refused: bool = True  # by our CRDs


def selecting(**term: Any) -> Spec:
    return {"predicates": [{"requiredClusterSelector": {"labelSelector": {"matchExpressions": [term]}}}]}


def claiming(**term: Any) -> Spec:
    return {"predicates": [{"requiredClusterSelector": {"claimSelector": {"matchExpressions": [term]}}}]}


def matching(**labels: str) -> Spec:
    return {"predicates": [{"requiredClusterSelector": {"labelSelector": {"matchLabels": labels}}}]}


def cel(*expressions: str) -> Spec:
    return {"predicates": [{"requiredClusterSelector": {"celSelector": {"celExpressions": list(expressions)}}}]}


def scoring(weight: int = 1, **coordinate: Any) -> Spec:
    return {"prioritizerPolicy": {"configurations": [{"scoreCoordinate": coordinate, "weight": weight}]}}


def tolerating(**toleration: Any) -> Spec:
    return {"tolerations": [toleration]}


def grouping(size: Any = "100%", **group: Any) -> Spec:
    groups = [{"groupName": "canary", "groupClusterSelector": {}, **group}] if group else []
    return {"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": size, "decisionGroups": groups}}}


def group_by(**term: Any) -> Spec:
    return grouping(groupClusterSelector={"labelSelector": {"matchExpressions": [term]}})


def spreading(**constraint: Any) -> Spec:
    return {"spreadPolicy": {"spreadConstraints": [{"topologyKey": "zone", "topologyKeyType": "Label", **constraint}]}}


SIZE = "spec.decisionStrategy.groupStrategy.clustersPerDecisionGroup"
GROUP = "spec.decisionStrategy.groupStrategy.decisionGroups[0]"
PREDICATE = "spec.predicates[0].requiredClusterSelector"
TERM = f"{PREDICATE}.labelSelector.matchExpressions[0]"
CLAIM = f"{PREDICATE}.claimSelector.matchExpressions[0]"
SCORE = "spec.prioritizerPolicy.configurations[0]"
SPREAD = "spec.spreadPolicy.spreadConstraints[0]"

MISTAKES = [
    Mistake("a negative number", {"numberOfClusters": -1}, "spec.numberOfClusters", "spec.numberOfClusters"),
    Mistake("a negative size", grouping(-2), SIZE, SIZE),
    Mistake("a size in quotes", grouping("10"), SIZE, SIZE),
    Mistake("a size over 100 %", grouping("150%"), SIZE),
    Mistake("a size of 0 %", grouping("0%"), SIZE),
    Mistake("a negative percentage", grouping("-5%"), SIZE),
    Mistake("a size in words", grouping("half"), SIZE, SIZE),
    Mistake(
        "a toleration of any value with a value", tolerating(key="a", operator="Exists", value="b"), "value", "value"
    ),
    Mistake("a toleration without a key", tolerating(operator="Equal", value="b"), "operator", "operator"),
    Mistake("a toleration with another operator", tolerating(key="a", operator="Like"), "operator", "operator"),
    Mistake("a toleration of another effect", tolerating(key="a", effect="Never"), "spec.tolerations[0].effect"),
    Mistake("a toleration of a bad key", tolerating(key="no such key!"), "spec.tolerations[0].key"),
    Mistake("a toleration of a long key", tolerating(key="k" * 317), "spec.tolerations[0].key"),
    Mistake("a toleration of a long value", tolerating(key="a", value="v" * 1025), "spec.tolerations[0].value"),
    Mistake("another mode", {"prioritizerPolicy": {"mode": "Maybe"}}, "spec.prioritizerPolicy.mode", "mode"),
    Mistake(
        "an unknown prioritizer", scoring(type="BuiltIn", builtIn="Luck"), f"{SCORE}.scoreCoordinate.builtIn", "Luck"
    ),
    Mistake("a prioritizer without a name", scoring(type="BuiltIn"), f"{SCORE}.scoreCoordinate.builtIn", "builtin"),
    Mistake("an add-on that is not named", scoring(type="AddOn"), f"{SCORE}.scoreCoordinate.addOn", "addOn"),
    Mistake("an unknown type of score", scoring(type="Oracle"), f"{SCORE}.scoreCoordinate.type"),
    Mistake("too much weight", scoring(11, type="BuiltIn", builtIn="Steady"), f"{SCORE}.weight"),
    Mistake("too little weight", scoring(-11, type="BuiltIn", builtIn="Steady"), f"{SCORE}.weight"),
    Mistake("another operator", selecting(key="a", operator="Exist"), f"{TERM}.operator", PREDICATE),
    Mistake("no values", selecting(key="a", operator="In"), f"{TERM}.values", f"{TERM}.values", refused=False),
    Mistake(
        "values that are not asked for",
        selecting(key="a", operator="Exists", values=["b"]),
        f"{TERM}.values",
        f"{TERM}.values",
        refused=False,
    ),
    Mistake(
        "a value that no label has",
        selecting(key="a", operator="NotIn", values=["not a label!"]),
        f"{TERM}.values[0]",
        f"{TERM}.values[0]",
        refused=False,
    ),
    Mistake(
        "a key that no label has", selecting(key="-", operator="Exists"), f"{TERM}.key", f"{TERM}.key", refused=False
    ),
    Mistake("a label that cannot be", matching(a="b" * 64), "matchLabels", "matchLabels", refused=False),
    Mistake("another operator for claims", claiming(key="a", operator="Is"), f"{CLAIM}.operator", PREDICATE),
    Mistake(
        "a claim that cannot be selected",
        claiming(key="a", operator="In", values=["a+b"]),
        f"{CLAIM}.values[0]",
        f"{CLAIM}.values[0]",
        refused=False,
    ),
    Mistake("an expression that is none", cel("a =="), "celExpressions", "celExpressions[0]", refused=False),
    Mistake("an unknown name in an expression", cel("true", "cluster.x"), "", "celExpressions[1]", refused=False),
    Mistake("an unknown function", cel("managedCluster.luck()"), "", "celExpressions[0]", refused=False),
    Mistake("a group of another operator", group_by(key="a", operator="Is"), f"{GROUP}.groupClusterSelector", GROUP),
    Mistake("a group of one letter", grouping(groupName="x"), f"{GROUP}.groupName"),
    Mistake("a group with a long name", grouping(groupName="x" * 64), f"{GROUP}.groupName"),
    Mistake(
        "another update strategy", {"decisionStrategy": {"updateStrategy": {"type": "Slow"}}}, "updateStrategy.type"
    ),
    Mistake("an unknown kind of spread key", spreading(topologyKeyType="Zone"), f"{SPREAD}.topologyKeyType"),
    Mistake("a spread key that is none", spreading(topologyKey="a b"), f"{SPREAD}.topologyKey"),
    Mistake("no skew at all", spreading(maxSkew=0), f"{SPREAD}.maxSkew"),
    Mistake("another way to spread", spreading(whenUnsatisfiable="Wait"), f"{SPREAD}.whenUnsatisfiable"),
    Mistake("another order", {"sortBy": "Age"}, "spec.sortBy"),
    Mistake("a rate that is none", {"scoreRateLimit": "often"}, "spec.scoreRateLimit"),
]
REFUSED = [mistake for mistake in MISTAKES if mistake.refused]
SAID = [mistake for mistake in MISTAKES if mistake.said]


def test_what_the_server_can_know_is_refused_with_the_name_of_the_field(tell: Told) -> None:
    async def story(hub: Hub) -> None:
        wrong = []
        for mistake in REFUSED:
            try:
                await hub.place(**mistake.spec)
            except Invalid as error:
                if mistake.field not in str(error):
                    wrong.append(f"{mistake.name}: {error}")
            else:
                wrong.append(f"{mistake.name}: it was accepted")
                await hub.delete(PLACEMENT, "p", hub.namespace)
        with pytest.raises(Invalid, match="63 characters"):
            await hub.place("p" * 64)
        assert not wrong, "\n".join(wrong)

    tell(story)


async def two_placements(hub: Hub) -> None:
    await hub.bound_set()
    await hub.clusters(["a", "b", "c"], group="x")
    hub.start()
    await hub.place("good")
    await hub.place()
    await hub.settle()
    assert await hub.groups() == await hub.groups("good") == [("", 3)]


@pytest.mark.parametrize("mistake", SAID, ids=lambda mistake: mistake.name)
def test_what_the_server_let_pass_is_said_and_keeps_the_decisions(mistake: Mistake) -> None:
    async def story(hub: Hub) -> None:
        await two_placements(hub)
        before, neighbour = await hub.decisions(), await hub.placement("good")
        written = len(hub.sight.writes)
        await hub.respec(**mistake.spec)
        await hub.settle()
        status, reason, message = await hub.condition("PlacementMisconfigured")
        assert (status, reason) == ("True", "Misconfigured")
        assert mistake.said in message
        assert await hub.placement("good") == neighbour
        assert len(hub.sight.writes) == written
        # The fleet goes on: the good one follows, the bad one has what it had, also after a restart.
        await hub.delete(MANAGED_CLUSTER, "a")
        await hub.clusters(["d"])
        await hub.settle()
        assert await hub.selected("good") == ["b", "c", "d"]
        assert await hub.decisions() == before
        await hub.stop()
        hub.start()
        await hub.settle()
        assert await hub.decisions() == before
        await hub.patch(PLACEMENT, "p", {"spec": dict.fromkeys(mistake.spec)}, hub.namespace)
        await hub.settle()
        assert await hub.selected() == ["b", "c", "d"]
        assert (await hub.condition("PlacementMisconfigured"))[0] == "False"

    told(story, rules=False)


def test_a_placement_that_never_had_decisions_has_an_empty_one() -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set()
        await hub.clusters(["a"])
        hub.start()
        await hub.place(numberOfClusters=-1)
        await hub.settle()
        assert (await hub.condition("PlacementMisconfigured"))[0] == "True"
        assert (await hub.satisfied())[0] == "False"
        assert await hub.groups() == [("", 0)]
        assert list(await hub.decisions()) == ["p-decision-1"]

    told(story, rules=False)


def test_a_spread_key_that_nobody_has_is_no_reason_to_lose_clusters() -> None:
    async def story(hub: Hub) -> None:
        await two_placements(hub)
        await hub.respec(**spreading(topologyKey="no-such-label"))
        await hub.settle()
        assert (await hub.condition("PlacementMisconfigured"))[0] == "False"
        assert await hub.selected() == ["a", "b", "c"]

    told(story)


@pytest.mark.parametrize(
    "selector",
    [
        {"selectorType": "LabelSelector", "labelSelector": {"matchExpressions": [{"key": "x", "operator": "Is"}]}},
        {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"x": "not a value!"}}},
        {"selectorType": "Everything", "labelSelector": None},
    ],
    ids=["operator", "value", "type"],
)
def test_one_malformed_set_among_good_ones_stops_nobody(selector: Spec) -> None:
    async def story(hub: Hub) -> None:
        await hub.bound_set("good")
        await hub.bound_set("bad", {"matchLabels": {"vendor": "x"}})
        await hub.clusters(["a"], "good")
        await hub.clusters(["b"], "", vendor="x")
        hub.start()
        await hub.place("both")
        await hub.place("one", clusterSets=["good"])
        await hub.settle()
        await hub.patch(MANAGED_CLUSTER_SET, "bad", {"spec": {"clusterSelector": selector}})
        await hub.settle()
        await hub.clusters(["c"], "good")
        await hub.settle()
        assert await hub.selected("one") == ["a", "c"]
        assert await hub.selected("both") == ["a", "b", "c"]  # those of the bad set stay

    told(story, rules=False)


def test_mistakes_do_not_keep_anybody_busy() -> None:
    """All of them at once, and only the good placement follows the fleet; nobody writes for an hour."""

    async def story(hub: Hub) -> None:
        await two_placements(hub)
        for number, mistake in enumerate(SAID):
            await hub.place(f"bad{number}", **mistake.spec)
        await hub.settle()
        await hub.clusters(["d"])
        await hub.settle()
        assert await hub.selected("good") == ["a", "b", "c", "d"]
        written = len(hub.commits)
        await asyncio.sleep(3600)
        assert hub.commits[written:] == []

    told(story, rules=False)


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
