"""How federated workloads look in `echelon rollout`: named by their template, with pods and budget for each cluster."""

import pytest
from tests.controllers.hub import NS, now
from tests.controllers.propagation_world import policy, respec
from tests.controllers.workload_world import WorkloadWorld, of_deployment, told

from echelon.api.apps import DEPLOYMENT
from echelon.api.override import OVERRIDE_POLICY
from echelon.api.rbac import ROLE, ROLE_BINDING
from echelon.cli.rollout_history import history_of
from echelon.cli.rollout_tree import tree
from echelon.cli.terminal import plain
from echelon.engine.rollout import control
from echelon.engine.rollout.actions import ACTIONS
from echelon.engine.rollout.stored_revision import CAUSE_ANNOTATION
from echelon.hub.access.identity import User
from echelon.hub.client import InProcessClient
from echelon.kube.client import MergePatch, Reader
from echelon.kube.errors import NotFound
from echelon.rollouts.kinds import find, find_all
from echelon.rollouts.picture import Picture
from echelon.rollouts.refusals import Refused
from echelon.rollouts.steering import Wish, removal_of, steer

SIZES = {"c1": 4, "c2": 6}


async def running(world: WorkloadWorld) -> None:
    """Have the first story complete with its first template."""
    await world.join(*SIZES)
    await world.template(10, strategy=of_deployment(2, 1))
    await world.bind(SIZES)
    world.start()
    await world.finish()


async def drawn(world: WorkloadWorld, named: str = "deployment/web", client: Reader | None = None) -> Picture:
    _, found = await find(client or world.hub.client, named, NS)
    return found.picture(now())


def lines(picture: Picture) -> list[str]:
    return [plain(line) for line in tree(picture)]


def test_it_is_named_by_its_template_and_shows_the_pods_and_the_budget_of_every_cluster() -> None:
    async def story(world: WorkloadWorld) -> None:
        await running(world)
        picture = await drawn(world)
        assert (picture.kind, picture.name, picture.state) == ("deployment", "web", "complete")
        await world.upgrade("2")
        await world.settle(12)
        picture = await drawn(world, "web")
        assert (picture.state, picture.number) == ("rolling out", 2)
        assert picture.budget == "2 of 2 unavailable; 1 of 1 too many"
        shown = "\n".join(lines(picture))
        assert "Deployment web" in shown
        assert "may miss 1, may exceed by 1" in shown
        assert max(map(len, lines(picture))) <= 80
        await world.finish()
        assert [(each.kind, each.name, each.state) for each in await all_of(world)] == [
            ("deployment", "web", "complete")
        ]

    told(story)


async def all_of(world: WorkloadWorld) -> list[Picture]:
    return [each.picture(now()) for each in await find_all(world.hub.client, NS, print)]


def test_a_pause_is_for_the_binding_and_the_picture_says_that_everybody_waits() -> None:
    async def story(world: WorkloadWorld) -> None:
        await running(world)
        await world.annotate(control.pause())
        await world.settle()
        await world.upgrade("2")
        await world.settle(60)
        assert (await drawn(world)).state == "paused"
        assert world.pods() == {"c1": "0/0, 4/4", "c2": "0/0, 6/6"}
        await world.annotate(dict.fromkeys(control.pause()))
        await world.finish()
        assert (await drawn(world)).state == "complete"

    told(story)


def test_what_is_wrong_with_the_template_is_told() -> None:
    async def story(world: WorkloadWorld) -> None:
        await running(world)
        await world.change(strategy=of_deployment("two", 0))
        await world.settle()
        picture = await drawn(world)
        assert picture.state == "misconfigured"
        assert "maxUnavailable" in picture.message
        await world.change(strategy=of_deployment(2, 1))

    told(story)


def test_what_overrides_make_of_it_is_told_to_those_who_cannot_read_them() -> None:
    async def story(world: WorkloadWorld) -> None:
        await running(world)
        greedy = {"plaintext": [{"path": "/spec/replicas", "operator": "replace", "value": 99}]}
        await world.hub.create(OVERRIDE_POLICY, "greedy", NS, spec={"overrideRules": [{"overriders": greedy}]})
        await world.settle()
        (picture,) = await all_of(world)
        assert picture.state == "misconfigured"
        assert (
            "overrides touch fields that budgets are made of: c1: spec.replicas is 99 by apps/greedy; c2"
            in picture.message
        )
        await world.hub.delete(OVERRIDE_POLICY, "greedy", NS)
        await world.finish()
        assert (await drawn(world)).state == "complete"

    told(story)


def test_a_cluster_whose_image_is_overridden_has_the_template_for_those_who_can_read_overrides() -> None:
    async def story(world: WorkloadWorld) -> None:
        mirror = {"imageOverrider": [{"component": "Registry", "operator": "replace", "value": "mirror.example"}]}
        rule = {"overriders": mirror, "targetCluster": {"clusterNames": ["c2"]}}
        await world.hub.create(OVERRIDE_POLICY, "mirror", NS, spec={"overrideRules": [rule]})
        await running(world)
        picture = await drawn(world)
        assert (picture.state, picture.note) == ("complete", "")
        await world.upgrade("2")
        await world.finish()
        assert (await drawn(world)).state == "complete"
        client = InProcessClient(world.hub.client._cluster, User("reader"))
        rules = [
            {"apiGroups": ["work.karmada.io", "apps", "echelon.dev"], "resources": ["*"], "verbs": ["get", "list"]},
        ]
        await world.hub.create(ROLE, "read", NS, rules=rules)
        ref = {"apiGroup": ROLE.group, "kind": ROLE.kind, "name": "read"}
        await world.hub.create(ROLE_BINDING, "read", NS, roleRef=ref, subjects=[{"kind": "User", "name": "reader"}])
        note = (await drawn(world, client=client)).note
        assert "override policies cannot be read" in note

    told(story)


