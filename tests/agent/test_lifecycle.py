"""A work comes, changes and goes, and the cluster follows."""

import asyncio
from typing import Any

from echelon.api import registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.apps import DEPLOYMENT
from echelon.api.base import JSONObject
from echelon.api.core import CONFIG_MAP
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.rbac import CLUSTER_ROLE, ROLE_BINDING
from echelon.api.service_accounts import SERVICE_ACCOUNT
from echelon.api.work import APPLIED_MANIFEST_WORK, MANIFEST_WORK
from echelon.kube.client import Client
from tests.agent.world import CLUSTER, HUB, World, condition, config_map, deployment, told


class Behind:
    """A cluster that is read as it was before an object had an owner, for a while."""

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self.name = name
        self.list, self.watch = client.list, client.watch
        self.create, self.patch, self.delete = client.create, client.patch, client.delete

    async def get(self, kind: Kind[Any], name: str, namespace: str = "") -> Any:
        live = await self._client.get(kind, name, namespace)
        if name != self.name:
            return live
        return {**live, "metadata": {**live["metadata"], "ownerReferences": [], "resourceVersion": "1"}}


GUEST = Kind[Any]("example.io", "v1", "Guest", "guests", dict[str, Any])


def guests() -> JSONObject:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "guests", "singular": "guest", "kind": "Guest", "listKind": "GuestList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "guests.example.io"},
        "spec": {"group": "example.io", "scope": "Namespaced", "names": names, "versions": [version]},
    }


def guest(**spec: Any) -> JSONObject:
    metadata = {"name": "ann", "namespace": "default", "annotations": {"from": "hub"}}
    return {"apiVersion": "example.io/v1", "kind": "Guest", "metadata": metadata, "spec": spec or {"room": 1}}


def test_a_config_map_is_applied_and_reported() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"))
        live = await here.member.get(CONFIG_MAP, "one")
        assert {each["manager"] for each in live["metadata"]["managedFields"]} == {"work-agent"}
        assert (await here.status("Applied"), await here.status("Available")) == ("True", "True")
        assert (await here.each("Applied"), await here.each("Available")) == (["True"], ["True"])
        record = await here.record()
        assert live["metadata"]["ownerReferences"] == [
            {
                "apiVersion": "work.open-cluster-management.io/v1",
                "kind": "AppliedManifestWork",
                "name": record.metadata.name,
                "uid": record.metadata.uid,
            }
        ]
        assert record.metadata.name == f"{HUB}-w"
        assert record.metadata.finalizers == ["cluster.open-cluster-management.io/applied-manifest-work-cleanup"]
        assert (record.spec.hub_hash, record.spec.agent_id, record.spec.manifest_work_name) == (HUB, HUB, "w")
        assert record.status.applied_resources[0].uid == live["metadata"]["uid"]
        assert (await here.seen()).metadata.finalizers == ["cluster.open-cluster-management.io/manifest-work-cleanup"]

    told(story)


def test_applying_a_work_takes_as_few_writes_as_possible() -> None:
    async def story(here: World) -> None:
        hub, member = len(here.hub.commits), len(here.member.commits)
        await here.work(config_map("one"), config_map("two"))
        written = here.hub.writes_since(hub)
        assert len(written) == 3, written  # the work itself, its finalizer, its status
        written = here.member.writes_since(member)
        assert len(written) == 4, written  # the record, two objects, what the record lists
        await here.touch()
        assert len(here.hub.writes_since(hub)) == 4
        assert len(here.member.writes_since(member)) == 4

    told(story)


def test_another_manifest_in_the_place_of_one_replaces_its_object() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"))
        await here.work(config_map("two"))
        assert not await here.member.has(CONFIG_MAP, "one")
        assert await here.member.has(CONFIG_MAP, "two")
        assert await here.resources() == ["configmaps two"]

    told(story)


def test_a_deleted_work_goes_after_its_objects_and_its_record() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"))
        await here.hub.delete(MANIFEST_WORK, "w", CLUSTER)
        await here.settle()
        assert not await here.hub.has(MANIFEST_WORK, "w", CLUSTER)
        ended = [each.split()[1] for each in here.member.commits if each.startswith("DELETED")]
        assert ended == ["configmaps", "appliedmanifestworks.work.open-cluster-management.io"]

    told(story)


