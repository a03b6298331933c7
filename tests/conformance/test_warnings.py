"""A server says what it drops, and whoever writes hears it."""

import pytest

from echelon.api.base import JSONObject
from echelon.api.core import CONFIG_MAP
from echelon.kube.client import Client, MergePatch, WriteOptions

MAPS = CONFIG_MAP.untyped()
TYPO: JSONObject = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "dta": {"a": "b"}}


@pytest.mark.parametrize("way", ["create", "merge"])
async def test_a_field_that_is_dropped_is_told_to_whoever_asks_for_warnings(
    client: Client, namespace: str, way: str
) -> None:
    heard: list[str] = []
    options = WriteOptions(field_validation="Warn", warn=heard.append)
    if way == "merge":
        await client.create(MAPS, {**TYPO, "dta": None}, namespace, options=WriteOptions(field_validation="Ignore"))
        await client.patch(MAPS, "one", MergePatch({"dta": {"a": "b"}}), namespace, options=options)
    else:
        await client.create(MAPS, TYPO, namespace, options=options)
    assert heard == ['unknown field "dta"']


async def test_nothing_is_told_where_nothing_is_dropped(client: Client, namespace: str) -> None:
    heard: list[str] = []
    options = WriteOptions(field_validation="Warn", warn=heard.append)
    await client.create(MAPS, {"metadata": {"name": "one"}, "data": {"a": "b"}}, namespace, options=options)
    assert heard == []
