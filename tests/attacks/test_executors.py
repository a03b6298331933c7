"""What an author of works gets through an account that may less than the agent."""

import asyncio

from echelon.api.base import JSONObject
from echelon.api.core import CONFIG_MAP
from echelon.api.core import SECRET as CORE_SECRET
from tests.agent.test_executor import ALL, EXECUTOR, grant, may
from tests.agent.world import World, condition, config_map, told

FEEDBACK = [{"type": "JSONPaths", "jsonPaths": [{"name": "stolen", "path": ".data.key"}]}]
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}}


def reporting(kind: str, plural: str, *, rules: list[JSONObject] = FEEDBACK) -> list[JSONObject]:
    """Ask for feedback of one object."""
    identifier = {"group": "", "resource": plural, "name": kind, "namespace": "default"}
    return [{"resourceIdentifier": identifier, "feedbackRules": rules}]


def test_nothing_is_told_of_an_object_that_the_account_may_not_get() -> None:
    """Whoever writes works names an object that is there, asks for feedback, and gives an account without rights."""

    async def story(here: World) -> None:
        await here.member.create({**config_map("theirs"), "data": {"key": "hunter2"}})
        await here.work(config_map("theirs"), executor=EXECUTOR, manifestConfigs=reporting("theirs", "configmaps"))
        (said,) = await here.manifests()
        assert condition(said.conditions, "Available").status == "Unknown"
        assert said.status_feedback.values == []
        await here.member.patch(CONFIG_MAP, "theirs", {"data": {"key": "hunter3"}})
        await asyncio.sleep(120)
        assert "hunter" not in str(await here.manifests())

    told(story)


def test_feedback_tells_nothing_of_what_secrets_hold() -> None:
    async def story(here: World) -> None:
        rule = {"condition": "Here", "type": "CEL", "celExpressions": ["has(object.data.key)"]}
        configs = reporting("s", "secrets")
        configs[0]["conditionRules"] = [{**rule, "messageExpression": "object.data.key"}]
        await here.work({**SECRET, "stringData": {"key": "hunter2"}}, manifestConfigs=configs)
        (said,) = await here.manifests()
        assert condition(said.conditions, "Applied").status == "True"
        assert condition(said.conditions, "Here").status == "True"
        assert "aHVudGVyMg" not in str(said)
        assert "hunter2" not in str(said)

    told(story)


def test_what_cannot_be_changed_is_deleted_only_by_who_may_delete() -> None:
    async def story(here: World) -> None:
        await grant(here, may(["create", "update", "patch", "get"], "secrets"))
        orphan = {"propagationPolicy": "Orphan"}  # so that the work itself needs no right to delete
        basic = {**SECRET, "type": "kubernetes.io/basic-auth", "stringData": {"username": "u"}}
        await here.work(basic, executor=EXECUTOR, deleteOption=orphan)
        made = await here.member.get(CORE_SECRET, "s")
        await here.work({**SECRET, "type": "Opaque"}, executor=EXECUTOR, deleteOption=orphan)
        (said,) = await here.manifests()
        assert "may not be deleted to be made anew" in condition(said.conditions, "Applied").message
        assert (await here.member.client.get(CORE_SECRET, "s", "default")).metadata.uid == made["metadata"]["uid"]
        await grant(here, may(ALL, "secrets"))
        await asyncio.sleep(61)
        assert await here.each("Applied") == ["True"]

    told(story)
