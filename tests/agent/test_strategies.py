"""How a manifest reaches its object: replaced, created once, applied beside others, or only read."""

from typing import Any

from echelon.api.apps import DEPLOYMENT
from echelon.api.base import JSONObject
from echelon.api.core import CONFIG_MAP, SECRET, SERVICE
from echelon.kube.client import ApplyPatch
from tests.agent.world import World, condition, config_map, deployment, target, told

WEB = target("deployments", "web", "apps")


def configs(identifier: JSONObject, type_: str, **ssa: Any) -> list[JSONObject]:
    strategy: JSONObject = {"type": type_}
    if ssa:
        strategy["serverSideApply"] = ssa
    return [{"resourceIdentifier": identifier, "updateStrategy": strategy}]


def ignoring(condition_: str, **paths: list[str]) -> list[JSONObject]:
    return configs(WEB, "ServerSideApply", force=True, ignoreFields=[{"condition": condition_, **paths}])


async def replicas(here: World) -> int:
    count: int = (await here.member.get(DEPLOYMENT, "web"))["spec"]["replicas"]
    return count


async def image(here: World) -> str:
    live = await here.member.get(DEPLOYMENT, "web")
    return str(live["spec"]["template"]["spec"]["containers"][0]["image"])


def test_create_only_ignores_what_changes_later() -> None:
    async def story(here: World) -> None:
        chosen = configs(target("configmaps", "one"), "CreateOnly")
        await here.work(config_map("one", a="1"), manifestConfigs=chosen)
        await here.work(config_map("one", a="2"), manifestConfigs=chosen)
        live = await here.member.get(CONFIG_MAP, "one")
        assert live["data"] == {"a": "1"}
        assert len(live["metadata"]["ownerReferences"]) == 1
        assert await here.each("Applied") == ["True"]

    told(story)


def test_read_only_reads_and_follows_and_never_writes() -> None:
    async def story(here: World) -> None:
        for name in ("one", "two"):
            await here.member.create(config_map(name, a=name))
        rule = {"type": "JSONPaths", "jsonPaths": [{"name": "a", "path": ".data.a"}]}
        chosen = configs(target("configmaps", "*"), "ReadOnly")
        chosen[0]["feedbackRules"] = [rule]
        mark = len(here.member.commits)
        await here.work(config_map("one"), config_map("two"), manifestConfigs=chosen)
        assert [each.split()[1].partition(".")[0] for each in here.member.commits[mark:]] == ["appliedmanifestworks"]
        assert [await here.values(ordinal=number) for number in (0, 1)] == [{"a": "one"}, {"a": "two"}]
        assert await here.each("Applied") == await here.each("Available") == ["True", "True"]
        await here.member.patch(CONFIG_MAP, "two", {"data": {"a": "three"}})
        await here.settle(1)
        assert await here.values(ordinal=1) == {"a": "three"}
        await here.member.delete(CONFIG_MAP, "one")
        await here.settle(1)
        assert await here.each("Available") == ["False", "True"]

    told(story)


def test_server_side_apply_reports_a_conflict_and_heals_when_the_field_is_dropped() -> None:
    async def story(here: World) -> None:
        chosen = configs(WEB, "ServerSideApply")
        await here.work(deployment(replicas=1), manifestConfigs=chosen)
        await here.work(deployment(replicas=2), manifestConfigs=chosen)
        assert await replicas(here) == 2
        live = await here.member.get(DEPLOYMENT, "web")
        managers = {(each["manager"], each["operation"]) for each in live["metadata"]["managedFields"]}
        assert ("work-agent", "Apply") in managers
        assert len(live["metadata"]["ownerReferences"]) == 1
        body = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 5}}
        await here.member.client.patch(DEPLOYMENT.untyped(), "web", ApplyPatch(body, "other", force=True), "default")
        await here.work(deployment(replicas=3), manifestConfigs=chosen)
        said = condition((await here.manifests())[0].conditions, "Applied")
        assert (said.status, said.reason) == ("False", "AppliedManifestFailed")
        assert "conflict" in said.message
        assert await replicas(here) == 5
        without = deployment()
        del without["spec"]["replicas"]
        await here.work(without, manifestConfigs=chosen)
        assert await here.each("Applied") == ["True"]
        assert await replicas(here) == 5

    told(story)


def test_two_works_share_an_object_under_two_managers() -> None:
    async def story(here: World) -> None:
        await here.work(deployment(replicas=1), name="w1", manifestConfigs=configs(WEB, "ServerSideApply"))
        chosen = configs(WEB, "ServerSideApply", fieldManager="work-agent-another")
        other: JSONObject = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"paused": True},
        }
        await here.work(other, name="w2", manifestConfigs=chosen)
        assert await here.each("Applied", "w1") == await here.each("Applied", "w2") == ["True"]
        live = await here.member.get(DEPLOYMENT, "web")
        assert (live["spec"]["replicas"], live["spec"]["paused"]) == (1, True)
        assert len(live["metadata"]["ownerReferences"]) == 2
        await here.work({**other, "spec": {"replicas": 4}}, name="w2", manifestConfigs=chosen)
        assert await here.each("Applied", "w2") == ["False"]
        assert await replicas(here) == 1

    told(story)


