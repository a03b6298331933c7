"""What goes wrong around a federated rollout, and what must hold all the same."""

import asyncio
from random import Random
from typing import Any

import pytest

from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.karmada import RESOURCE_BINDING, WORK
from echelon.api.namespaces import NAMESPACE
from echelon.api.rollout_ledger import ROLLOUT_LEDGER
from echelon.controllers.running import Controllers
from echelon.engine.align import Ledger
from echelon.engine.cluster_health import UNREACHABLE
from echelon.engine.workload.names import PUSH_ID, execution_namespace
from echelon.hub.client import InProcessClient
from echelon.hub.server import ROOT
from echelon.kube.errors import Forbidden
from echelon.kube.metrics import Metrics
from tests.controllers.hub import NS, now
from tests.controllers.test_workloads import begun
from tests.controllers.workload_world import WorkloadWorld, of_deployment, told
from tests.engine.align.members import Pace

pytestmark = pytest.mark.full


async def taint(world: WorkloadWorld, cluster: str) -> None:
    """Have nobody hear of a cluster any more."""
    world.limits.agents[cluster].cut = True
    stamp = now().strftime("%Y-%m-%dT%H:%M:%SZ")
    taints = [{"key": UNREACHABLE, "effect": "NoSelect", "timeAdded": stamp}]
    await world.hub.patch(MANAGED_CLUSTER, cluster, {"spec": {"taints": taints}})


async def heal(world: WorkloadWorld, cluster: str) -> None:
    world.limits.agents[cluster].cut = False
    await world.hub.patch(MANAGED_CLUSTER, cluster, {"spec": {"taints": None}})


def test_a_cluster_that_cannot_be_reached_keeps_what_it_was_granted_and_is_named() -> None:
    async def story(world: WorkloadWorld) -> None:
        await begun(world, of_deployment(1, 0))
        world.budgets(9, 10)
        await world.upgrade("2")
        await world.settle(2)
        held = next(name for name, each in (await world.figures()).items() if each.unavailable)
        await taint(world, held)
        await world.settle(120)
        status, reason = await world.said("RolloutStalled")
        assert (status, reason) == ("True", "ClusterUnreachable")
        assert held in (await world.condition("RolloutStalled")).message
        await heal(world, held)
        await world.finish(1800)
        assert await world.said("RolloutStalled") == ("False", "NotStalled")

    told(story)


def test_a_new_template_waits_for_a_cluster_that_cannot_be_reached() -> None:
    """It has pods that count, and nobody knows how they do: the others go on with what is left of the budget."""

    async def story(world: WorkloadWorld) -> None:
        await begun(world)
        world.budgets(8, 11)
        await taint(world, "c1")
        await world.settle(2)
        await world.upgrade("2")
        await world.settle(200)
        assert world.pods() == {"c1": "0/0, 4/4", "c2": "0/0, 6/6"}
        assert (await world.figures())["c1"].wait == "ClusterUnreachable"
        assert await world.said("RolloutProgressing") == ("True", "Progressing")
        await heal(world, "c1")
        await world.finish()

    told(story)


def test_a_cluster_that_was_deselected_and_stays_away_is_written_off_after_the_grace() -> None:
    async def story(world: WorkloadWorld) -> None:
        await begun(world)
        await taint(world, "c2")
        await world.settle(2)
        await world.join("c3")
        await world.rebind({"c1": 4, "c3": 6})
        await world.settle(200)
        assert "c2" in await world.figures()
        await world.settle(200)
        assert "c2" not in await world.figures()
        told_of = [note for reason, note in await world.events() if reason == "ClusterWrittenOff"]
        assert len(told_of) == 1
        assert told_of[0].startswith("c2:")
        assert world.pods()["c3"] == "0/0, 6/6"
        await heal(world, "c2")
        await world.settle(10)
        assert sorted(await world.works()) == ["c1", "c3"]

    told(story)


def test_suspended_dispatching_is_as_if_the_cluster_could_not_be_reached() -> None:
    async def story(world: WorkloadWorld) -> None:
        await begun(world)
        world.budgets(8, 11)
        await world.rebind(suspension={"dispatchingOnClusters": {"clusterNames": ["c1"]}})
        await world.settle(2)
        assert (await world.works())["c1"].spec.suspend_dispatching
        await world.upgrade("2")
        await world.settle(120)
        assert world.pods() == {"c1": "0/0, 4/4", "c2": "0/0, 6/6"}
        assert "suspended" in (await world.figures())["c1"].message
        await world.rebind(suspension=None)
        await world.finish()
        assert not (await world.works())["c1"].spec.suspend_dispatching

    told(story)


