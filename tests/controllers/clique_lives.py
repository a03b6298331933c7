"""The life of a PodCliqueSet: people who edit, scale, delete and change their minds, and what must never be so."""

import asyncio
import json
from collections.abc import Iterator
from random import Random
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.core import CONFIG_MAP, POD
from echelon.api.grove import GROUP, POD_CLIQUE, POD_CLIQUE_SCALING_GROUP, POD_CLIQUE_SET
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.podgangs import GROUP as GANGS
from echelon.controllers.running import POD_CLIQUES, Controllers
from echelon.engine.rollout import control
from echelon.fleet.loop import running
from echelon.fleet.member.clone import clone_cluster
from echelon.fleet.member.member import Member
from echelon.fleet.member.profile import NodeShape, Profile
from echelon.fleet.simulation import Committed, Component, World
from echelon.kube.client import Client, MergePatch
from echelon.kube.errors import NotFound
from echelon.kube.faults import Faults, FaultyClient
from echelon.kube.metrics import Metrics
from tests.controllers.clique_world import NS, SETTINGS, clique, group, is_ready, set_of

CLIQUE_LABEL, GROUP_LABEL = "grove.io/podclique", "grove.io/podcliquescalinggroup"
# How long after a change of strategy a controller that has not heard of it may still delete.
UNHEARD_SECONDS = 240.0
# How long what people have deleted may be missing, and unknown to a controller that hears late.
EXCUSED_SECONDS = 300.0
# How long after a clique was scaled out a deletion for its earlier size may still arrive. The controller deletes after
# a write of the clique as it saw it; from that write on nobody can know better, and its answer and the deletion travel
# for half a second each at most (`Faults.swarm`).
ON_THE_WAY_SECONDS = 1.0
SPEC = set_of(
    clique("front", 3, minAvailable=2),
    clique("lead", 1),
    clique("work", 2),
    strategy="RollingRecreate",
    podCliqueScalingGroups=[group("pool", "lead", "work")],
)


async def controller(client: FaultyClient) -> None:
    chance = Random(running().random.getrandbits(64))  # noqa: S311 - repeatable on purpose
    made = Controllers(
        client,
        running().clock,
        (POD_CLIQUES,),
        random=chance,
        metrics=Metrics(),
        instance="only",
        settings=SETTINGS,
    )
    await made.run()


async def build(world: World) -> None:
    """Have a cluster with a set on it, its controller, and people."""
    await begin(world)
    world.spawn(people(world, world.client()), "people")


async def begin(world: World, *, on_delete: bool | None = None) -> None:
    """Have a cluster with a set on it, and its controller."""
    seed = world.random.getrandbits(32)
    cluster = await clone_cluster("", clock=running().clock.now, seed=seed, groups=(GROUP, GANGS))
    await world.add_cluster("", cluster)
    member = Member(Profile("c1", nodes=(NodeShape(), NodeShape()), seed=seed), cluster)
    client = world.client()
    await client.create(NAMESPACE.untyped(), {"metadata": {"name": NS}})
    await member.start()
    # Replicas that lag must not show a time before the beginning.
    for number in range(Faults().stale_revisions):
        body = {**CONFIG_MAP.type_meta, "metadata": {"name": f"filler{number}"}}
        await client.create(CONFIG_MAP.untyped(), body, NS)
    # In half of the lives it is OnDelete from the beginning, so that nobody can believe anything else.
    world.memory["always on delete"] = world.random.random() < 0.5 if on_delete is None else on_delete
    strategy = "OnDelete" if world.memory["always on delete"] else "RollingRecreate"
    spec = {**SPEC, "updateStrategy": {"type": strategy}}
    body = {**POD_CLIQUE_SET.type_meta, "metadata": {"name": "w"}, "spec": spec}
    await client.create(POD_CLIQUE_SET.untyped(), body, NS)
    world.start(Component("controller", controller))


