"""Works that are too much for a server to store: what becomes of them is told all the same."""

from datetime import UTC, datetime

import msgspec
import pytest

from echelon.api.core import CONFIG_MAP
from echelon.api.meta import ObjectMeta
from echelon.api.work import (
    MANIFEST_WORK,
    ManifestCondition,
    ManifestResourceMeta,
    ManifestResourceStatus,
    ManifestWork,
    ManifestWorkSpec,
    ManifestWorkStatus,
)
from echelon.engine.conditions import condition_stamp
from echelon.engine.work.limits import MAX_BYTES, SHORTENED, Unrecordable, check_record, fitted
from tests.agent.world import CLUSTER, World, condition, config_map, told

pytestmark = pytest.mark.full

STAMP = condition_stamp(1, datetime(2026, 1, 1, tzinfo=UTC))


def manifest(number: int, **conditions: str) -> ManifestCondition:
    meta = ManifestResourceMeta(
        ordinal=number, version="v1", kind="ConfigMap", resource="configmaps", name=f"c{number}"
    )
    said = {"Applied": "True", "Available": "True", **conditions}
    stated = [STAMP.condition(kind, status, "Said", "because " * 100) for kind, status in said.items()]
    return ManifestCondition(resource_meta=meta, conditions=stated)


def test_a_work_of_thousands_of_manifests_reports_in_short() -> None:
    async def story(here: World) -> None:
        names = [f"c{number}" for number in range(1800)]
        await here.work(*map(config_map, names))
        await here.settle(60)
        seen = await here.seen()
        assert condition(seen.status.conditions, "Applied").status == "True"
        assert condition(seen.status.conditions, "Available").status == "True"
        said = condition(seen.status.conditions, SHORTENED)
        assert said.message.endswith("all are applied and available")
        assert 0 < len(seen.status.resource_status.manifests) < 1800
        await here.member.patch(CONFIG_MAP, "c1799", {"data": {"a": "drifted"}})
        await here.settle(60)
        listed = [each.resource_meta.name for each in await here.manifests()]
        assert "c1799" in listed  # what needs a look comes first
        assert (await here.status("Progressing")) == "False"
        await here.hub.delete(MANIFEST_WORK, "w", CLUSTER)
        await here.settle(60)
        assert not await here.hub.has(MANIFEST_WORK, "w", CLUSTER)
        assert not await here.member.has(CONFIG_MAP, "c1799")

    told(story)


def test_a_work_whose_record_cannot_be_named_is_refused_with_a_condition_and_goes_when_it_is_deleted() -> None:
    async def story(here: World) -> None:
        name = "w" * 200
        await here.work(config_map("one"), name=name)
        said = await here.condition("Applied", name)
        assert said.status == "False"
        (each,) = await here.manifests(name)
        assert "shorter name" in condition(each.conditions, "Applied").message
        assert not await here.member.has(CONFIG_MAP, "one")
        await here.hub.delete(MANIFEST_WORK, name, CLUSTER)
        await here.settle(60)
        assert not await here.hub.has(MANIFEST_WORK, name, CLUSTER)

    told(story)


def test_a_record_that_would_be_too_large_is_refused_before_anything_is_applied() -> None:
    with pytest.raises(Unrecordable, match="divide it into several works"):
        check_record("r", [config_map(f"{'c' * 40}{number}") for number in range(9000)])
    check_record("r" * 253, [config_map("one")])


@pytest.mark.parametrize("failing", [0, 3, 4000])
def test_what_needs_a_look_is_listed_first_and_the_rest_is_counted(failing: int) -> None:
    manifests = [manifest(number, Applied=str(number < 4000 - failing)) for number in range(4000)]
    manifests[7] = manifest(7, Complete="True")
    work = ManifestWork(metadata=ObjectMeta(name="w", namespace="c1"), spec=ManifestWorkSpec())
    whole = ManifestWorkStatus(
        conditions=[STAMP.condition("Applied", "True", "Said")],
        resource_status=ManifestResourceStatus(manifests=manifests),
    )
    short = fitted(work, whole, STAMP)
    assert len(msgspec.json.encode(msgspec.structs.replace(work, status=short))) <= MAX_BYTES
    listed = {each.resource_meta.ordinal for each in short.resource_status.manifests}
    assert 7 in listed  # what is complete is not run again, so it has to be remembered
    if failing == 3:
        assert {3997, 3998, 3999} <= listed
    assert fitted(work, short, STAMP).resource_status == short.resource_status
