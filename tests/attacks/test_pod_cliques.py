"""Pods and cliques that nobody's set made, with the labels of one that did."""

import pytest

from echelon.api.base import JSONObject
from echelon.api.core import CONFIG_MAP, POD
from echelon.api.grove import POD_CLIQUE, POD_CLIQUE_SET
from tests.controllers.clique_world import CliqueWorld, clique, set_of, told


async def foreign_owner(world: CliqueWorld) -> JSONObject:
    """Make something that may own what is not ours."""
    body = {**CONFIG_MAP.type_meta, "metadata": {"name": "theirs"}}
    made = await world.client.create(CONFIG_MAP.untyped(), body, "apps")
    return {**CONFIG_MAP.owner_reference("theirs", made["metadata"]["uid"]), "controller": True}


def forged(labels: JSONObject, name: str, owners: list[JSONObject], **changed: str) -> JSONObject:
    """Return a pod that looks like one of a clique."""
    metadata = {"name": name, "labels": {**labels, **changed}, "ownerReferences": owners}
    return {"metadata": metadata, "spec": {"hostname": name, "containers": [{"name": "main", "image": "theirs"}]}}


@pytest.mark.parametrize("owned", [False, True], ids=["no owner", "another's"])
@pytest.mark.parametrize("index", ["0", "999999999999999999999", "first", ""])
def test_pods_with_forged_labels_and_indices_are_nobodys(owned: bool, index: str) -> None:
    async def story(world: CliqueWorld) -> None:
        world.start()
        owners = [await foreign_owner(world)] if owned else []
        await world.apply(set_of(clique("front", 2), clique("back", 1)))
        await world.settle(120)
        assert world.ready("w-0-front") == 2
        labels = world.pods("w-0-front")[0]["metadata"]["labels"]
        indices = {name: index for name in labels if name.endswith("index")}
        for number in range(3):
            body = forged(labels, f"forged-{number}", owners, **indices)
            await world.client.create(POD.untyped(), {**POD.type_meta, **body}, "apps")
        await world.settle(120)
        await world.roll("v2", "front")
        await world.settle(600)
        images = [each["spec"]["containers"][0]["image"] for each in world.pods("w-0-front")]
        assert images.count("v2") == 2
        assert sorted(each["metadata"]["name"] for each in world.pods() if "forged" in each["metadata"]["name"]) == [
            f"forged-{number}" for number in range(3)
        ]
        assert (await world.set()).status.available_replicas == 1

    told(story)


def test_a_clique_with_the_labels_of_a_set_and_another_owner_is_not_its_own() -> None:
    async def story(world: CliqueWorld) -> None:
        world.start()
        await world.apply(set_of(clique("front", 1)))
        await world.settle(120)
        found = await world.client.get(POD_CLIQUE.untyped(), "w-0-front", "apps")
        spec = {"roleName": "front", "replicas": 50, "podSpec": {"containers": [{"name": "main", "image": "theirs"}]}}
        stolen = {
            "name": "w-7-front",
            "labels": found["metadata"]["labels"],
            "ownerReferences": [await foreign_owner(world)],
        }
        await world.client.create(
            POD_CLIQUE.untyped(), {**POD_CLIQUE.type_meta, "metadata": stolen, "spec": spec}, "apps"
        )
        await world.settle(300)
        assert [each["spec"]["containers"][0]["image"] for each in world.pods()] == ["v1"]
        await world.delete("w", kind=POD_CLIQUE_SET)
        await world.settle(120)
        assert (await world.client.get(POD_CLIQUE, "w-7-front", "apps")).metadata.name == "w-7-front"

    told(story)