def test_one_manifest_that_fails_does_not_keep_the_others_back() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one", "nowhere"), config_map("two"), config_map("three"))
        assert await here.member.has(CONFIG_MAP, "two")
        assert await here.member.has(CONFIG_MAP, "three")
        assert (await here.status("Applied"), await here.status("Available")) == ("False", "False")
        assert await here.each("Applied") == ["False", "True", "True"]
        assert await here.each("Available") == ["False", "True", "True"]
        said = condition((await here.manifests())[0].conditions, "Applied")
        assert said.reason == "AppliedManifestFailed"
        assert said.message == 'Failed to apply manifest: namespaces "nowhere" not found'
        assert (await here.condition("Available")).message == "1 of 3 resources are not available"
        await here.member.client.create(NAMESPACE.untyped(), {"metadata": {"name": "nowhere"}})
        await asyncio.sleep(61)
        assert (await here.status("Applied"), await here.status("Available")) == ("True", "True")
        assert await here.each("Applied") == ["True", "True", "True"]

    told(story)


def test_a_definition_and_its_object_come_and_go_in_one_work() -> None:
    async def story(here: World) -> None:
        await here.work(guest(), guests())
        assert await here.each("Applied") == ["True", "True"]
        note = {"annotations": {"by": "spoke"}, "finalizers": ["example.io/hold"]}
        await here.member.patch(GUEST, "ann", {"metadata": note})
        await here.work(guest(room=2), guests())
        live = await here.member.get(GUEST, "ann")
        assert live["spec"] == {"room": 2}
        assert live["metadata"]["annotations"] == {"by": "spoke", "from": "hub"}
        assert live["metadata"]["finalizers"] == ["example.io/hold"]
        await here.member.patch(GUEST, "ann", {"metadata": {"finalizers": None}})
        await here.hub.delete(MANIFEST_WORK, "w", CLUSTER)
        await asyncio.sleep(61)
        assert not await here.member.has(CUSTOM_RESOURCE_DEFINITION, "guests.example.io")
        assert not await here.hub.has(MANIFEST_WORK, "w", CLUSTER)

    told(story)


def test_the_namespace_of_a_cluster_scoped_manifest_means_nothing() -> None:
    async def story(here: World) -> None:
        metadata = {"name": "reader", "namespace": "default"}
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": []}
        await here.work(role)
        assert await here.member.has(CLUSTER_ROLE, "reader")
        assert (await here.manifests())[0].resource_meta.namespace == ""
        assert await here.status("Applied") == "True"

    told(story)


def account(name: str) -> JSONObject:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}}


def role() -> JSONObject:
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
    metadata = {"name": "reads", "namespace": "default"}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": [rule]}


def binding(role_name: str = "reads") -> JSONObject:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "reads", "namespace": "default"},
        "subjects": [{"kind": "ServiceAccount", "name": "sa", "namespace": "default"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role_name},
    }


def test_what_a_new_spec_no_longer_has_goes_and_the_rest_keeps_its_times() -> None:
    async def story(here: World) -> None:
        await here.work(account("sa"), role(), binding(), deployment(), account("admin"))
        before = await here.manifests()
        assert [len(each.conditions) for each in before] == [3, 3, 3, 4, 3], "and the Deployment is not well"
        await asyncio.sleep(30)
        await here.work(account("admin"), role(), binding(), deployment())
        assert not await here.member.has(SERVICE_ACCOUNT, "sa")
        assert await here.resources() == [
            "serviceaccounts admin",
            "deployments web",
            "rolebindings reads",
            "roles reads",
        ]
        after = await here.manifests()
        assert [each.resource_meta.name for each in after] == ["admin", "reads", "reads", "web"]
        assert [len(each.conditions) for each in after] == [3, 3, 3, 4]
        # They were there all the time, so that they exist is nothing new.
        times = [condition(each.conditions, "Available").last_transition_time for each in (before[4], before[1])]
        assert [condition(each.conditions, "Available").last_transition_time for each in after[:2]] == times
        await here.work(role(), binding(), deployment())
        await asyncio.sleep(30)
        await here.work(account("admin"), role(), binding(), deployment())
        again = condition((await here.manifests())[0].conditions, "Available").last_transition_time
        assert again > times[0]

    told(story)


