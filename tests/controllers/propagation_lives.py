"""A small world of templates, policies and clusters in which everything goes wrong, and what must be true of bindings.

People make, scale and delete templates, write policies of both kinds and change them, clusters come and go and are
relabelled; controllers die, stand still and are lied to. What is checked at each committed binding knows nothing of how
clusters are chosen, and where it must all end is computed here once more.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from echelon.api import registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.apps import DEPLOYMENT
from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER, MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING
from echelon.api.core import CONFIG_MAP
from echelon.api.karmada import RESOURCE_BINDING
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.propagation import CLUSTER_PROPAGATION_POLICY, PROPAGATION_POLICY
from echelon.controllers.running import Controllers
from echelon.fleet.loop import running
from echelon.fleet.simulation import Committed, Component, Invariant, LifeOutcome, Scenario, World, simulate
from echelon.kube.client import Client, EventType, MergePatch
from echelon.kube.errors import NotFound
from echelon.kube.faults import Faults, FaultyClient
from echelon.kube.metrics import Metrics
from tests.controllers.hub import CRDS, NS, SET_LABEL
from tests.controllers.strict import STRICT

CLUSTERS = [f"c{number}" for number in range(6)]
FOREIGN = "foreign"  # a cluster of a set that is never bound
TEMPLATES = ("web", "api")
POLICIES = ("p1", "p2")
STEPS = 20
GROUPS = ("work.karmada.io", "policy.karmada.io")
CLUSTER_POLICY = "clusterpropagationpolicy.karmada.io/name"
POLICY = "propagationpolicy.karmada.io/name"

SEEN: Counter[str] = Counter()  # what happened in all worlds of this process, to know that they are worth running
CRUEL = Faults(crash=0.2, late_write=0.5, stale=0.3, delay=0.3, conflict=0.1, latency=(0.0, 0.5))


async def create(client: Client, kind: Kind[Any], name: str, namespace: str = "", **fields: Any) -> None:
    metadata = {"name": name, **fields.pop("metadata", {})}
    await client.create(kind.untyped(), {**kind.type_meta, "metadata": metadata, **fields}, namespace)


async def furnish(client: Client) -> None:
    """Make what is there from the beginning to the end."""
    for definition in (*CRDS, *(each for each in registry.crds() if each["spec"]["group"] in GROUPS)):
        await client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)
    await create(client, NAMESPACE, NS)
    for name in ("set", "other"):
        await create(client, MANAGED_CLUSTER_SET, name)
    await create(client, MANAGED_CLUSTER_SET_BINDING, "set", NS, spec={"clusterSet": "set"})
    await join(client, FOREIGN, "other", "eu")
    for number in range(Faults().stale_revisions):  # replicas that lag must not show a time before the beginning
        await create(client, CONFIG_MAP, f"filler{number}", NS)


async def join(client: Client, name: str, home: str, region: str) -> None:
    labels = {SET_LABEL: home, "region": region}
    await create(client, MANAGED_CLUSTER, name, metadata={"labels": labels}, spec={"hubAcceptsClient": True})


@dataclass
class People:
    """Those who change everything."""

    client: Client
    chance: Random
    present: set[str] = field(default_factory=set)
    templates: set[str] = field(default_factory=set)
    policies: set[tuple[str, str]] = field(default_factory=set)  # namespace and name

    async def meddle(self) -> None:
        for step in range(STEPS):
            what = self.chance.random() if step > 3 else step / 4 + 0.05
            if what < 0.3:
                await self.change_clusters()
            elif what < 0.65:
                await self.change_policies()
            else:
                await self.change_templates()
            await asyncio.sleep(self.chance.choice((0, 0, 0.05, 1, 6)))

    async def change_clusters(self) -> None:
        name, region = self.chance.choice(CLUSTERS), self.chance.choice(("eu", "us"))
        if name not in self.present:
            await join(self.client, name, "set", region)
            self.present.add(name)
        elif self.chance.random() < 0.3:
            await self.client.delete(MANAGED_CLUSTER, name)
            self.present.discard(name)
        else:
            await self.client.patch(MANAGED_CLUSTER, name, MergePatch({"metadata": {"labels": {"region": region}}}))

    async def change_policies(self) -> None:
        namespace = self.chance.choice((NS, NS, ""))
        kind: Kind[Any] = PROPAGATION_POLICY if namespace else CLUSTER_PROPAGATION_POLICY
        key = namespace, self.chance.choice(POLICIES)
        spec = self.drawn_spec()
        if key not in self.policies:
            await create(self.client, kind, key[1], namespace, spec=spec)
            self.policies.add(key)
        elif self.chance.random() < 0.25:
            await self.client.delete(kind, key[1], namespace)
            self.policies.discard(key)
        else:
            nothing = {"clusterAffinity": None, "replicaScheduling": None}
            await self.client.patch(
                kind, key[1], MergePatch({"spec": {**spec, "placement": {**nothing, **spec["placement"]}}}), namespace
            )

    def drawn_spec(self) -> JSONObject:
        chance, selector = self.chance, {"apiVersion": "apps/v1", "kind": "Deployment"}
        placement: JSONObject = {}
        affinity = chance.choice(
            (
                None,
                {"labelSelector": {"matchLabels": {"region": chance.choice(("eu", "us", "nowhere", "nowhere"))}}},
                {"exclude": chance.sample(CLUSTERS, 2)},
                {"clusterNames": [*chance.sample(CLUSTERS, 3), FOREIGN]},
            )
        )
        if affinity is not None:
            placement["clusterAffinity"] = affinity
        if chance.random() < 0.6:
            placement["replicaScheduling"] = {"replicaSchedulingType": "Divided"}
        chosen = chance.choice(({}, {}, {"name": chance.choice(TEMPLATES)}))
        return {
            "resourceSelectors": [{**selector, **chosen}],
            "placement": placement,
            "priority": chance.choice((0, 0, 5)),
            "preemption": chance.choice(("Never", "Always")),
        }

    async def change_templates(self) -> None:
        name, replicas = self.chance.choice(TEMPLATES), self.chance.randint(0, 9)
        if name not in self.templates:
            labels = {"app": name}
            pods = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web:v1"}]}}
            spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": pods}
            await create(self.client, DEPLOYMENT, name, NS, spec=spec)
            self.templates.add(name)
        elif self.chance.random() < 0.2:
            await self.client.delete(DEPLOYMENT, name, NS)
            self.templates.discard(name)
        else:
            try:
                await self.client.patch(DEPLOYMENT, name, MergePatch({"spec": {"replicas": replicas}}), NS)
            except NotFound:
                return


async def controller(client: FaultyClient) -> None:
    chance = Random(running().random.getrandbits(64))  # noqa: S311 - repeatable on purpose
    made = Controllers(
        client,
        running().clock,
        ["workload-propagation"],
        random=chance,
        metrics=Metrics(),
        instance="only",
        settings=STRICT,
    )
    await made.run()


def shares(binding: JSONObject) -> dict[str, int]:
    return {each["name"]: each.get("replicas", 0) for each in binding["spec"].get("clusters", [])}


def is_divided(binding: JSONObject) -> bool:
    return "replicaScheduling" in binding["spec"].get("placement", {})


def bindings_are_in_order(world: World, commit: Committed) -> str | None:
    """Every committed binding is one that could have been meant, whatever its writer knew."""
    if commit.key.resource != RESOURCE_BINDING.resource or commit.type is EventType.DELETED:
        return None
    del world
    binding, found = commit.object, shares(commit.object)
    notes = binding["metadata"]["annotations"]
    before = shares(commit.previous) if commit.previous is not None else {}
    SEEN["lost"] += bool(before.keys() - found.keys())
    SEEN["gained"] += bool(before and found.keys() - before.keys())
    if POLICY in notes and FOREIGN in found.keys() - before.keys():
        return f"{FOREIGN} gets something from a policy of a namespace that has no say about it"
    if (POLICY in notes) == (CLUSTER_POLICY in notes):
        return f"it names {notes}"
    replicas = binding["spec"].get("replicas", 0)
    if FOREIGN in before:  # then it may keep what nobody here may change
        return None
    if found and is_divided(binding) and sum(found.values()) != replicas:
        return f"{found} are divided of {replicas}"
    if not is_divided(binding) and any(each != replicas for each in found.values()):
        return f"{found} are duplicated of {replicas}"
    if before and not found:
        return f"{before} are all lost at once"
    return None


def everybody_has_what_is_meant(world: World) -> str | None:
    bindings = {each["metadata"]["name"]: each for each in world.objects(RESOURCE_BINDING.resource, namespace=NS)}
    templates = {f"{each['metadata']['name']}-deployment": each for each in world.objects(DEPLOYMENT.resource)}
    if strange := bindings.keys() - templates.keys():
        return f"there are bindings of nothing: {strange}"
    for name, template in templates.items():
        wrong = _as_meant(world, template, bindings.get(name))
        if wrong:
            return f"{name}: {wrong}"
    return None


def _as_meant(world: World, template: JSONObject, binding: JSONObject | None) -> str | None:
    name = template["metadata"]["name"]
    own = {each["metadata"]["name"]: each for each in world.objects(PROPAGATION_POLICY.resource, namespace=NS)}
    all_ = {each["metadata"]["name"]: each for each in world.objects(CLUSTER_PROPAGATION_POLICY.resource)}
    meaning = [each for each in (*own.values(), *all_.values()) if _selects(each, name)]
    if binding is None:
        return "it has no binding" if meaning else None
    notes = binding["metadata"]["annotations"]
    policy = own.get(notes[POLICY]) if POLICY in notes else all_.get(notes[CLUSTER_POLICY])
    reason = next((each["reason"] for each in binding["status"]["conditions"] if each["type"] == "Scheduled"), "")
    if not meaning:
        return None if reason == "NoPolicy" else f"nobody means it, and it says {reason}"
    if policy is None or not _selects(policy, name):
        return f"it follows {notes}, which does not mean it"
    SEEN["kept"] += len(meaning) > 1
    wanted = {
        each["metadata"]["name"]
        for each in world.objects(MANAGED_CLUSTER.resource)
        if _means(policy, each) and (POLICY not in notes or each["metadata"]["labels"][SET_LABEL] == "set")
    }
    found, replicas = shares(binding), template["spec"]["replicas"]
    kept = {FOREIGN} & found.keys() - wanted if POLICY in notes else set[str]()
    if (not wanted and found.keys() != kept) or not found:
        SEEN["held"] += reason == "RemovalHeld"
        return None if reason in ("RemovalHeld", "NoClusterFit") else f"nobody is meant, and it says {reason}"
    if not is_divided(binding):
        right = dict.fromkeys(wanted, replicas)
        return None if {each: found[each] for each in found.keys() - kept} == right else f"{found}, not {right}"
    rest = max(0, replicas - sum(found[each] for each in kept))
    given = {each: count for each, count in found.items() if each not in kept}
    low = rest // len(wanted) if wanted else 0
    fair = all(low <= given.get(each, 0) <= low + 1 for each in wanted)
    return (
        None if given.keys() <= wanted and fair and sum(given.values()) == rest else f"{found} of {replicas}: {wanted}"
    )


def _selects(policy: JSONObject, name: str) -> bool:
    return any(each.get("name", name) == name for each in policy["spec"]["resourceSelectors"])


def _means(policy: JSONObject, cluster: JSONObject) -> bool:
    affinity, meta = policy["spec"].get("placement", {}).get("clusterAffinity", {}), cluster["metadata"]
    region = affinity.get("labelSelector", {}).get("matchLabels", {}).get("region", meta["labels"]["region"])
    named = affinity.get("clusterNames") or [meta["name"]]
    return (
        meta["name"] in named and meta["name"] not in affinity.get("exclude", []) and region == meta["labels"]["region"]
    )


async def build(world: World) -> None:
    await world.add_cluster()
    await furnish(world.client())
    world.start(Component("only", controller))
    world.spawn(People(world.client(), world.random).meddle(), "people")


SCENARIO = Scenario(
    name="propagation",
    build=build,
    goal=everybody_has_what_is_meant,
    invariants=(Invariant("bindings", bindings_are_in_order),),
    chaos_seconds=60.0,
    settle_seconds=1200.0,
    silence_seconds=90.0,  # longer than any stream is silent
    kill_seconds=(2.0, 40.0),
    pause_seconds=(0.0, 30.0),
    restart_seconds=(0.0, 8.0),
    replay="ECHELON_SEED={seed} python -m pytest -n 0 tests/controllers/test_workload_propagation_simulation.py",
)
# Nobody dies here, so that what goes wrong is easy to understand.
GENTLE = replace(SCENARIO, name="propagation, gently", kill_seconds=None, pause_seconds=(0.0, 0.0))


def live(seed: int) -> LifeOutcome:
    """Run the world once. Every fourth seed is gentle, every fourth is cruel, the others draw a mixture of faults."""
    drawn = Faults.swarm(Random(f"faults of {seed}"))  # noqa: S311 - repeatable on purpose
    if seed % 4 == 0:
        return simulate(GENTLE, seed, Faults(close=drawn.close, repeat=drawn.repeat, gone=drawn.gone))
    return simulate(SCENARIO, seed, replace(CRUEL if seed % 4 == 1 else drawn, stall_seconds=(5.0, 60.0)))
