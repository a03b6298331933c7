"""A work names what is not its own: an object, a namespace with everything in it, the namespace of the system."""

from typing import Any

import pytest

from echelon.agent.settings import Settings, hub_hash
from echelon.api.base import JSONObject
from echelon.api.core import CONFIG_MAP, SECRET
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.work import MANIFEST_WORK
from echelon.kube.client import Client
from echelon.kube.errors import Unavailable
from tests.agent.world import CLUSTER, World, condition, config_map, told

ELSEWHERE = hub_hash("https://elsewhere.example")
SYSTEM = ("kube-system", "default", "kube-of-somebody", "agent-home")


def namespace(name: str) -> JSONObject:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"by": "work"}}}


def strategy(kind: str, resource: str = "configmaps", name: str = "one", where: str = "default") -> list[JSONObject]:
    identity = {"group": "", "resource": resource, "name": name, "namespace": where}
    return [{"resourceIdentifier": identity, "updateStrategy": {"type": kind}}]


async def take_away(here: World) -> None:
    """Delete the work, and wait for its end."""
    await here.hub.delete(MANIFEST_WORK, "w", CLUSTER)
    await here.settle(60)
    assert not await here.hub.has(MANIFEST_WORK, "w", CLUSTER)
    assert await here.records() == []


class Dying:
    """The way of an agent to its cluster that breaks for good after some writes; the answer to the last one is lost."""

    def __init__(self, through: Client, writes: int) -> None:
        self._through = through
        self._left = writes
        self.list, self.watch = through.list, through.watch

    async def get(self, kind: Kind[Any], name: str, namespace: str = "") -> Any:
        self._check()
        return await self._through.get(kind, name, namespace)

    async def create(self, kind: Kind[Any], body: JSONObject, namespace: str = "", **options: Any) -> Any:
        return self._wrote(await self._allowed().create(kind, body, namespace, **options))

    async def patch(self, kind: Kind[Any], name: str, patch: Any, namespace: str = "", **options: Any) -> Any:
        return self._wrote(await self._allowed().patch(kind, name, patch, namespace, **options))

    async def delete(self, kind: Kind[Any], name: str, namespace: str = "", **options: Any) -> None:
        await self._allowed().delete(kind, name, namespace, **options)
        self._check()

    def _allowed(self) -> Client:
        self._check()
        self._left -= 1
        return self._through

    def _check(self) -> None:
        if self._left <= 0:
            raise Unavailable("the agent is dead")

    def _wrote(self, answer: Any) -> Any:
        self._check()
        return answer


@pytest.mark.parametrize("kind", ["Update", "CreateOnly", "ServerSideApply"])
def test_an_object_that_was_there_is_brought_in_line_and_outlives_the_work(kind: str) -> None:
    async def story(here: World) -> None:
        before = await here.member.create(config_map("one", a="precious"))
        await here.work(config_map("one", b="new"), config_map("two"), manifestConfigs=strategy(kind))
        assert await here.each("Applied") == ["True", "True"]
        live = await here.member.get(CONFIG_MAP, "one")
        assert "ownerReferences" not in live["metadata"]
        if kind != "CreateOnly":
            assert live["data"]["b"] == "new"
        said = await here.condition("Adopted")
        assert (said.status, "ConfigMap default/one" in said.message) == ("True", True)
        assert "two" not in said.message
        assert await here.resources() == ["configmaps two"]
        mark = len(here.member.commits)
        await here.touch()
        assert here.member.writes_since(mark) == []  # it is not fought over
        await take_away(here)
        assert (await here.member.get(CONFIG_MAP, "one"))["metadata"]["uid"] == before["metadata"]["uid"]
        assert not await here.member.has(CONFIG_MAP, "two")

    told(story)


def test_a_namespace_that_was_there_keeps_everything_in_it() -> None:
    async def story(here: World) -> None:
        await here.member.create(namespace("shop"))
        await here.member.create(config_map("orders", "shop"))
        await here.work(namespace("shop"), config_map("ours", "shop"))
        await here.work(config_map("ours", "shop"))  # no longer asked for
        assert await here.member.has(NAMESPACE, "shop")
        await take_away(here)
        assert await here.member.has(CONFIG_MAP, "orders", "shop")
        assert not await here.member.has(CONFIG_MAP, "ours", "shop")

    told(story)


def test_who_asks_for_it_gets_what_upstream_does() -> None:
    async def story(here: World) -> None:
        await here.member.create(config_map("one"))
        await here.work(config_map("one"))
        assert await here.status("Adopted") == "True"
        annotations = {"metadata": {"annotations": {"echelon.dev/adopt": "delete"}}}
        await here.hub.patch(MANIFEST_WORK, "w", annotations, CLUSTER)
        await here.settle()
        assert all(each.type != "Adopted" for each in (await here.seen()).status.conditions)
        assert await here.resources() == ["configmaps one"]
        await take_away(here)
        assert not await here.member.has(CONFIG_MAP, "one")

    told(story)