@pytest.mark.parametrize("how", ["deleted", "garbled", "of another format"])
def test_without_a_ledger_nobody_gets_more_until_everybody_has_reported(how: str) -> None:
    async def story(world: WorkloadWorld) -> None:
        await begun(world, of_deployment(1, 0))
        world.budgets(9, 10)
        await world.upgrade("2")
        await world.settle(15)
        before = Ledger.read((await world.ledger()).spec.content.encode())
        if how == "deleted":
            await world.hub.delete(ROLLOUT_LEDGER, world.name, NS)
        else:
            content = "{" if how == "garbled" else before.json.decode().replace('"format":1', '"format":9')
            await world.hub.patch(ROLLOUT_LEDGER, world.name, {"spec": {"content": content}}, NS)
        world.limits.agents["c1"].cut = True
        await world.settle(60)
        assert await world.said("RolloutAligned") == ("False", "LedgerLost")
        assert "c1" in (await world.condition("RolloutAligned")).message
        assert [reason for reason, _ in await world.events()].count("LedgerLost") == 1
        pods = world.pods()
        await world.settle(60)
        assert world.pods() == pods
        world.limits.agents["c1"].cut = False
        await world.finish(1800)
        after = Ledger.read((await world.ledger()).spec.content.encode())
        assert after.next_push > before.next_push

    told(story)


def test_a_hub_that_was_restored_goes_on_above_all_ids_that_were_seen() -> None:
    async def story(world: WorkloadWorld) -> None:
        await begun(world)
        old, works = await world.ledger(), await world.works()
        await world.upgrade("2")
        await world.finish()
        await world.hub.stop()
        world.hub.controllers.clear()
        newest = max(each.taken[-1] for each in world.limits.agents.values())
        await world.hub.patch(ROLLOUT_LEDGER, world.name, {"spec": {"content": old.spec.content}}, NS)
        for cluster, work in works.items():
            body = {"spec": {"workload": {"manifests": work.spec.workload.manifests}}}
            await world.hub.patch(WORK, work.metadata.name, body, execution_namespace(cluster))
        world.budgets(8, 11)
        world.start()
        await world.finish(1800)
        assert all(each.taken[-1] > newest for each in world.limits.agents.values())
        assert world.pods() == {"c1": "0/0, 4/4", "c2": "0/0, 6/6"}

    told(story)


def test_a_refused_push_frees_its_grant_is_told_and_is_tried_again_later() -> None:
    async def story(world: WorkloadWorld) -> None:
        await begun(world, of_deployment(1, 0))
        world.budgets(9, 10)
        agent = world.limits.agents["c2"]
        agent.refuses = lambda manifest: "quota is exceeded" if "web:2" in str(manifest) else ""
        await world.upgrade("2")
        await world.settle(120)
        assert world.pods() == {"c1": "0/0, 4/4", "c2": "0/0, 6/6"}
        figures = await world.figures()
        assert figures["c1"].wait == ""
        assert "quota is exceeded" in figures["c2"].message
        aggregated = {each.cluster_name: each for each in (await world.binding()).status.aggregated_status}
        assert aggregated["c2"].applied_message == "quota is exceeded"
        assert await world.said("FullyApplied") == ("False", "FullyAppliedFailed")
        pushes = (await world.figures())["c2"].push_id
        await world.settle(100)
        assert (await world.figures())["c2"].push_id == pushes
        agent.refuses = lambda _: ""
        await world.finish(1200)
        assert world.pods() == {"c1": "0/0, 4/4", "c2": "0/0, 6/6"}

    told(story)


def test_a_new_cluster_that_takes_nothing_holds_up_nobody_else() -> None:
    """Nothing is there that could act on anything: what it was granted is known, namely nothing."""

    async def story(world: WorkloadWorld) -> None:
        await begun(world)
        await world.join("c3")
        world.limits.agents["c3"].refuses = lambda manifest: "no such image" if "web:3" not in str(manifest) else ""
        await world.rebind({"c1": 4, "c2": 4, "c3": 2})
        await world.settle(60)
        world.budgets(8, 11)
        figures = await world.figures()
        assert (figures["c3"].wait, figures["c3"].ceiling) == ("ClusterUnreachable", 0)
        assert "no such image" in figures["c3"].message
        await world.upgrade("2")
        await world.settle(700)  # and it is asked again meanwhile
        assert world.pods() == {"c1": "0/0, 4/4", "c2": "0/0, 4/4"}
        assert (await world.figures())["c1"].wait == ""
        await world.upgrade("3")
        await world.finish()
        assert world.pods() == {"c1": "0/0, 4/4", "c2": "0/0, 4/4", "c3": "0/0, 2/2"}

    told(story)


def test_another_template_is_not_kept_back_by_a_refusal_of_the_last() -> None:
    async def story(world: WorkloadWorld) -> None:
        await begun(world)
        world.limits.agents["c2"].refuses = lambda manifest: "no such image" if "web:2" in str(manifest) else ""
        await world.upgrade("2")
        await world.settle(20)
        await world.upgrade("3")
        await world.finish(280)

    told(story)


