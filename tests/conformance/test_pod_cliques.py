"""What a set of pod cliques is made of, on every server: taken as it is, and left alone once it is there.

A child that a server spells in its own way (defaults, quantities, left out falses) and that is patched for it would be
patched for ever.
"""

import copy
from collections.abc import Awaitable, Callable
from typing import Any

from echelon.api.autoscaling import HORIZONTAL_POD_AUTOSCALER
from echelon.api.base import JSONObject
from echelon.api.controller_revisions import CONTROLLER_REVISION
from echelon.api.core import POD, SERVICE
from echelon.api.grove import POD_CLIQUE, POD_CLIQUE_SCALING_GROUP, POD_CLIQUE_SET
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.podgangs import POD_GANG
from echelon.engine.plan import Create
from echelon.engine.pod_clique.accepting import NotAccepted, accept
from echelon.engine.pod_clique.children import (
    clique_body,
    clique_patch,
    gang_body,
    gang_patch,
    group_body,
    group_patch,
    owner_of,
)
from echelon.engine.pod_clique.infrastructure import infrastructure, infrastructure_patch
from echelon.engine.pod_clique.pods import pod_maker
from echelon.engine.pod_clique.revisions import read_revision, store, undo
from echelon.engine.pod_clique.set_spec import SetSpec, Settings
from echelon.engine.pod_clique.shape import ExpectedClique, expected
from echelon.kube.client import Client, JSONPatch, MergePatch
from tests.engine.pod_clique.sets import a_set, clique, group

NewNamespace = Callable[[], Awaitable[str]]
SETTINGS = Settings(init_image="registry.example/waiter:1")


def a_rich_set() -> JSONObject:
    """A set that uses what a server may spell differently."""
    anti = [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}]
    rich = {
        "containers": [
            {
                "name": "c",
                "image": "registry.example/c:1",
                "env": [{"name": "A"}, {"name": "GROVE_PCS_NAME", "value": "mine"}],
                "ports": [{"containerPort": 80}],
                "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}},
                "readinessProbe": {"httpGet": {"path": "/", "port": 80}},
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            }
        ],
        "initContainers": [{"name": "i", "image": "registry.example/i:1"}],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": anti}},
        "tolerations": [{"operator": "Exists"}],
        "schedulingGates": [{"name": "example.com/mine"}],
        "securityContext": {},
    }
    metric = {
        "type": "Pods",
        "pods": {"metric": {"name": "q"}, "target": {"type": "AverageValue", "averageValue": "0.5"}},
    }
    return a_set(
        clique("front", 2, minAvailable=1, labels={"tier": "x"}, annotations={"note": "y"}, pod_spec=rich,
               autoScalingConfig={"maxReplicas": 4, "metrics": [metric]}),
        clique("dec", 2, pod_spec=copy.deepcopy(rich)),
        clique("pre"),
        replicas=2,
        groups=[group("sg", "dec", "pre", replicas=2, scaleConfig={"maxReplicas": 3}, annotations={"team": "ml"})],
        cliqueStartupType="CliqueStartupTypeInOrder",
        headlessServiceConfig={"publishNotReadyAddresses": False},
    )  # fmt: skip


async def created(client: Client, kind: Kind[Any], body: JSONObject, namespace: str) -> JSONObject:
    """Create a child and read it back."""
    await client.create(kind.untyped(), body, namespace)
    return await client.get(kind.untyped(), body["metadata"]["name"], namespace)


async def a_stored_set(client: Client, new_namespace: NewNamespace) -> tuple[JSONObject, SetSpec, str]:
    namespace = await new_namespace()
    body = a_rich_set()
    body["metadata"] = {"name": "w", "namespace": namespace, "labels": {"team": "ml"}}
    stored = await created(client, POD_CLIQUE_SET, body, namespace)
    found = accept(stored, (), SETTINGS)
    assert not isinstance(found, NotAccepted), found
    return stored, found.spec, namespace


async def stored_clique(client: Client, body: JSONObject, spec: SetSpec, wanted: ExpectedClique) -> JSONObject:
    made = clique_body(body, spec, wanted, owner_of(POD_CLIQUE_SET, body))
    return await created(client, POD_CLIQUE, made, body["metadata"]["namespace"])


async def test_children_are_left_alone_once_they_are_there(client: Client, new_namespace: NewNamespace) -> None:
    body, spec, namespace = await a_stored_set(client, new_namespace)
    shape = expected(spec, "w", {}, {})
    for wanted in shape.cliques:
        there = await stored_clique(client, body, spec, wanted)
        assert clique_patch(there, clique_body(body, spec, wanted, owner_of(POD_CLIQUE_SET, body))) is None
    for group_wanted in shape.groups:
        made = group_body(body, group_wanted)
        assert group_patch(await created(client, POD_CLIQUE_SCALING_GROUP, made, namespace), made) is None
    for gang in shape.gangs:
        made = gang_body(body, spec, gang, {gang.cliques[0].name: ["x", "y"]})
        assert gang_patch(await created(client, POD_GANG, made, namespace), made) is None
    for kind, made in infrastructure(body, spec, shape):
        there = await created(client, kind, made, namespace)
        if kind in (SERVICE, HORIZONTAL_POD_AUTOSCALER):
            assert infrastructure_patch(there, made) is None