def test_orphaning_drops_one_of_two_owners_of_an_applied_object() -> None:
    async def story(here: World) -> None:
        chosen = configs(WEB, "ServerSideApply")
        await here.work(deployment(), name="w1", manifestConfigs=chosen)
        await here.work(deployment(), name="w2", manifestConfigs=chosen)
        await here.work(deployment(), name="w1", manifestConfigs=chosen, deleteOption={"propagationPolicy": "Orphan"})
        live = await here.member.get(DEPLOYMENT, "web")
        assert [each["name"][-2:] for each in live["metadata"]["ownerReferences"]] == ["w2"]

    told(story)


def test_a_field_that_the_cluster_changed_stays_until_the_hub_changes_it() -> None:
    async def story(here: World) -> None:
        chosen = ignoring("OnSpokeChange", jsonPaths=[".spec.replicas"])
        await here.work(deployment(replicas=2), manifestConfigs=chosen)
        await here.member.patch(DEPLOYMENT, "web", {"spec": {"replicas": 7}})
        await here.touch()
        assert await replicas(here) == 7
        await here.work(deployment(replicas=3), manifestConfigs=chosen)
        assert await replicas(here) == 3

    told(story)


def test_a_field_that_is_left_to_the_cluster_is_set_once_and_never_again() -> None:
    async def story(here: World) -> None:
        chosen = ignoring("OnSpokePresent", jsonPaths=[".spec.replicas"])
        await here.work(deployment(replicas=2), manifestConfigs=chosen)
        assert await replicas(here) == 2
        await here.member.patch(DEPLOYMENT, "web", {"spec": {"replicas": 7}})
        await here.touch()
        assert await replicas(here) == 7
        await here.work(deployment(replicas=3, image="web:2"), manifestConfigs=chosen)
        assert (await replicas(here), await image(here)) == (7, "web:2")

    told(story)


def test_a_json_pointer_names_a_field_too() -> None:
    async def story(here: World) -> None:
        chosen = ignoring("OnSpokePresent", jsonPointers=["/spec/template/spec/containers/0/image"])
        await here.work(deployment(image="web:1"), manifestConfigs=chosen)
        body = {"containers": [{"name": "main", "image": "web:spoke"}]}
        await here.member.patch(DEPLOYMENT, "web", {"spec": {"template": {"spec": body}}})
        await here.work(deployment(image="web:2", replicas=9), manifestConfigs=chosen)
        assert (await replicas(here), await image(here)) == (9, "web:spoke")

    told(story)


def with_env(**env: str) -> JSONObject:
    made = deployment()
    container = made["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": name, "value": value} for name, value in env.items()]
    return made


def test_a_jq_path_keeps_one_variable() -> None:
    async def story(here: World) -> None:
        path = '.spec.template.spec.containers[] | select(.name == "main") | .env[] | select(.name == "KEPT")'
        chosen = ignoring("OnSpokePresent", jqPathExpressions=[path])
        await here.work(with_env(KEPT="hub", OTHER="1"), manifestConfigs=chosen)
        container = {"name": "main", "env": [{"name": "KEPT", "value": "spoke"}]}
        body = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "spec": {"template": {"spec": {"containers": [container]}}},
        }
        await here.member.client.patch(DEPLOYMENT.untyped(), "web", ApplyPatch(body, "spoke", force=True), "default")
        await here.work(with_env(KEPT="hub again", OTHER="2"), manifestConfigs=chosen)
        live = await here.member.get(DEPLOYMENT, "web")
        env = {each["name"]: each["value"] for each in live["spec"]["template"]["spec"]["containers"][0]["env"]}
        assert env == {"KEPT": "spoke", "OTHER": "2"}

    told(story)


def test_a_bad_path_is_reported_as_such() -> None:
    async def story(here: World) -> None:
        await here.work(deployment(), manifestConfigs=ignoring("OnSpokePresent", jqPathExpressions=["keys | .[0]"]))
        said = condition((await here.manifests())[0].conditions, "Applied")
        assert (said.status, said.reason) == ("False", "AppliedManifestSSAIgnoreFieldError")
        assert said.message.startswith("Failed to process ignoreFields: ")
        assert not await here.member.has(DEPLOYMENT, "web")

    told(story)


def secret(type_: str, **data: str) -> JSONObject:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "default"},
        "type": type_,
        "stringData": data,
    }


def test_a_secret_of_another_type_is_made_anew() -> None:
    async def story(here: World) -> None:
        await here.work(secret("Opaque", a="1"))
        first = await here.member.get(SECRET, "s")
        assert first["data"] == {"a": "MQ=="}
        await here.touch()
        await here.work(secret("example.io/other", b="2"))
        again = await here.member.get(SECRET, "s")
        assert (again["type"], again["data"]) == ("example.io/other", {"b": "Mg=="})
        assert again["metadata"]["uid"] != first["metadata"]["uid"]

    told(story)


def service(**spec: Any) -> JSONObject:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80}], **spec},
    }


def test_a_service_keeps_the_address_that_it_was_given() -> None:
    async def story(here: World) -> None:
        await here.work(service(clusterIP="10.0.0.7", clusterIPs=["10.0.0.7"]))
        await here.work(service(selector={"app": "other"}))
        assert await here.each("Applied") == ["True"]
        live = await here.member.get(SERVICE, "web")
        assert live["spec"]["selector"] == {"app": "other"}
        assert live["spec"]["clusterIP"] == "10.0.0.7"

    told(story)