async def people(world: World, client: Client) -> None:
    """Do what people do, in any order, and end with a strategy that brings everything to the last template."""
    chance, version = world.random, 1
    for _ in range(chance.randint(4, 12)):
        await asyncio.sleep(chance.choice((1, 5, 20, 60)))
        what = chance.choice(("edit", "edit", "delete", "delete", "scale", "group", "strategy", "replicas", "pause"))
        if what == "edit":
            version += 1
            await edit(client, chance.choice(("front", "lead", "work", "")), f"v{version}")
        elif what == "delete":
            for name in chance.sample(names := living(world), min(len(names), chance.randint(1, 3))):
                world.memory.setdefault("by people", {})[name] = world.loop.time()
                await _gone(client, POD, name)
        elif what == "scale":
            await change(client, POD_CLIQUE, "w-0-front", {"spec": {"replicas": chance.randint(2, 4)}})
        elif what == "group":
            await change(client, POD_CLIQUE_SCALING_GROUP, "w-0-pool", {"spec": {"replicas": chance.randint(1, 3)}})
        elif what == "strategy" and not world.memory["always on delete"]:
            strategy = chance.choice(("OnDelete", "RollingRecreate"))
            await change(client, POD_CLIQUE_SET, "w", {"spec": {"updateStrategy": {"type": strategy}}})
        elif what == "replicas":
            await change(client, POD_CLIQUE_SET, "w", {"spec": {"replicas": chance.randint(1, 2)}})
        elif what == "pause":
            words = chance.choice((control.pause(), control.resume(running().clock.now())))
            await change(client, POD_CLIQUE_SET, "w", {"metadata": {"annotations": words}})
    last = {"spec": {"updateStrategy": {"type": "RollingRecreate"}, "replicas": 1}}
    await change(client, POD_CLIQUE_SET, "w", {**last, "metadata": {"annotations": dict.fromkeys(control.pause())}})
    world.memory["last words"] = True


async def edit(client: Client, name: str, image: str) -> None:
    found = await client.get(POD_CLIQUE_SET.untyped(), "w", NS)
    cliques: list[JSONObject] = json.loads(json.dumps(found["spec"]["template"]["cliques"]))
    for each in cliques:
        if name in ("", each["name"]):
            each["spec"]["podSpec"]["containers"][0]["image"] = image
    await change(client, POD_CLIQUE_SET, "w", {"spec": {"template": {"cliques": cliques}}})


async def change(client: Client, kind: Kind[Any], name: str, body: JSONObject) -> None:
    try:
        await client.patch(kind.untyped(), name, MergePatch(body), NS)
    except NotFound:
        return


async def _gone(client: Client, kind: Kind[Any], name: str) -> None:
    try:
        await client.delete(kind, name, NS)
    except NotFound:
        return


def living(world: World) -> list[str]:
    return [pod["metadata"]["name"] for pod in live_pods(world)]


def live_pods(world: World) -> Iterator[JSONObject]:
    for pod in world.objects(POD.resource, namespace=NS):
        if not pod["metadata"].get("deletionTimestamp") and pod["status"].get("phase") not in ("Failed", "Succeeded"):
            yield pod


def one_pod_an_index(world: World, commit: Committed) -> str | None:
    """No two live pods of a set have one index of one clique."""
    if commit.key.resource != POD.resource:
        return None
    hosts = [pod["spec"]["hostname"] for pod in live_pods(world)]
    doubled = {host for host in hosts if hosts.count(host) > 1}
    return f"two live pods have the host name {doubled.pop()}" if doubled else None


def nothing_is_deleted_for_an_edit(world: World, commit: Committed) -> str | None:
    """Under OnDelete a pod goes because people delete it, or because there are too many, and for nothing else."""
    if commit.key.resource == POD_CLIQUE_SET.resource:
        _note_strategy(world, commit)
        return None
    if commit.key.resource == POD_CLIQUE.resource:
        _note_size(world, commit)
        return None
    if commit.key.resource != POD.resource or not _goes(commit):
        return None
    since, always = world.memory.get("on delete since"), world.memory["always on delete"]
    if since is None or (not always and world.loop.time() - since < UNHEARD_SECONDS):
        return None
    labels = commit.object["metadata"]["labels"]
    cliques = {each["metadata"]["name"]: each for each in world.objects(POD_CLIQUE.resource, namespace=NS)}
    owner = cliques.get(labels[CLIQUE_LABEL])
    owned = commit.object["metadata"]["ownerReferences"][0]["uid"]
    if commit.key.name in world.memory.get("by people", ()) or owner is None or owner["metadata"]["uid"] != owned:
        return None
    if owner["metadata"].get("deletionTimestamp"):
        return None
    left = sum(1 for pod in live_pods(world) if pod["metadata"]["labels"][CLIQUE_LABEL] == labels[CLIQUE_LABEL])
    # What people have deleted may be there for a controller that hears late, and then something is too many.
    unheard = [
        name
        for name, moment in world.memory.get("by people", {}).items()
        if name.rpartition("-")[0] == labels[CLIQUE_LABEL] and world.loop.time() - moment < EXCUSED_SECONDS
    ]
    known = left + len(unheard)
    if known >= _least_size(world, owner) or commit.object["status"].get("phase") in ("Failed", "Succeeded"):
        return None
    return f"pod {commit.key.name} was deleted under OnDelete, and {left} of {owner['spec']['replicas']} are left"


