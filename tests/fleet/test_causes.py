"""A broken image on a living fleet: everything real but the machines, in virtual time.

Why it fails is told where people look: in the work, in the set, in the tree.
"""

import asyncio
from random import Random
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.work import MANIFEST_WORK
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.cli.rollout_tree import tree
from echelon.cli.terminal import plain
from echelon.controllers.running import Controllers
from echelon.fleet.local import agent_user, register
from echelon.fleet.loop import run, running
from echelon.fleet.member.fleet import Fleet
from echelon.hub.client import InProcessClient
from echelon.hub.controllers import run_controllers
from echelon.hub.server import ROOT, bootstrap, memory_cluster
from echelon.kube.client import Client, MergePatch
from echelon.kube.metrics import Metrics
from echelon.rollouts.picture import Picture
from echelon.rollouts.steering import Wish, steer
from echelon.rollouts.work_sets import read_work_set
from tests.agent.world import config_map, deployment
from tests.controllers.strict import STRICT, end
from tests.fleet.test_leaving import NS, agent, furnish

STRATEGY = {"type": "Progressive", "progressive": {"maxConcurrency": 1, "progressDeadline": "90s"}}


async def change(client: Client, *manifests: JSONObject) -> None:
    spec = {
        "placementRefs": [{"name": "p", "rolloutStrategy": STRATEGY}],
        "manifestWorkTemplate": {"workload": {"manifests": list(manifests)}},
    }
    await client.patch(MANIFEST_WORK_REPLICA_SET, "web", MergePatch({"spec": spec}), NS)


async def seen(client: Client) -> tuple[JSONObject, Picture, str]:
    """Return the status of the set, its picture, and the tree as one text."""
    found: Any = await client.get(MANIFEST_WORK_REPLICA_SET.untyped(), "web", NS)
    now = running().clock.now()
    picture = (await read_work_set(client, found, now)).picture(now)
    words = " ".join(" ".join(plain(line) for line in tree(picture)).replace("│", " ").split())
    return found["status"], picture, words


async def story(client: Client) -> None:
    await asyncio.sleep(120)
    assert (await seen(client))[1].state == "complete"
    typo = {**config_map("settings"), "dta": {"mode": "fast"}}
    await change(client, deployment(image="web:bad"), typo)
    await asyncio.sleep(60)
    status, picture, words = await seen(client)
    line, *_ = status["rollout"]["clusters"]
    work = await client.get(MANIFEST_WORK, "web", line["cluster"])
    manifests = work.status.resource_status.manifests
    told = next(each.message for each in manifests[0].conditions if each.type == "Progressing")
    assert told.startswith('1 of 2 updated: ImagePullBackOff: image "web:bad" (pod web-')
    assert len(told) <= 340
    assert line["status"] == "Progressing"
    assert told in line["message"]
    assert told in words, "the cluster says it in the tree"
    warned = 'ConfigMap default/settings: unknown field "dta"'
    assert picture.note == f"servers warn, on {line['cluster']}: {warned}"
    await asyncio.sleep(120)
    status, picture, words = await seen(client)
    line = status["rollout"]["clusters"][0]
    assert (line["status"], picture.state) == ("TimeOut", "stopped")
    assert told in line["message"]
    assert words.count("ImagePullBackOff") == 1, "and says it once"
    objects = next(each for group in picture.groups for each in group.clusters if each.name == line["cluster"]).objects
    assert [each.state for each in objects] == ["in flight", "done"]

    await steer(client, "web", NS, Wish("undo"))
    await asyncio.sleep(180)
    status, picture, words = await seen(client)
    assert (picture.state, picture.note) == ("complete", "")
    assert "ImagePullBackOff" not in str(status)


def test_a_broken_image_is_named_in_the_work_in_the_set_and_in_the_tree_and_gone_after_undo() -> None:
    async def main() -> None:
        logical = memory_cluster(clock=running().clock.now, seed=1)
        await bootstrap(logical)
        client = InProcessClient(logical, ROOT)
        await furnish(client)
        fleet = await Fleet.build("2 clusters; nodes 1; image *:bad* fails on all", clock=running().clock.now)
        await fleet.start()
        chance = Random(1)  # noqa: S311 - repeatable on purpose
        controllers = Controllers(
            client, running().clock, random=chance, metrics=Metrics(), instance="test", settings=STRICT
        )
        tasks = [asyncio.create_task(run_controllers(logical)), asyncio.create_task(controllers.run())]
        for member in fleet.members.values():
            await register(client, member)
            hub = InProcessClient(logical, agent_user(member.name))
            tasks.append(asyncio.create_task(agent(hub, member).run()))
        await story(client)
        for task in tasks:
            assert not task.done()
        await end(*tasks)
        await fleet.stop()

    run(main())