def test_conditions_follow_the_generation_and_not_the_edits_of_others() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"))
        await here.work(config_map("one", x="y"))
        work = await here.seen()
        for kind in ("Applied", "Available"):
            assert (await here.condition(kind)).observed_generation == work.metadata.generation == 2
        await here.member.patch(CONFIG_MAP, "one", {"metadata": {"labels": {"by": "spoke"}}})
        await here.settle()
        assert (await here.seen()).status == work.status
        await here.member.patch(CONFIG_MAP, "one", {"data": {"x": "z"}})
        await here.settle()
        live = await here.member.get(CONFIG_MAP, "one")
        assert live["data"] == {"x": "y"}
        assert live["metadata"]["labels"] == {"by": "spoke"}
        for known in work.status.conditions:  # that it was put back is told besides
            assert await here.condition(known.type) == known

    told(story)


def test_a_change_that_the_cluster_refuses_is_reported_for_the_new_generation() -> None:
    async def story(here: World) -> None:
        await here.work(role(), binding())
        for generation, name in ((2, "other"), (3, "another")):
            await here.work(role(), binding(name))
            assert (await here.status("Applied"), await here.status("Available")) == ("False", "True")
            assert await here.each("Applied") == ["True", "False"]
            assert (await here.condition("Applied")).observed_generation == generation
        live = await here.member.get(ROLE_BINDING, "reads")
        assert live["roleRef"]["name"] == "reads"

    told(story)


def test_an_object_that_does_not_end_stays_listed_until_it_does() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"), config_map("two"), config_map("three"))
        for name in ("one", "two"):
            await here.member.patch(CONFIG_MAP, name, {"metadata": {"finalizers": ["example.io/hold"]}})
        await here.work(config_map("two"), config_map("three"))
        assert await here.resources() == ["configmaps one", "configmaps three", "configmaps two"]
        await here.member.patch(CONFIG_MAP, "one", {"metadata": {"finalizers": None}})
        await asyncio.sleep(61)
        assert await here.resources() == ["configmaps three", "configmaps two"]
        await here.hub.delete(MANIFEST_WORK, "w", CLUSTER)
        await asyncio.sleep(120)
        said = await here.condition("Deleting")
        assert (said.status, said.reason, said.message) == ("True", "WorkDeleting", "ManifestWork is being deleted")
        assert await here.resources() == ["configmaps two"]
        await here.member.patch(CONFIG_MAP, "two", {"metadata": {"finalizers": None}})
        await here.settle(2)  # heard of, not found out at the next try
        assert not await here.hub.has(MANIFEST_WORK, "w", CLUSTER)

    told(story)


def test_the_labels_of_a_work_are_on_its_record() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"), labels={"team": "blue"})
        assert (await here.record()).metadata.labels == {"team": "blue"}
        await here.hub.patch(MANIFEST_WORK, "w", {"metadata": {"labels": {"team": "red", "tier": "web"}}}, CLUSTER)
        await asyncio.sleep(30)
        assert (await here.record()).metadata.labels == {"team": "red", "tier": "web"}

    told(story)


def test_nothing_is_written_while_nothing_changes() -> None:
    async def story(here: World) -> None:
        await here.work(deployment(), config_map("one"), account("sa"))
        before = await here.member.get(DEPLOYMENT, "web")
        mark = len(here.member.commits)
        await asyncio.sleep(3600)
        assert here.member.writes_since(mark) == []
        after = await here.member.get(DEPLOYMENT, "web")
        assert after["metadata"]["generation"] == before["metadata"]["generation"] == 1

    told(story)


