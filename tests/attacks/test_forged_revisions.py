"""ControllerRevisions that no controller wrote: they must not stop a rollout, and not in silence."""

from typing import Any

import pytest

from echelon.api.base import JSONObject
from echelon.api.controller_revisions import CONTROLLER_REVISION
from echelon.api.namespaces import NAMESPACE
from echelon.engine.work_set.names import HASH_LABEL, SET_LABEL
from tests.controllers.hub import NS
from tests.controllers.work_world import EVERYWHERE, SET, WorkWorld, told


async def forge(world: WorkWorld, name: str, namespace: str = NS, *, owned: bool = True, **said: Any) -> None:
    owner = {**SET.owner_reference("web", (await world.set()).metadata.uid), "controller": True}
    metadata: JSONObject = {"ownerReferences": [owner]} if owned else {}
    labels = {SET_LABEL: f"{NS}.web", HASH_LABEL: str(said.get("hash", "feed"))}
    annotations = {"echelon.dev/set-generation": str(said.get("generation", 1))}
    await world.hub.create(
        CONTROLLER_REVISION,
        name,
        namespace,
        labels=labels,
        annotations=annotations,
        metadata=metadata,
        revision=said.get("number", 1),
        data={"spec": {"manifestWorkTemplate": {}}},
    )


@pytest.mark.parametrize("owned", [False, True], ids=["no owner", "owner forged"])
@pytest.mark.parametrize(
    "said",
    [{"generation": 999999999}, {"generation": 10**40}, {"number": 2**63 - 1}, {"number": 10**9}, {"number": -5}],
    ids=str,
)
def test_a_revision_that_says_what_cannot_be_stops_nothing(owned: bool, said: dict[str, Any]) -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["c1", "c2"])])
        world.start()
        await world.roll_out(EVERYWHERE)
        await world.settle()
        await forge(world, "forged", owned=owned, **said)
        await world.upgrade("2")
        await world.settle(90)  # until the cache of sets has come further than the forged revision
        assert await world.at("2") == ["c1", "c2"]
        await world.upgrade("3")
        await world.settle(5)
        assert await world.at("3") == ["c1", "c2"]
        if said in ({"generation": 999999999}, {"number": 2**63 - 1}) and owned:
            assert "ControllerRevision forged is not believed" in (await world.condition("PlacementVerified")).message
            assert "RevisionIgnored" in await world.events()
        await world.finish()
        assert (await world.said("PlacementRolledOut"))[0] == "True"

    told(story)


def test_what_lies_in_the_way_of_the_next_revision_is_taken_over() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["c1"])])
        world.start()
        await world.roll_out(EVERYWHERE)
        await world.settle()
        await world.upgrade("2")
        await world.settle()
        second = await world.revision()
        await world.upgrade("1")
        await world.settle()
        await world.hub.delete(CONTROLLER_REVISION, f"web-{second}", NS)
        await forge(world, f"web-{second}", number=2**63 - 1, generation=10**15, hash=second)
        await world.upgrade("2")
        await world.settle(90)
        assert await world.at("2") == ["c1"]

    told(story)


def test_a_revision_in_the_namespace_of_another_tenant_is_nobodys() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["c1"])])
        world.start()
        await world.roll_out(EVERYWHERE)
        await world.hub.client.create(NAMESPACE.untyped(), {"metadata": {"name": "mallory"}})
        await world.settle()
        await forge(world, "forged", "mallory", owned=False, number=2**62, generation=999)
        await forge(world, "forged-too", "mallory", number=2**62, generation=999)
        await world.upgrade("2")
        await world.settle()
        assert await world.at("2") == ["c1"]
        assert (await world.condition("PlacementVerified")).message == ""
        untouched = await world.hub.client.get(CONTROLLER_REVISION, "forged", "mallory")
        assert untouched.metadata.owner_references == []

    told(story)