def test_the_loss_that_a_policy_without_clusters_would_bring_can_be_approved() -> None:
    async def story(world: WorkloadWorld) -> None:
        await world.join(*SIZES)
        await world.template(10, strategy=of_deployment(2, 1))
        await policy(world.hub)
        world.start()
        await world.finish()
        _, found = await find(world.hub.client, "deployment/web", NS)
        with pytest.raises(Refused, match="no removal is held"):
            removal_of(found, now())
        await respec(world.hub, placement={"clusterAffinity": {"labelSelector": {"matchLabels": {"env": "prdo"}}}})
        await world.settle()
        assert await world.said("Scheduled") == ("False", "RemovalHeld")
        _, found = await find(world.hub.client, "deployment/web", NS)
        await world.annotate(removal_of(found, now())[0])
        await world.settle(600)
        assert await world.works() == {}

    told(story)


def test_a_deployment_that_nothing_propagates_is_told_so() -> None:
    async def story(world: WorkloadWorld) -> None:
        await world.template(10)
        with pytest.raises(NotFound, match="nothing brings web to clusters"):
            await find(world.hub.client, "deployment/web", NS)
        with pytest.raises(NotFound, match=r'deployment or .* "web" not found'):
            await find(world.hub.client, "web", NS)
        with pytest.raises(Refused, match="there are manifestworkreplicaset, policy, deployment"):
            await find(world.hub.client, "gizmo/web", NS)

    told(story)


async def developer(world: WorkloadWorld) -> Reader:
    """Return a client of somebody who may read everything in the namespace of the template, and nothing elsewhere."""
    everything = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
    await world.hub.create(ROLE, "reader", NS, rules=everything)
    subjects = [{"kind": "User", "apiGroup": ROLE.group, "name": "developer"}]
    reference = {"apiGroup": ROLE.group, "kind": "Role", "name": "reader"}
    await world.hub.create(ROLE_BINDING, "reader", NS, subjects=subjects, roleRef=reference)
    return InProcessClient(world.hub.client._cluster, User("developer"))


def test_rights_in_the_namespace_of_the_template_are_enough_to_see_how_far_it_is() -> None:
    async def story(world: WorkloadWorld) -> None:
        await running(world)
        picture = await drawn(world, client=await developer(world))
        assert (picture.state, picture.counts) == ("complete", {"done": 2})
        assert picture.note.startswith("the works of the clusters cannot be read")

    told(story)


def test_what_pods_say_is_told_with_the_cluster_by_the_binding_and_to_who_may_not_see_its_work() -> None:
    cause = 'ImagePullBackOff: image "web:2" (pod web-a)'

    async def story(world: WorkloadWorld) -> None:
        await running(world)
        reader = await developer(world)
        slow = world.pace.start
        world.pace.start = (3000.0, 3000.0)
        world.limits.agents["c1"].cause = f"{cause}\n\x1b[31m" + "?" * 5000
        world.limits.agents["c2"].cause = cause
        await world.upgrade("2")
        await world.settle(120)
        said = await world.condition("RolloutProgressing")
        assert f"; c1: {cause} [31m???" in said.message
        assert said.message.endswith(f"…; c2: {cause}")
        assert len(said.message) < 600
        items = {each.cluster_name: each.status or {} for each in (await world.binding()).status.aggregated_status}
        assert items["c2"]["cause"] == cause
        assert (await world.figures())["c2"].message.endswith(f"; {cause}")
        for client in (world.hub.client, reader):
            shown = " ".join(" ".join(lines(await drawn(world, client=client))).replace("│", " ").split())
            assert shown.count(cause) == 2, shown
            assert "\x1b" not in shown
        world.pace.start = slow
        await world.upgrade("3")
        await world.finish()
        found = await world.conditions()
        assert cause not in str((found, await world.figures(), (await world.binding()).status))

    told(story)


def test_an_undo_writes_the_template_and_who_did_it_and_why_where_each_belongs() -> None:
    async def story(world: WorkloadWorld) -> None:
        await running(world)
        client = world.hub.client
        await client.patch(DEPLOYMENT, "web", caused("the first one"), NS)
        await world.settle()
        await world.upgrade("2")
        await client.patch(DEPLOYMENT, "web", caused("search is faster"), NS)
        await world.finish()
        kind, found = await find(client, "deployment/web", NS)
        assert [each["cause"] for each in history_of(kind, found)] == ["the first one", "search is faster"]
        _, change = await steer(client, "deployment/web", NS, Wish("undo"))
        assert change.notes == ()
        await world.finish()
        template = await client.get(DEPLOYMENT, "web", NS)
        assert template.metadata.annotations[CAUSE_ANNOTATION] == "the first one"
        assert ACTIONS not in template.metadata.annotations, "members have no business with it"
        kind, found = await find(client, "deployment/web", NS)
        told_of = {each["cause"]: [action["verb"] for action in each["actions"]] for each in history_of(kind, found)}
        assert told_of == {"the first one": [], "search is faster": ["undo"]}

    told(story)


def caused(why: str) -> MergePatch:
    return MergePatch({"metadata": {"annotations": {CAUSE_ANNOTATION: why}}})
