"""People who change everything that can be changed about a policy while it is rolled out, its replicas included."""

import asyncio
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.controller_revisions import CONTROLLER_REVISION
from echelon.api.policy import GROUP, POLICY
from echelon.api.policy_binding import PLACEMENT_BINDING, POLICY_SET
from echelon.engine.policy.names import HELD_ANNOTATION, ROOT_LABEL
from echelon.fleet.simulation import World
from echelon.kube.client import Client, MergePatch
from echelon.kube.errors import NotFound
from tests.controllers.hub import NS
from tests.controllers.placement_world import create
from tests.controllers.policy_content import MARK, content_of
from tests.controllers.policy_ways import POLICY_NAME
from tests.controllers.policy_world import template
from tests.controllers.rollout_decider import Decider
from tests.controllers.rollout_people import SEEN
from tests.controllers.rollout_rules import condition
from tests.controllers.rollout_verbs import Verbs
from tests.controllers.work_world import EVERYWHERE, per_group, progressive

REPLICA = f"{NS}.{POLICY_NAME}"
ACTIONS = ("enforce",) * 6 + ("Enforce", "inform", "inform", None)  # None: templates have their own
OTHER = "q"  # the second placement
NO_BLOCKS: JSONObject = {"progressive": None, "progressivePerGroup": None, "all": None}


def drawn_strategy(chance: Random) -> JSONObject | None:
    limits: JSONObject = {
        "minSuccessTime": chance.choice(("0", "5s", "20s")),
        "progressDeadline": chance.choice(("15s", "30s", "30s", "None")),
        "maxFailures": chance.choice((0, 1, 1, 2, "20%")),
    }
    canary, last = {"groupName": "canary"}, {"groupIndex": 2}
    if first := chance.choice(([], [], [canary], [{"groupIndex": 0}], [canary, last])):
        limits["mandatoryDecisionGroups"] = first
    what = chance.random()
    if what < 0.5:
        window = chance.choice(({}, {"maxConcurrency": 1}, {"maxConcurrency": 2}, {"maxConcurrency": "40%"}))
        return progressive(**window, **limits)
    return per_group(**limits) if what < 0.9 else chance.choice((EVERYWHERE, None))


def templates(version: int, chance: Random) -> list[JSONObject]:
    """Return what a version of the policy wants: one config map or two, by templates that come and go.

    What a template looked after in the version before is another object than now, and goes if it was made by it.
    """
    names = chance.sample(("demo", "extra", "more"), chance.choice((1, 1, 2)))
    found = []
    for name in names:
        own = chance.choice(("enforce", "inform"))
        made = template(str(version), name, remediationAction=own, pruneObjectBehavior="DeleteIfCreated")
        wanted = made["objectDefinition"]["spec"]["object-templates"][0]["objectDefinition"]
        wanted["metadata"] = {"name": f"{name}-{version % 2}", "namespace": chance.choice(("default", "late"))}
        found.append(made)
    return found


