"""What comes back to the hub: values, conditions by rules, and all of it as soon as something changes."""

import asyncio
from typing import Any

from echelon.agent.settings import Settings
from echelon.api.apps import DEPLOYMENT
from echelon.api.base import JSONObject
from echelon.api.batch import JOB
from echelon.api.core import CONFIG_MAP
from echelon.api.rbac import CLUSTER_ROLE
from tests.agent.test_lifecycle import GUEST, guest, guests
from tests.agent.world import World, condition, config_map, deployment, target, told

WEB = target("deployments", "web", "apps")
WELL_KNOWN = {"type": "WellKnownStatus"}


def rules(identifier: JSONObject, *feedback: JSONObject, **more: Any) -> JSONObject:
    return {"resourceIdentifier": identifier, "feedbackRules": list(feedback), **more}


def paths(**named: str) -> JSONObject:
    return {"type": "JSONPaths", "jsonPaths": [{"name": name, "path": path} for name, path in named.items()]}


def job(name: str = "task") -> JSONObject:
    pods = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "task:1"}]}}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": pods}}


async def ready(here: World, count: int) -> None:
    status = {
        "replicas": 2,
        "updatedReplicas": 2,
        "readyReplicas": count,
        "availableReplicas": count,
        "observedGeneration": (await here.member.get(DEPLOYMENT, "web"))["metadata"]["generation"],
    }
    await here.member.patch(DEPLOYMENT, "web", {"status": status}, subresource="status")
    await here.settle(1)


async def finished(here: World, name: str = "task", type_: str = "Complete") -> None:
    said = {"type": type_, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    await here.member.patch(JOB, name, {"status": {"conditions": [said], "succeeded": 1}}, subresource="status")
    await here.settle(1)


def test_well_known_values_of_a_deployment_follow_it() -> None:
    async def story(here: World) -> None:
        await here.work(deployment(), manifestConfigs=[rules(WEB, WELL_KNOWN)])
        await ready(here, 1)
        assert await here.values() == {"ReadyReplicas": 1, "Replicas": 2, "AvailableReplicas": 1}
        first = condition((await here.manifests())[0].conditions, "StatusFeedbackSynced")
        await asyncio.sleep(30)
        await ready(here, 2)
        assert (await here.values())["ReadyReplicas"] == 2
        second = condition((await here.manifests())[0].conditions, "StatusFeedbackSynced")
        assert (first.status, second.status) == ("True", "True")
        assert second.last_transition_time > first.last_transition_time

    told(story)


def test_a_deployment_progresses_until_it_works() -> None:
    async def story(here: World) -> None:
        await here.work(deployment())
        assert await here.status("Progressing") == "True"
        await ready(here, 2)
        assert await here.status("Progressing") == "False"
        done = await here.condition("Progressing")
        await asyncio.sleep(60)
        await here.work(deployment(image="web:2"))
        again = await here.condition("Progressing")
        assert (again.status, again.observed_generation) == ("True", 2)
        assert again.last_transition_time > done.last_transition_time

    told(story)


def test_a_bad_path_does_not_take_the_good_values_along() -> None:
    async def story(here: World) -> None:
        chosen = [rules(target("configmaps", "o*"), paths(a=".data.a", map=".data"))]
        await here.work(config_map("one", a="1"), config_map("two"), manifestConfigs=chosen)
        assert (await here.values(), await here.values(ordinal=1)) == ({"a": "1"}, {})
        assert await here.each("StatusFeedbackSynced") == ["False", "True"]

    told(story)


def test_a_kind_without_well_known_values_has_none() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"), manifestConfigs=[rules(target("configmaps", "one"), WELL_KNOWN)])
        assert await here.values() == {}
        assert await here.each("StatusFeedbackSynced") == ["False"]

    told(story)


def test_objects_come_back_as_json_if_that_is_allowed() -> None:
    async def story(here: World) -> None:
        chosen = [rules(target("configmaps", "one"), paths(map=".data"))]
        await here.work(config_map("one", a="1"), manifestConfigs=chosen)
        assert await here.values() == {"map": '{"a":"1"}'}

    told(story, settings=Settings(max_json_raw_bytes=1024))


def test_the_first_config_that_says_something_wins_for_each_aspect() -> None:
    async def story(here: World) -> None:
        first = {"resourceIdentifier": target("configmaps", "one"), "updateStrategy": {"type": "CreateOnly"}}
        second = rules(target("configmaps", "*"), paths(a=".data.a"), updateStrategy={"type": "Update"})
        third = rules(target("configmaps", "one"), paths(b=".data.b"))
        await here.work(config_map("one", a="1", b="2"), manifestConfigs=[first, second, third])
        await here.work(config_map("one", a="3", b="4"), manifestConfigs=[first, second, third])
        assert await here.values() == {"a": "1"}

    told(story)


def cluster_role(verb: str) -> JSONObject:
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}
    metadata = {"name": "watched"}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": [rule]}


def test_what_is_watched_is_reported_at_once_also_without_a_namespace() -> None:
    async def story(here: World) -> None:
        wanted = target("clusterroles", "watched", "rbac.authorization.k8s.io", "")
        chosen = [rules(wanted, paths(note=".metadata.annotations.note"), feedbackScrapeType="Watch")]
        await here.work(cluster_role("get"), manifestConfigs=chosen)
        await here.member.patch(CLUSTER_ROLE, "watched", {"metadata": {"annotations": {"note": "hello"}}})
        await here.settle(0.5)
        assert await here.values() == {"note": "hello"}

    told(story)


