"""What happens when several write at once."""

import asyncio

import pytest

from echelon.kube.client import Client, DeleteOptions, JSONPatch, MergePatch, Preconditions, WriteOptions
from echelon.kube.errors import AlreadyExists, Conflict, Invalid, NotFound
from tests.conformance.asking import (
    CONFIG_MAP,
    PLACEMENT,
    config_map,
    placement_of,
    refusal,
    refused_fields,
    summary,
    version,
)

STALE = "the object has been modified; please apply your changes to the latest version and try again"


async def test_a_patch_with_an_old_version_is_too_late(client: Client, namespace: str) -> None:
    for kind, make, called in (
        (CONFIG_MAP, config_map, "configmaps"),
        (PLACEMENT, placement_of, "placements.cluster.open-cluster-management.io"),
    ):
        created = await client.create(kind, make("a"), namespace)
        guarded = MergePatch({"metadata": {"resourceVersion": version(created), "labels": {"first": "yes"}}})
        await client.patch(kind, "a", guarded, namespace)
        late = MergePatch({"metadata": {"resourceVersion": version(created), "labels": {"second": "yes"}}})
        error = await refusal(client.patch(kind, "a", late, namespace))
        assert summary(error) == (409, "Conflict", f'Operation cannot be fulfilled on {called} "a": {STALE}')
        assert (await client.get(kind, "a", namespace))["metadata"]["labels"] == {"first": "yes"}


async def test_a_patch_for_another_object_of_the_same_name_is_refused(client: Client, namespace: str) -> None:
    for kind, make in ((CONFIG_MAP, config_map), (PLACEMENT, placement_of)):
        created = await client.create(kind, make("a"), namespace)
        other = "00000000-0000-0000-0000-000000000000"
        patch = MergePatch({"metadata": {"uid": other, "labels": {"x": "y"}}})
        error = await refusal(client.patch(kind, "a", patch, namespace))
        assert (error.status_code, error.status_reason) == (422, "Invalid")
        assert set(refused_fields(error)) == {("metadata.uid", "FieldValueInvalid")}
        assert error.message.endswith(f'metadata.uid: Invalid value: "{other}": field is immutable')
        assert await client.get(kind, "a", namespace) == created


async def test_a_deletion_that_is_not_carried_out_tells_whether_the_very_object_is_there(
    client: Client, namespace: str
) -> None:
    def dry(uid: str = "") -> DeleteOptions:
        return DeleteOptions(Preconditions(uid=uid), dry_run=True)

    for kind, make in ((CONFIG_MAP, config_map), (PLACEMENT, placement_of)):
        error = await refusal(client.delete(kind, "a", namespace, options=dry()))
        assert isinstance(error, NotFound)
        created = await client.create(kind, make("a"), namespace)
        await client.delete(kind, "a", namespace, options=dry())
        await client.delete(kind, "a", namespace, options=dry(created["metadata"]["uid"]))
        other = "00000000-0000-0000-0000-000000000000"
        error = await refusal(client.delete(kind, "a", namespace, options=dry(other)))
        assert isinstance(error, Conflict)
        assert other in error.message, "by which it is told from a write that lost against another"
        assert await client.get(kind, "a", namespace) == created


async def test_a_patch_of_an_object_that_was_replaced_is_told_apart_from_one_that_is_wrong(
    client: Client, namespace: str
) -> None:
    for kind, make in ((CONFIG_MAP, config_map), (PLACEMENT, placement_of)):
        before = (await client.create(kind, make("a"), namespace))["metadata"]
        await client.delete(kind, "a", namespace)
        await client.create(kind, make("a"), namespace)
        expected = {"uid": before["uid"], "resourceVersion": before["resourceVersion"]}
        for dry_run in (True, False):
            patch, options = MergePatch({"metadata": {**expected, "labels": {"x": "y"}}}), WriteOptions(dry_run=dry_run)
            error = await refusal(client.patch(kind, "a", patch, namespace, options=options))
            assert isinstance(error, Conflict) or ("metadata.uid", "FieldValueInvalid") in refused_fields(error)


async def test_one_of_many_that_create_the_same_name_succeeds(client: Client, namespace: str) -> None:
    async def create(number: int) -> bool:
        try:
            await client.create(CONFIG_MAP, config_map("a", {"by": str(number)}), namespace)
        except AlreadyExists:
            return False
        return True

    assert sum(await asyncio.gather(*map(create, range(8)))) == 1


async def test_no_increment_is_lost_among_writers_that_check_the_version(client: Client, namespace: str) -> None:
    await client.create(CONFIG_MAP, config_map("a", {"count": "0"}), namespace)

    async def increment() -> None:
        while True:
            read = await client.get(CONFIG_MAP, "a", namespace)
            count = str(int(read["data"]["count"]) + 1)
            patch = MergePatch({"metadata": {"resourceVersion": version(read)}, "data": {"count": count}})
            try:
                await client.patch(CONFIG_MAP, "a", patch, namespace)
            except Conflict:
                continue
            return

    await asyncio.gather(*(increment() for _ in range(10)))
    assert (await client.get(CONFIG_MAP, "a", namespace))["data"] == {"count": "10"}


async def test_patches_that_check_nothing_all_succeed(client: Client, namespace: str) -> None:
    await client.create(CONFIG_MAP, config_map("a", {}), namespace)
    await asyncio.gather(
        *(client.patch(CONFIG_MAP, "a", MergePatch({"data": {f"k{n}": "x"}}), namespace) for n in range(4))
    )
    assert sorted((await client.get(CONFIG_MAP, "a", namespace))["data"]) == ["k0", "k1", "k2", "k3"]


@pytest.mark.parametrize("writers", [6])
async def test_one_of_many_that_test_a_value_takes_it(client: Client, namespace: str, writers: int) -> None:
    await client.create(CONFIG_MAP, config_map("a", {"owner": "nobody"}), namespace)

    async def take(number: int) -> bool:
        steps = [
            {"op": "test", "path": "/data/owner", "value": "nobody"},
            {"op": "replace", "path": "/data/owner", "value": str(number)},
        ]
        try:
            await client.patch(CONFIG_MAP, "a", JSONPatch(steps), namespace)
        except (Conflict, Invalid):
            return False
        return True

    assert sum(await asyncio.gather(*map(take, range(writers)))) == 1