def test_of_two_leaders_only_one_can_spend_a_unit() -> None:
    """A second process works beside the first, with caches of its own, through the whole of two rollouts."""

    async def story(world: WorkloadWorld) -> None:
        await world.join("c1", "c2", "c3")
        await world.template(12, strategy=of_deployment(1, 1))
        await world.bind({"c1": 4, "c2": 6, "c3": 2})
        world.start()
        other = Controllers(
            InProcessClient(world.hub.client._cluster, ROOT),
            world.hub.clock,
            ("workloads",),
            random=Random(7),  # noqa: S311 - repeatable on purpose
            metrics=Metrics(),
            instance="other",
            settings=world.hub.settings,
        )
        world.hub.controllers.append(asyncio.create_task(other.run()))
        await world.finish()
        world.budgets(11, 13)
        for version in ("2", "3"):
            await world.upgrade(version)
            await world.finish(1200)

    told(story)


def test_a_work_that_cannot_be_written_is_told_and_written_when_it_can() -> None:
    """Its namespace is missing: the others go on, and the binding says whose work is missing and why."""

    async def story(world: WorkloadWorld) -> None:
        await world.join("c1")
        await world.hub.create(MANAGED_CLUSTER, "c2", spec={"hubAcceptsClient": True})
        await world.template(4, strategy=of_deployment(1, 1))
        await world.bind({"c1": 2, "c2": 2})
        world.start()
        await world.settle(30)
        assert world.pods() == {"c1": "0/0, 2/2"}
        assert "karmada-es-c2" in (await world.condition("PlacementVerified")).message
        await world.hub.client.create(NAMESPACE.untyped(), {"metadata": {"name": "karmada-es-c2"}})
        await world.settle(1200)
        assert "c2" in await world.works()

    told(story)


class Refusing(InProcessClient):
    """A client whose writes of ledgers are refused."""

    refuses = True

    async def patch(self, kind: Any, *args: Any, **options: Any) -> Any:
        if self.refuses and kind.resource == ROLLOUT_LEDGER.resource and not options.get("subresource"):
            raise Forbidden("no ledger today")
        return await super().patch(kind, *args, **options)


def test_without_the_ledger_nothing_is_sent_and_that_is_told() -> None:
    async def story(world: WorkloadWorld) -> None:
        await begun(world)
        await world.hub.stop()
        world.hub.controllers.clear()
        client = Refusing(world.hub.client._cluster, ROOT)
        controllers = Controllers(
            client,
            world.hub.clock,
            ("workloads",),
            random=Random(0),  # noqa: S311 - repeatable on purpose
            metrics=Metrics(),
            instance="test",
            settings=world.hub.settings,
        )
        sent = await world.sent()
        await world.upgrade("2")
        world.hub.controllers.append(asyncio.create_task(controllers.run()))
        await world.settle(30)
        assert await world.sent() == sent
        assert await world.said("RolloutBlocked") == ("True", "WriteFailed")
        assert "no ledger today" in (await world.condition("RolloutBlocked")).message
        client.refuses = False
        await world.finish(900)

    told(story)


def test_a_cluster_with_a_name_too_long_for_works_is_named() -> None:
    async def story(world: WorkloadWorld) -> None:
        await world.join("c1")
        long = "c" * 53
        await world.hub.create(MANAGED_CLUSTER, long, spec={"hubAcceptsClient": True})
        await world.template(4)
        await world.bind({"c1": 2, long: 2})
        world.start()
        await world.settle(30)
        assert world.pods() == {"c1": "0/0, 2/2"}
        assert long in (await world.condition("RolloutStalled")).message
        assert "52 characters" in (await world.condition("RolloutStalled")).message
        await world.settle(900)  # after which what stands still is noted once

    told(story)


def test_a_binding_that_is_made_again_takes_its_works_over() -> None:
    async def story(world: WorkloadWorld) -> None:
        await begun(world)
        world.budgets(8, 11)
        await world.hub.stop()
        world.hub.controllers.clear()
        await world.hub.patch(RESOURCE_BINDING, world.name, {"metadata": {"finalizers": None}}, NS)
        await world.hub.delete(RESOURCE_BINDING, world.name, NS)
        await world.bind({"c1": 4, "c2": 6})
        world.start()
        await world.upgrade("2")
        await world.finish(1200)
        binding = await world.binding()
        for work in (await world.works()).values():
            notes = work.spec.workload.manifests[0]["metadata"]["annotations"]
            assert notes["echelon.dev/binding-uid"] == binding.metadata.uid
            assert int(notes[PUSH_ID]) > 2

    told(story)


def test_a_restarted_controller_asks_whether_a_cluster_is_really_left_and_goes_on() -> None:
    """Where no placement is named there are no decisions to ask for: the binding itself is asked for all the same."""

    async def story(world: WorkloadWorld) -> None:
        world.pace = Pace(sync=0.01, start=(1.0, 1.0), end=0.01)
        await begun(world, of_deployment(1, 0))
        world.budgets(9, 10)
        world.limits.agents["c2"].cut = True
        await world.rebind({"c1": 10})
        await world.settle(1)
        await world.restart()
        await world.settle(1)
        world.limits.agents["c2"].cut = False  # its reports are newer than what the new process saw of bindings
        await world.settle(30)  # less than caches take to learn by themselves how new they are
        assert list(await world.works()) == ["c1"]

    told(story)