def test_a_work_can_be_what_a_work_brings_and_its_generation_stays() -> None:
    async def story(here: World) -> None:
        (definition,) = (each for each in registry.crds() if each["metadata"]["name"] == MANIFEST_WORK.resource)
        await here.member.client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)
        inner = {"manifests": [config_map("inner")]}
        body = {"apiVersion": MANIFEST_WORK.api_version, "kind": MANIFEST_WORK.kind, "spec": {"workload": inner}}
        await here.work({**body, "metadata": {"name": "brought", "namespace": "default"}})
        assert await here.status("Applied") == "True"
        await asyncio.sleep(3600)
        assert (await here.member.get(MANIFEST_WORK, "brought"))["metadata"]["generation"] == 1

    told(story)


def test_after_a_restart_nothing_is_written_either() -> None:
    async def story(here: World) -> None:
        await here.work(deployment(), config_map("one"))
        hub, member = len(here.hub.commits), len(here.member.commits)
        await here.stop()
        here.start()
        await asyncio.sleep(600)
        assert here.hub.writes_since(hub) == []
        assert here.member.writes_since(member) == []

    told(story)


def test_a_record_that_somebody_deletes_takes_its_objects_along_and_all_comes_back() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"))
        first = (await here.member.get(CONFIG_MAP, "one"))["metadata"]["uid"]
        await here.member.delete(APPLIED_MANIFEST_WORK, f"{HUB}-w")
        await here.settle()
        live = await here.member.get(CONFIG_MAP, "one")
        assert live["metadata"]["uid"] != first
        assert live["metadata"]["ownerReferences"][0]["uid"] == (await here.record()).metadata.uid

    told(story)


def test_a_kind_that_is_not_served_is_named_and_does_not_stop_the_removal_of_others() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"), config_map("two"))
        await here.work(guest(), config_map("two"))
        said = condition((await here.manifests())[0].conditions, "Applied")
        assert said.message == 'Failed to apply manifest: the server doesn\'t have a resource type "Guest"'
        assert await here.each("Applied") == ["False", "True"]
        assert not await here.member.has(CONFIG_MAP, "one")
        assert await here.resources() == ["configmaps two"]

    told(story)


def test_the_object_of_a_kind_that_is_no_longer_served_stays_listed() -> None:
    async def story(here: World) -> None:
        await here.member.create(guests())
        await here.work(guest(), config_map("one"))
        assert await here.resources() == ["configmaps one", "guests ann"]
        await here.member.delete(CUSTOM_RESOURCE_DEFINITION, "guests.example.io")
        await here.work(guest(room=2))
        assert await here.resources() == ["guests ann"]
        assert not await here.member.has(CONFIG_MAP, "one")

    told(story)


def test_asking_again_applies_again_at_once() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one", "later"))
        await asyncio.sleep(200)  # by now the pauses between tries are long
        await here.member.client.create(NAMESPACE.untyped(), {"metadata": {"name": "later"}})
        note = {"metadata": {"annotations": {"echelon.dev/retried-at": "2026-01-01T00:03:20Z"}}}
        await here.hub.patch(MANIFEST_WORK, "w", note, CLUSTER)
        await here.settle(0.5)
        assert await here.member.has(CONFIG_MAP, "one", "later")

    told(story)


def test_a_work_that_comes_back_under_its_old_name_is_applied_again() -> None:
    async def story(here: World) -> None:
        for value in ("1", "2", "3"):
            await here.work(config_map("one", a=value))
            assert (await here.member.get(CONFIG_MAP, "one"))["data"] == {"a": value}
            assert await here.status("Applied") == "True"
            await here.hub.delete(MANIFEST_WORK, "w", CLUSTER)
            await here.settle()
            assert not await here.member.has(CONFIG_MAP, "one")

    told(story)


def test_an_object_is_not_left_behind_because_a_read_was_of_the_past() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"), config_map("two"))
        await here.stop()
        behind = Behind(here.member.client, "two")
        here.start(member=behind)
        await here.work(config_map("one"))
        await here.settle()
        assert await here.resources() == ["configmaps one", "configmaps two"]
        behind.name = ""
        await asyncio.sleep(400)
        assert await here.resources() == ["configmaps one"]
        assert not await here.member.has(CONFIG_MAP, "two")

    told(story)