async def test_a_child_that_differs_is_patched_once(client: Client, new_namespace: NewNamespace) -> None:
    body, spec, namespace = await a_stored_set(client, new_namespace)
    wanted = expected(spec, "w", {}, {}).clique["w-0-front"]
    there = await stored_clique(client, body, spec, wanted)
    front = "/spec/template/cliques/0"
    edit: list[JSONObject] = [
        {"op": "replace", "path": f"{front}/spec/podSpec/containers/0/image", "value": "registry.example/c:2"},
        {"op": "replace", "path": f"{front}/labels", "value": {"tier": "z"}},
        {"op": "remove", "path": f"{front}/annotations"},
        {"op": "remove", "path": f"{front}/spec/podSpec/tolerations"},
    ]
    edited = await client.patch(POD_CLIQUE_SET.untyped(), "w", JSONPatch(edit), namespace)
    found = accept(edited, (), SETTINGS)
    assert not isinstance(found, NotAccepted)
    changed = expected(found.spec, "w", {}, {}).clique["w-0-front"]
    after = clique_body(edited, found.spec, changed, owner_of(POD_CLIQUE_SET, edited))
    change = clique_patch(there, after)
    assert change is not None
    await client.patch(POD_CLIQUE.untyped(), "w-0-front", MergePatch(change), namespace)
    again = await client.get(POD_CLIQUE.untyped(), "w-0-front", namespace)
    assert clique_patch(again, after) is None
    assert again["spec"]["podSpec"] == after["spec"]["podSpec"]
    assert "note" not in again["metadata"]["annotations"]


async def test_every_pod_is_taken_as_it_is(client: Client, new_namespace: NewNamespace) -> None:
    body, spec, namespace = await a_stored_set(client, new_namespace)
    for wanted in expected(spec, "w", {}, {}).cliques:
        there = await stored_clique(client, body, spec, wanted)
        made = pod_maker(there, body, spec, wanted.key, SETTINGS).pod(1, "")
        pod = await created(client, POD, made, namespace)
        assert pod["spec"]["hostname"] == f"{wanted.name}-1"
        assert [gate["name"] for gate in pod["spec"]["schedulingGates"]] == ["grove.io/podgang-pending-creation"]
        assert pod["metadata"]["labels"] == made["metadata"]["labels"]
        names = [each["name"] for each in pod["spec"]["initContainers"]] if "initContainers" in pod["spec"] else []
        assert ("grove-initc" in names) == bool(there["spec"].get("startsAfter"))


async def test_a_stored_revision_gives_back_what_was_there(client: Client, new_namespace: NewNamespace) -> None:
    body, spec, namespace = await a_stored_set(client, new_namespace)
    [write] = store(body, spec, ())
    assert isinstance(write, Create)
    revision = read_revision(await created(client, CONTROLLER_REVISION, write.body, namespace))
    assert revision is not None
    assert (revision.generation_hash, revision.hashes) == (spec.generation_hash, spec.hashes)
    path = "/spec/template/cliques/1/spec/podSpec"
    other = {"containers": [{"name": "d", "image": "registry.example/d:1"}]}
    edit: list[JSONObject] = [
        {"op": "replace", "path": path, "value": other},
        {"op": "remove", "path": "/spec/template/cliques/0/labels"},
    ]
    edited = await client.patch(POD_CLIQUE_SET.untyped(), "w", JSONPatch(edit), namespace)
    back = await client.patch(POD_CLIQUE_SET.untyped(), "w", JSONPatch(undo(edited, revision)), namespace)
    found = accept(back, (revision,), SETTINGS)
    assert not isinstance(found, NotAccepted)
    assert found.spec == spec


async def test_a_container_that_waits_may_run_where_little_is_allowed(
    client: Client, new_namespace: NewNamespace
) -> None:
    namespace = await new_namespace()
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    await client.patch(NAMESPACE, namespace, MergePatch({"metadata": {"labels": labels}}))
    strict = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    pods = {"containers": [{"name": "c", "image": "registry.example/c:1", "securityContext": strict}]}
    body = a_set(clique("a", pod_spec=pods), clique("b", pod_spec=pods), cliqueStartupType="CliqueStartupTypeInOrder")
    body["metadata"] = {"name": "w", "namespace": namespace}
    stored = await created(client, POD_CLIQUE_SET, body, namespace)
    found = accept(stored, (), SETTINGS)
    assert not isinstance(found, NotAccepted)
    wanted = expected(found.spec, "w", {}, {}).clique["w-0-b"]
    there = await stored_clique(client, stored, found.spec, wanted)
    made = pod_maker(there, stored, found.spec, wanted.key, SETTINGS).pod(0, "")
    assert (await created(client, POD, made, namespace))["spec"]["initContainers"][0]["name"] == "grove-initc"
