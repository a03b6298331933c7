"""What a template's Secrets hold, for those who may view a namespace and not its Secrets."""

import json
from typing import Any

import pytest

from echelon.api.base import JSONObject
from echelon.api.controller_revisions import CONTROLLER_REVISION
from echelon.api.rbac import ROLE_BINDING
from echelon.engine.policy.names import HASH_LABEL
from echelon.engine.rollout.control import ABORTED
from echelon.engine.rollout.secret_data import LONGEST, SECRET_DATA, encode, restored, without_secrets
from echelon.engine.rollout.stored_revision import StoredRevision
from echelon.hub.access.identity import User
from echelon.hub.client import InProcessClient
from tests.controllers.hub import NS
from tests.controllers.policy_world import PolicyWorld, template
from tests.controllers.policy_world import told as told_of_policies
from tests.controllers.work_world import EVERYWHERE, WorkWorld, progressive, told


def with_secret(version: str, password: str) -> JSONObject:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "demo"}, "data": {"version": version}}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"password": password}}
    return {"workload": {"manifests": [config, secret]}}


async def passwords(world: WorkWorld) -> dict[str, str]:
    works = await world.works()
    return {name: each.spec.workload.manifests[1]["stringData"]["password"] for name, each in works.items()}


async def viewed(world: WorkWorld) -> str:
    """Return all that somebody sees who may view the namespace."""
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "viewers"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "viewer"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
    }

    await world.hub.client.create(ROLE_BINDING.untyped(), binding, NS)
    viewer = InProcessClient(world.hub.client._cluster, User("viewer", ("system:authenticated",)))
    found = (await viewer.list(CONTROLLER_REVISION.untyped(), NS)).items
    assert len(found) == 2
    return json.dumps(found)


def test_who_may_view_sees_revisions_without_passwords_and_an_abort_brings_them_back() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["c1", "c2"])])
        world.start()
        await world.roll_out(EVERYWHERE, template=with_secret("1", "hunter2"))
        await world.settle()
        await world.finish()
        await world.change(manifestWorkTemplate=with_secret("2", "correct-horse"))
        await world.settle()
        seen = await viewed(world)
        assert "hunter2" not in seen
        assert "correct-horse" not in seen
        assert set((await passwords(world)).values()) == {"correct-horse"}
        await world.restart()
        await world.annotate({ABORTED: await world.revision()})
        await world.settle()
        assert await passwords(world) == {"c1": "hunter2", "c2": "hunter2"}

    told(story)


def policy_with_secret(password: str) -> JSONObject:
    made = template()
    secret = with_secret("1", password)["workload"]["manifests"][1]
    made["objectDefinition"]["spec"]["object-templates"][0]["objectDefinition"] = secret
    return made


def test_an_abort_brings_back_what_a_secret_in_a_policy_held_and_revisions_never_have_it() -> None:
    async def story(world: PolicyWorld) -> None:
        await world.place([("", ["c1", "c2"])])
        world.start()
        await world.write(strategy=progressive(), spec={"policy-templates": [policy_with_secret("hunter2")]})
        await world.bind()
        await world.settle()
        await world.finish()
        await world.change("audit", **{"policy-templates": [policy_with_secret("correct-horse")]})
        await world.settle()
        stored = await world.revisions()
        assert [each.revision for each in stored] == [1, 2]
        assert "hunter2" not in str(stored)
        assert "correct-horse" not in str(stored)
        await world.restart()
        await world.annotate({ABORTED: stored[-1].metadata.labels[HASH_LABEL]})
        await world.settle()
        found = await world.replicas()
        assert sorted(found) == ["c1", "c2"]
        assert all("hunter2" in str(each.spec) and "correct-horse" not in str(each.spec) for each in found.values())

    told_of_policies(story)


def test_a_set_without_secrets_keeps_nothing_of_them() -> None:
    async def story(world: WorkWorld) -> None:
        await world.place([("", ["c1"])])
        world.start()
        await world.roll_out(EVERYWHERE)
        await world.settle()
        assert SECRET_DATA not in (await world.set()).metadata.annotations

    told(story)


def revision(number: int, content: JSONObject) -> StoredRevision:
    public, _ = without_secrets(content)
    return StoredRevision(f"web-{number}", "u", "1", number, f"hash{number}", "", public)


@pytest.mark.parametrize("size", [10, LONGEST // 3])
def test_what_fits_is_restored_and_a_revision_without_it_has_no_content(size: int) -> None:
    contents = {number: with_secret(str(number), str(number) * size) for number in range(1, 6)}
    plain = revision(9, {"a": 1})
    known: tuple[StoredRevision, ...] = ()
    text: str | None = None
    for number, content in contents.items():
        annotations: dict[str, str] = {SECRET_DATA: text} if text else {}
        known = restored([*(revision(each, contents[each]) for each in range(1, number)), plain], annotations)
        text = encode(f"hash{number}", content, known[:-1])
    assert text is not None
    assert len(text) <= LONGEST
    assert known[-1] == plain
    found = restored([revision(number, content) for number, content in contents.items()], {SECRET_DATA: text})
    kept = [each.number for each in found if each.content is not None]
    assert kept == ([1, 2, 3, 4, 5] if size == 10 else [4, 5])
    assert all(each.content == contents[each.number] for each in found if each.content is not None)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"hash1": [[["nowhere"], 1]]}', '{"hash1": [[[], 1]]}', '{"hash1": 1}']
)
def test_an_annotation_that_somebody_spoilt_restores_nothing(text: str) -> None:
    (found,) = restored([revision(1, with_secret("1", "x"))], {SECRET_DATA: text})
    assert found.content is None


@pytest.mark.parametrize("where", [lambda s: s, lambda s: [[s]], lambda s: {"objectDefinition": s}])
def test_secrets_are_found_wherever_they_are(where: Any) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "data": {"a": "aHVudGVyMg=="}}
    public, held = without_secrets({"x": where(secret)})
    assert "aHVudGVyMg==" not in json.dumps(public)
    assert held[0][1] == {"a": "aHVudGVyMg=="}
