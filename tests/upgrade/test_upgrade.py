"""What an earlier version has stored is read by this one as it was meant, with a rollout under way.

Each fixture is the database of a fleet that a version left at rest. This version goes on with it: it repeats nothing
that was done, takes nothing back, and ends what was begun. A version reads what the one before it wrote, and may be
rolled back to it: so what this one writes while it goes on is of a form that is in the fixture already.
"""

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from echelon import __version__
from echelon.api.base import JSONObject
from echelon.api.controller_revisions import CONTROLLER_REVISION
from echelon.api.karmada import RESOURCE_BINDING
from echelon.api.karmada import WORK as EXECUTION_WORK
from echelon.api.kinds import Kind
from echelon.api.placement import PLACEMENT_DECISION
from echelon.api.policy import POLICY
from echelon.api.rollout_ledger import ROLLOUT_LEDGER
from echelon.api.work import APPLIED_MANIFEST_WORK, MANIFEST_WORK
from echelon.fleet.local import Local, Settings
from echelon.kube.client import MergePatch
from tests.upgrade.fleet_at_rest import FIXTURES, FLEET, WAITING, is_at_rest, says, until

VERSIONS = sorted(path.name.removesuffix(".db.gz") for path in FIXTURES.glob("*.db.gz"))
# What rollouts are made of, on the hub.
KINDS: tuple[Kind[Any], ...] = (
    MANIFEST_WORK,
    EXECUTION_WORK,
    POLICY,
    PLACEMENT_DECISION,
    CONTROLLER_REVISION,
    RESOURCE_BINDING,
    ROLLOUT_LEDGER,
)
pytestmark = pytest.mark.long
Story = Callable[[Local], Awaitable[None]]


def go_on(version: str, directory: Path, story: Story) -> None:
    """Start the present version where another one has stopped."""
    (directory / "hub.db").write_bytes(gzip.decompress((FIXTURES / f"{version}.db.gz").read_bytes()))

    async def main() -> None:
        local = await Local.start(Settings(FLEET, data=directory))
        try:
            await story(local)
        finally:
            await local.stop()

    asyncio.run(main())


async def stored(local: Local, *, but: str = "") -> dict[str, JSONObject]:
    """Return what people and controllers mean, of all objects but those of one namespace: no status, no time."""
    found = {}
    for kind in KINDS:
        for each in (await local.hub.client().list(kind.untyped())).items:
            meta = each["metadata"]
            labels = meta.get("labels", {})
            if but and (meta["namespace"] == but or any(value.startswith(f"{but}.") for value in labels.values())):
                continue
            content = {key: value for key, value in each.items() if key not in ("metadata", "status")}
            kept = {"uid": meta["uid"], "generation": meta.get("generation"), "labels": labels}
            if kind is ROLLOUT_LEDGER:
                content, kept = granted(content), {"uid": meta["uid"]}
            found[f"{kind.kind} {meta['namespace']}/{meta['name']}"] = {**kept, **content}
    return found


def granted(ledger: JSONObject) -> JSONObject:
    """Return what a ledger says, without the versions of objects in which members told it: they were started anew."""
    content = json.loads(ledger["spec"]["content"])
    for cluster in content["clusters"].values():
        del cluster["view"]["version"]
    return {**ledger, "spec": {**ledger["spec"], "content": content}}


async def records(local: Local) -> dict[str, list[str]]:
    """Return the objects that the agent of each cluster says it has applied."""
    found = {}
    for name in local.fleet.members:
        listed = (await local.hub.client(name).list(APPLIED_MANIFEST_WORK)).items
        resources = [resource for each in listed for resource in each.status.applied_resources]
        found[name] = sorted(f"{each.resource} {each.namespace}/{each.name} {each.uid}" for each in resources)
    return found


async def approve(local: Local) -> None:
    """Let the rollout that waits go on, and wait for its end: then everything has been looked at."""
    kind, name, namespace = WAITING
    note = {"metadata": {"annotations": {"echelon.dev/approval": None}}}
    await local.hub.client().patch(kind, name, MergePatch(note), namespace)
    await until(lambda: says(local, WAITING, "PlacementRolledOut", "Complete"))


def test_there_is_a_fixture_of_this_version() -> None:
    assert __version__ in VERSIONS, "run python -m tests.upgrade.fleet_at_rest, once, before the release"


@pytest.mark.parametrize("version", VERSIONS)
def test_what_was_done_is_not_done_again_and_what_was_begun_is_ended(version: str, tmp_path: Path) -> None:
    async def story(local: Local) -> None:
        before, applied = await stored(local, but="payments"), await records(local)
        assert len(before) > 10
        assert await is_at_rest(local)
        await local.wait_joined()
        await local.restart_controllers()
        await approve(local)
        assert await is_at_rest_but_approved(local)
        assert await stored(local, but="payments") == before
        after = await records(local)
        # Nothing that was applied is forgotten, or made anew: it is the same object.
        assert [each for name in applied for each in applied[name] if each not in after[name]] == []

    go_on(version, tmp_path, story)


async def is_at_rest_but_approved(local: Local) -> bool:
    return await says(local, WAITING, "PlacementRolledOut", "Complete") and not await says(
        local, WAITING, "RolloutBlocked", "AwaitingApproval"
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_later_version_adds_survives_this_one(version: str, tmp_path: Path) -> None:
    """A later version may have added fields and notes; who goes back to this one must not lose them, nor fall over."""

    async def story(local: Local) -> None:
        client, (kind, name, namespace) = local.hub.client(), WAITING
        later = {"echelon.dev/of-a-later-version": json.dumps({"format": 2})}
        (revision, *_) = (await client.list(CONTROLLER_REVISION.untyped(), namespace)).items
        notes = MergePatch({"metadata": {"annotations": later}})
        await client.patch(kind, name, notes, namespace)
        await client.patch(CONTROLLER_REVISION, revision["metadata"]["name"], notes, namespace)
        await local.wait_joined()
        await approve(local)
        for which, called in ((kind, name), (CONTROLLER_REVISION, revision["metadata"]["name"])):
            found = await client.get(which.untyped(), called, namespace)
            assert found["metadata"]["annotations"].items() >= later.items()

    go_on(version, tmp_path, story)