@dataclass
class People:
    """Those who change policies, bindings, decisions and replicas."""

    world: World
    client: Client
    chance: Random
    steps: int
    clusters: list[str]
    version: int = 1
    edits: int = 0
    deciders: list[Decider] = field(init=False)

    def __post_init__(self) -> None:
        names = ("p", OTHER)
        self.deciders = [Decider(self.world, self.client, self.chance, self.clusters, name) for name in names]

    @cached_property
    def verbs(self) -> Verbs:
        return Verbs(self.client, self.chance, POLICY, POLICY_NAME, self.revision)

    async def meddle(self) -> None:
        """Do one thing after the other, and leave the world in order, or not."""
        verbs = self.verbs
        acts = (
            (6, self.upgrade),
            (1, self.undo),
            (2, self.change_action),
            (2, self.change_strategy),
            (1, self.disable),
            (1, self.delete),
            (2, verbs.pause),
            (2, verbs.resume),
            (2, verbs.promote),
            (2, verbs.retry),
            (2, verbs.abort),
            (2, self.give_up),
            (2, verbs.gate),
            (3, verbs.approve),
            (1, verbs.relabel),
            (2, self.bind),
            (1, self.restrict),
            (1, self.exclude),
            (3, self.edit_a_replica),
            (1, self.lose_a_replica),
            (4, self.move),
            (3, self.come_and_go),
            (2, self.shift),
            (1, self.make_anew),
        )
        await self.upgrade()
        for _ in range(self.steps):
            (act,) = self.chance.choices([act for _, act in acts], [weight for weight, _ in acts])
            SEEN[act.__name__] += 1
            await act()
            await asyncio.sleep(self.chance.choice((0, 0.05, 1, 4, 12)))
        if self.chance.random() < 0.7:
            await verbs.clean_up()
            await self.upgrade()

    async def upgrade(self) -> None:
        self.version += 1
        body: JSONObject = {"spec": {"policy-templates": templates(self.version, self.chance)}}
        if self.chance.random() < 0.3:
            body["metadata"] = {"labels": {"release": str(self.version)}, "annotations": {"note": str(self.version)}}
        await self.verbs.alter(body)

    async def undo(self) -> None:
        """Go back to something that was wanted before."""
        stored = self.world.objects(CONTROLLER_REVISION.resource, namespace=NS)
        if stored:
            before = self.chance.choice(stored)["data"]["spec"]
            await self.verbs.alter({"spec": {"remediationAction": None, **before}})

    async def give_up(self) -> None:
        """Abort what comes after something that was complete, if anything is complete in time."""
        for _ in range(20):
            there = self.world.objects(POLICY.resource, namespace=NS)
            if any(condition(each, "PlacementRolledOut")[0] == "True" for each in there):
                break
            await asyncio.sleep(3)
        await self.upgrade()
        await asyncio.sleep(self.chance.choice((1, 4, 12)))
        await self.verbs.abort()

    async def change_action(self) -> None:
        await self.verbs.alter({"spec": {"remediationAction": self.chance.choice(ACTIONS)}})

    async def change_strategy(self) -> None:
        drawn = drawn_strategy(self.chance)
        await self.verbs.alter({"spec": {"rolloutStrategy": {**NO_BLOCKS, **drawn} if drawn is not None else None}})

    async def disable(self) -> None:
        """Take the policy off all clusters for a while."""
        await self.verbs.alter({"spec": {"disabled": True}})
        await asyncio.sleep(self.chance.choice((0, 2, 10)))
        await self.verbs.alter({"spec": {"disabled": False}})

    async def delete(self) -> None:
        """Delete the policy, and make it again."""
        (policy,) = self.world.objects(POLICY.resource, namespace=NS)
        await self.client.delete(POLICY, POLICY_NAME, NS)
        await asyncio.sleep(self.chance.choice((0, 0.5, 5)))
        annotations = {name: word for name, word in policy["metadata"].get("annotations", {}).items() if name == "note"}
        await create(self.client, POLICY, POLICY_NAME, NS, metadata={"annotations": annotations}, spec=policy["spec"])

    async def bind(self) -> None:
        """Bind the policy to the second placement too, or not any more."""
        try:
            await self.client.delete(PLACEMENT_BINDING, "second", NS)
        except NotFound:
            through_a_set = self.chance.random() < 0.5
            subject = ("PolicySet", "all") if through_a_set else ("Policy", POLICY_NAME)
            await self.make_binding("second", OTHER, subject)

    async def restrict(self) -> None:
        """Have a binding enforce where another one places, or not any more."""
        try:
            await self.client.delete(PLACEMENT_BINDING, "restricted", NS)
        except NotFound:
            override = {"bindingOverrides": {"remediationAction": "enforce"}}
            fields = override | ({"subFilter": "restricted"} if self.chance.random() < 0.7 else {})
            await self.make_binding("restricted", OTHER, ("Policy", POLICY_NAME), **fields)

    async def exclude(self) -> None:
        """Leave a cluster out of the policy set, or nobody."""
        name = self.chance.choice((None, *self.clusters))
        listed = [{"policyName": POLICY_NAME, "clusterNames": [name]}] if name is not None else None
        await self.client.patch(POLICY_SET, "all", MergePatch({"spec": {"exclusions": listed}}), NS)

    async def make_binding(self, name: str, placement: str, subject: tuple[str, str], **fields: Any) -> None:
        ref = {"apiGroup": "cluster.open-cluster-management.io", "kind": "Placement", "name": placement}
        subjects = [{"apiGroup": GROUP, "kind": subject[0], "name": subject[1]}]
        await create(self.client, PLACEMENT_BINDING, name, NS, placementRef=ref, subjects=subjects, **fields)

    async def edit_a_replica(self) -> None:
        """Change something of a replica by hand."""
        if not (there := self._replicas()):
            return
        replica = self.chance.choice(there)
        self.edits += 1
        notes: JSONObject = {MARK: str(self.edits)}
        labels: JSONObject = {}
        spec: JSONObject = {}
        match self.chance.randrange(6):
            case 0:
                spec["remediationAction"] = self.chance.choice(("enforce", "inform", "Enforce"))
            case 1:
                spec["policy-templates"] = templates(self.chance.randint(1, self.version), self.chance)
            case 2:
                notes[HELD_ANNOTATION] = self.chance.choice(("true", None))
            case 3:
                labels[ROOT_LABEL] = None
            case 4:
                spec["rolloutStrategy"] = {**NO_BLOCKS, **EVERYWHERE}
        body = {"metadata": {"annotations": notes, "labels": labels}, "spec": spec}
        await self.client.patch(POLICY, REPLICA, MergePatch(body), replica["metadata"]["namespace"])

    async def lose_a_replica(self) -> None:
        if there := self._replicas():
            self.world.memory["lost"] = cluster = self.chance.choice(there)["metadata"]["namespace"]
            await self.client.delete(POLICY, REPLICA, cluster)

    async def move(self) -> None:
        await self.chance.choice(self.deciders).move()

    async def come_and_go(self) -> None:
        await self.chance.choice(self.deciders).come_and_go()

    async def shift(self) -> None:
        await self.chance.choice(self.deciders).shift()

    async def make_anew(self) -> None:
        await self.chance.choice(self.deciders).make_anew()

    def _replicas(self) -> list[JSONObject]:
        there = [each for each in self.world.objects(POLICY.resource) if each["metadata"]["namespace"] != NS]
        return [each for each in there if "deletionTimestamp" not in each["metadata"]]

    def revision(self) -> str | None:
        """Return the revision of the present content, as people read it: from what is stored."""
        wanted = [content_of(each["spec"]) for each in self.world.objects(POLICY.resource, namespace=NS)]
        stored = self.world.objects(CONTROLLER_REVISION.resource, namespace=NS)
        return next((hash_of(each) for each in stored if content_of(each["data"]["spec"]) in wanted), None)


def hash_of(revision: JSONObject) -> str:
    """Return what the content of a revision is called."""
    name: str = revision["metadata"]["name"]
    return name.removeprefix(f"{POLICY_NAME}-")
