"""A template that changes with who is chosen for it begins where it is to stay, and waits no longer than it must."""

import asyncio

import pytest

from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.karmada import RESOURCE_BINDING
from echelon.api.kinds import Kind
from echelon.api.placement import PLACEMENT
from echelon.engine.workload.names import PLACEMENT as PLACEMENT_NOTE
from echelon.engine.workload.names import TEMPLATE_GENERATION
from echelon.kube.errors import ApiError, Forbidden
from tests.controllers.hub import NS, SET_LABEL
from tests.controllers.propagation_world import DIVIDED, policy
from tests.controllers.refusing import start_refusing
from tests.controllers.workload_world import WorkloadWorld, of_deployment, told

_CHOSEN = {"labelSelector": {"matchLabels": {"in": "yes"}}}


async def label(world: WorkloadWorld, cluster: str, value: str) -> None:
    await world.hub.patch(MANAGED_CLUSTER, cluster, {"metadata": {"labels": {"in": value, SET_LABEL: "set"}}})


async def images(world: WorkloadWorld) -> set[tuple[str, str]]:
    """Return which clusters are sent which image."""
    found = set()
    for cluster, work in (await world.works()).items():
        manifest = work.spec.workload.manifests[0]
        found.add((cluster, str(manifest["spec"]["template"]["spec"]["containers"][0]["image"])))
    return found


async def change_both(world: WorkloadWorld, *, template_first: bool) -> set[tuple[str, str]]:
    """Take a cluster out and change the template at once; return what clusters are sent until all is done."""
    changes = [label(world, "c1", "no"), world.upgrade("2")]
    for each in reversed(changes) if template_first else changes:
        await each
    seen = set[tuple[str, str]]()
    for _ in range(400):
        await asyncio.sleep(0.1)
        seen |= await images(world)
    await world.finish()
    return seen


@pytest.mark.parametrize("template_first", [False, True])
def test_a_cluster_that_the_same_change_takes_out_is_not_sent_the_new_template(template_first: bool) -> None:
    async def story(world: WorkloadWorld) -> None:
        await world.join("c1", "c2", "c3")
        for cluster in ("c1", "c2", "c3"):
            await label(world, cluster, "yes")
        await world.template(6, strategy=of_deployment(1, 0))
        await policy(world.hub, placement={"clusterAffinity": _CHOSEN, "replicaScheduling": DIVIDED})
        world.start()
        await world.finish()
        seen = await change_both(world, template_first=template_first)
        assert ("c1", "web:2") not in seen
        assert world.pods() == {"c2": "0/0, 3/3", "c3": "0/0, 3/3"}

    told(story)


def test_it_waits_for_a_placement_that_is_about_to_decide() -> None:
    async def story(world: WorkloadWorld) -> None:
        await world.join("c1", "c2", "c3")
        for cluster in ("c1", "c2", "c3"):
            await label(world, cluster, "yes")
        predicate = {"requiredClusterSelector": _CHOSEN}
        await world.hub.bound_set()
        await world.hub.create(PLACEMENT, "p", NS, spec={"predicates": [predicate]})
        await world.template(6, strategy=of_deployment(1, 0))
        await policy(world.hub, annotations={PLACEMENT_NOTE: "p"}, placement={"replicaScheduling": DIVIDED})
        world.hub.start("placement")
        world.start()
        await world.finish()
        groups = {"groupStrategy": {"clustersPerDecisionGroup": 1}}
        await world.hub.patch(PLACEMENT, "p", {"spec": {"decisionStrategy": groups}}, NS)
        await world.settle(0.5)  # its decisions were just written, so that it lets a second pass before the next ones
        assert ("c1", "web:2") not in await change_both(world, template_first=False)
        assert world.pods() == {"c2": "0/0, 3/3", "c3": "0/0, 3/3"}

    told(story)


def test_a_binding_that_cannot_be_brought_up_to_date_holds_up_no_template_for_long() -> None:
    async def story(world: WorkloadWorld) -> None:
        await world.join("c1")
        await world.template(2, strategy=of_deployment(1, 0))
        await policy(world.hub, placement={"replicaScheduling": DIVIDED})

        def refuses(_: str, kind: Kind[object], __: str, body: JSONObject) -> ApiError | None:
            notes = (body.get("metadata") or {}).get("annotations") or {}
            is_binding = kind.resource == RESOURCE_BINDING.resource
            return Forbidden("quota") if is_binding and notes.get(TEMPLATE_GENERATION) == "2" else None

        client = start_refusing(world.hub, "workloads", refuses)
        await world.finish()
        await world.upgrade("2")
        await world.settle(4)
        assert await images(world) == {("c1", "web:1")}
        await world.settle(4)
        assert await images(world) == {("c1", "web:2")}
        client.refuses = None
        await world.finish()

    told(story)