def the_floor_is_kept(world: World, commit: Committed) -> str | None:
    """A ready pod of a standalone clique goes only if enough stay ready, but for those that people have deleted."""
    if commit.key.resource != POD.resource or not _goes(commit) or not is_ready(commit.previous or commit.object):
        return None
    labels = commit.object["metadata"]["labels"]
    if GROUP_LABEL in labels:
        return None
    clique_name = labels[CLIQUE_LABEL]
    taken: list[float] = world.memory.setdefault(f"taken of {clique_name}", [])
    if commit.key.name in world.memory.get("by people", ()):
        taken.append(world.loop.time())
        return None
    owners = world.objects(POD_CLIQUE.resource, namespace=NS)
    owner = next((each for each in owners if each["metadata"]["name"] == clique_name), None)
    if owner is None or owner["metadata"].get("deletionTimestamp"):
        return None
    spec = owner["spec"]
    ready = sum(is_ready(pod) for pod in live_pods(world) if pod["metadata"]["labels"][CLIQUE_LABEL] == clique_name)
    excused = sum(world.loop.time() - moment < EXCUSED_SECONDS for moment in taken)
    floor = min(spec["minAvailable"], spec["replicas"] - 1)
    if ready + excused >= floor:
        return None
    return f"pod {commit.key.name} was deleted, {ready} stay ready of {floor} that are needed"


def _note_strategy(world: World, commit: Committed) -> None:
    strategy = commit.object["spec"].get("updateStrategy", {}).get("type")
    if strategy != "OnDelete":
        world.memory.pop("on delete since", None)
    else:
        world.memory.setdefault("on delete since", world.loop.time())


def _note_size(world: World, commit: Committed) -> None:
    """Remember until when a clique had another size."""
    before = (commit.previous or commit.object)["spec"]["replicas"]
    if before != commit.object["spec"]["replicas"]:
        world.memory.setdefault("sizes", {}).setdefault(commit.key.name, []).append((world.loop.time(), before))


def _least_size(world: World, owner: JSONObject) -> int:
    """Return the smallest size of a clique that a deletion which arrives now may have been meant for."""
    earlier = world.memory.get("sizes", {}).get(owner["metadata"]["name"], ())
    sizes: list[int] = [size for moment, size in earlier if world.loop.time() - moment <= ON_THE_WAY_SECONDS]
    sizes.append(owner["spec"]["replicas"])
    return min(sizes)


def _goes(commit: Committed) -> bool:
    """Whether a pod begins to end by this commit."""
    before = commit.previous
    if before is not None and before["metadata"].get("deletionTimestamp"):
        return False
    return commit.type == "DELETED" or bool(commit.object["metadata"].get("deletionTimestamp"))


def updated_within_replicas(_: World, commit: Committed) -> str | None:
    """No status says that more is updated than there is."""
    if commit.key.resource not in (POD_CLIQUE.resource, POD_CLIQUE_SCALING_GROUP.resource, POD_CLIQUE_SET.resource):
        return None
    status = commit.object.get("status", {})
    updated, replicas = status.get("updatedReplicas", 0), status.get("replicas", 0)
    return f"{updated} of {replicas} are updated" if updated > replicas else None


def goal(world: World) -> str | None:
    """Everything runs the last template, and says so."""
    if "last words" not in world.memory:
        return "people have not come to an end"
    (found,) = world.objects(POD_CLIQUE_SET.resource, namespace=NS)
    status, spec = found.get("status", {}), found["spec"]
    wanted = {each["name"]: each["spec"]["podSpec"]["containers"][0]["image"] for each in spec["template"]["cliques"]}
    if status.get("observedGeneration") != found["metadata"]["generation"]:
        return "the last generation is not observed"
    if (status.get("availableReplicas"), status.get("updatedReplicas")) != (1, 1):
        return f"not available or not updated: {status}"
    if status.get("lastErrors") or status.get("outdatedPodsCount"):
        return f"errors, or outdated pods: {status}"
    for each in world.objects(POD_CLIQUE.resource, namespace=NS):
        pods = [p for p in live_pods(world) if p["metadata"]["labels"][CLIQUE_LABEL] == each["metadata"]["name"]]
        images = {pod["spec"]["containers"][0]["image"] for pod in pods}
        if len(pods) != each["spec"]["replicas"] or images != {wanted[each["spec"]["roleName"]]}:
            return f"{each['metadata']['name']}: {len(pods)} of {each['spec']['replicas']} pods, with {images}"
        if not all(map(is_ready, pods)):
            return f"{each['metadata']['name']} is not ready"
    return None