def test_beyond_the_limit_of_watches_objects_are_asked_for_from_time_to_time() -> None:
    async def story(here: World) -> None:
        note = ".metadata.annotations.note"
        chosen = [rules(target("configmaps", "*"), paths(n=note)), rules(WEB, paths(n=note))]
        await here.work(config_map("one"), deployment(), manifestConfigs=chosen)
        assert len(here.running[0].context.object_watches) == 1
        hello: JSONObject = {"metadata": {"annotations": {"note": "hello"}}}
        await here.member.patch(CONFIG_MAP, "one", hello)
        await here.settle(0.5)
        assert await here.values() == {"n": "hello"}
        await here.member.patch(DEPLOYMENT, "web", hello)
        await here.settle(0.5)
        assert await here.values(ordinal=1) == {}
        await here.settle(19.5)
        assert await here.values(ordinal=1) == {"n": "hello"}

    told(story, settings=Settings(max_watches=1))


def test_watches_end_with_the_last_work_that_needs_them() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"), deployment(), name="w1")
        await here.work(config_map("two"), name="w2")
        assert len(here.running[0].context.object_watches) == 3
        await here.work(config_map("one"), name="w1")
        assert len(here.running[0].context.object_watches) == 2

    told(story)


def test_a_job_is_complete_when_it_says_so_and_then_left_alone() -> None:
    async def story(here: World) -> None:
        rule = {"condition": "Complete", "type": "WellKnownConditions"}
        chosen = [{"resourceIdentifier": target("jobs", "*", "batch"), "conditionRules": [rule]}]
        await here.work(job(), manifestConfigs=chosen)
        assert await here.status("Complete") == "False"
        await finished(here)
        said = await here.condition("Complete")
        assert (said.status, said.reason) == ("True", "ConditionRulesAggregated")
        await here.work(job(), config_map("late"), manifestConfigs=chosen)
        assert not await here.member.has(CONFIG_MAP, "late")  # a work that is complete takes no more changes

    told(story)


def test_a_rule_that_comes_with_an_update_is_evaluated() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"))
        rule = {"condition": "Complete", "type": "CEL", "celExpressions": ["object.data.a == 'done'"]}
        chosen = [{"resourceIdentifier": target("configmaps", "*"), "conditionRules": [rule]}]
        await here.work(config_map("one", a="done"), manifestConfigs=chosen)
        said = await here.condition("Complete")
        assert (said.status, said.reason) == ("True", "ConditionRulesAggregated")

    told(story)


def test_rules_of_the_user_give_conditions_and_a_bad_one_gives_false() -> None:
    async def story(here: World) -> None:
        good = {"condition": "Filled", "type": "CEL", "celExpressions": ["size(object.data) > 0"]}
        bad = {"condition": "Broken", "type": "CEL", "celExpressions": ["object.data.nope > "]}
        unknown = {"condition": "Magic", "type": "WellKnownConditions"}
        chosen = [{"resourceIdentifier": target("configmaps", "o*"), "conditionRules": [good, bad, unknown]}]
        await here.work(config_map("one"), manifestConfigs=chosen)
        assert (await here.status("Filled"), await here.status("Broken")) == ("True", "False")
        made = (await here.manifests())[0].conditions
        assert condition(made, "Broken").reason == "ConditionRuleExpressionError"
        assert "Magic" not in {each.type for each in made}
        await here.work(config_map("one"), manifestConfigs=[])
        assert "Filled" not in {each.type for each in (await here.manifests())[0].conditions}

    told(story)


def test_news_that_only_reword_what_the_hub_knows_are_told_together() -> None:
    async def story(here: World) -> None:
        await here.work(deployment())
        await here.settle(10)
        mark = len(here.hub.commits)
        for count in (0, 1, 0, 1):
            await ready(here, count)
        await here.settle(10)
        assert "1 of 2 available" in (await here.condition("Progressing")).message
        assert len(here.hub.writes_since(mark)) <= 3
        mark = len(here.hub.commits)
        await ready(here, 2)  # this is more than words, and told at once
        assert await here.status("Progressing") == "False"
        assert len(here.hub.writes_since(mark)) == 1

    told(story)


def guests_with_status() -> JSONObject:
    made = guests()
    made["spec"]["versions"][0]["subresources"] = {"status": {}}
    return made


def test_a_custom_resource_is_given_a_moment_in_which_its_controller_may_speak() -> None:
    async def story(here: World) -> None:
        await here.member.create(guests_with_status())
        await here.work(guest())
        said = await here.condition("Progressing")
        assert (said.status, "has not said anything" in said.message) == ("True", True)
        await here.settle(4)  # nobody speaks, and nothing happens
        assert await here.status("Progressing") == "False"
        await here.work(guest(room=2))
        status = {"conditions": [{"type": "Ready", "status": "False", "message": "unpacks"}]}
        await here.member.patch(GUEST, "ann", {"status": status}, subresource="status")
        await here.settle(20)
        assert (await here.condition("Progressing")).message == "Guest default/ann: unpacks"
        status["conditions"][0]["status"] = "True"
        await here.member.patch(GUEST, "ann", {"status": status}, subresource="status")
        await here.settle(1)
        assert await here.status("Progressing") == "False"

    told(story)


def test_a_custom_resource_without_a_status_subresource_works_by_existing() -> None:
    async def story(here: World) -> None:
        await here.member.create(guests())
        await here.work(guest())
        said = await here.condition("Progressing")
        assert said.status == "False"
        assert said.last_transition_time == (await here.condition("Applied")).last_transition_time

    told(story)