@pytest.mark.parametrize("adopts", [False, True])
def test_namespaces_of_the_system_and_of_the_agent_are_never_deleted(adopts: bool) -> None:
    async def story(here: World) -> None:
        for name in ("kube-system", "agent-home"):
            if not await here.member.has(NAMESPACE, name):
                await here.member.create(namespace(name))
        await here.work(config_map("one"))  # to have the work before it is annotated
        if adopts:
            annotations = {"metadata": {"annotations": {"echelon.dev/adopt": "delete"}}}
            await here.hub.patch(MANIFEST_WORK, "w", annotations, CLUSTER)
        await here.work(*map(namespace, SYSTEM))
        assert await here.each("Applied") == ["True"] * len(SYSTEM)
        await take_away(here)
        for name in SYSTEM:
            live = await here.member.get(NAMESPACE, name)
            assert "deletionTimestamp" not in live["metadata"]
            assert "ownerReferences" not in live["metadata"]  # or the cluster's own collector would take it

    told(story, settings=Settings(kept_namespaces=("agent-home",)))


def test_a_namespace_of_the_system_that_is_a_works_own_is_given_up() -> None:
    async def story(here: World) -> None:
        await here.work(namespace("kube-lost"), config_map("one"))
        record = await here.record()
        owner = {"apiVersion": record.api_version, "kind": record.kind, "name": record.metadata.name}
        owners = [{**owner, "uid": record.metadata.uid}]
        await here.stop()
        await here.member.patch(NAMESPACE, "kube-lost", {"metadata": {"ownerReferences": owners}})
        here.start()
        await here.settle()
        await take_away(here)
        assert await here.member.has(NAMESPACE, "kube-lost")

    told(story)


def test_a_secret_of_another_type_that_was_there_is_not_deleted_to_be_made_anew() -> None:
    async def story(here: World) -> None:
        body: JSONObject = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}}
        made = await here.member.create({**body, "type": "kubernetes.io/basic-auth", "stringData": {"username": "u"}})
        await here.work({**body, "type": "Opaque"})
        (told_of,) = await here.manifests()
        said = condition(told_of.conditions, "Applied")
        assert (said.status, "was there before" in said.message) == ("False", True)
        assert (await here.member.get(SECRET, "s"))["metadata"]["uid"] == made["metadata"]["uid"]

    told(story)


def test_a_manifest_cannot_say_that_an_object_was_made_for_its_work() -> None:
    async def story(here: World) -> None:
        await here.member.create(config_map("one"))
        await here.work(config_map("two"))
        lie = config_map("one")
        lie["metadata"]["annotations"] = {"echelon.dev/made-for-work": (await here.seen()).metadata.uid}
        await here.work(lie)
        await here.touch()
        await take_away(here)
        assert await here.member.has(CONFIG_MAP, "one")

    told(story)


def test_an_object_that_somebody_put_in_the_place_of_ours_is_theirs() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"), manifestConfigs=strategy("CreateOnly"))
        await here.stop()
        await here.member.delete(CONFIG_MAP, "one")
        await here.member.create(config_map("one", a="theirs"))
        here.start()
        await here.settle()
        assert await here.status("Adopted") == "True"
        await take_away(here)
        assert await here.member.has(CONFIG_MAP, "one")

    told(story)


@pytest.mark.parametrize("kind", ["Update", "CreateOnly", "ServerSideApply"])
@pytest.mark.parametrize("writes", range(1, 6))
@pytest.mark.parametrize("moved", [False, True], ids=["same hub", "hub moved"])
def test_an_agent_that_dies_between_two_writes_knows_its_own_objects_again(kind: str, writes: int, moved: bool) -> None:
    async def story(here: World) -> None:
        await here.member.create(config_map("theirs"))
        here.start(member=Dying(here.way, writes))
        configs = [*strategy(kind), *strategy(kind, name="theirs")]
        await here.work(config_map("theirs", b="new"), config_map("one"), manifestConfigs=configs)
        await here.stop()
        here.start(hash_=ELSEWHERE) if moved else here.start()
        await here.settle(30)
        assert await here.each("Applied") == ["True", "True"]
        assert len(await here.owners("one")) == 1
        assert await here.owners("theirs") == []
        await take_away(here)
        assert not await here.member.has(CONFIG_MAP, "one")
        assert await here.member.has(CONFIG_MAP, "theirs")

    told(story, started=False, quiet=False)
