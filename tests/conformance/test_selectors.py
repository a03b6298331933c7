"""Label and field selectors of lists; watches use the same ones."""

from collections.abc import Awaitable, Callable

import pytest

from echelon.kube.client import Client
from tests.conformance.asking import CONFIG_MAP, NAMESPACE, PLACEMENT, config_map, names, placement_of, refusal, summary

OBJECTS = {
    "bare": {},
    "blue": {"colour": "blue", "size": "large"},
    "green": {"colour": "green", "size": "small"},
    "prefixed": {"example.com/colour": "blue"},
    "valueless": {"colour": ""},
}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("colour=blue", ["blue"]),
        ("colour==blue", ["blue"]),
        ("colour!=blue", ["bare", "green", "prefixed", "valueless"]),
        ("colour", ["blue", "green", "valueless"]),
        ("!colour", ["bare", "prefixed"]),
        ("colour in (blue, green)", ["blue", "green"]),
        ("colour notin (blue)", ["bare", "green", "prefixed", "valueless"]),
        ("colour=", ["valueless"]),
        ("example.com/colour=blue", ["prefixed"]),
        ("colour,size=small", ["green"]),
        ("colour in (blue),size in (small)", []),
    ],
)
async def test_labels_select(client: Client, namespace: str, selector: str, expected: list[str]) -> None:
    for kind, make in ((CONFIG_MAP, config_map), (PLACEMENT, placement_of)):
        for name, labels in OBJECTS.items():
            body = make(name)
            body["metadata"]["labels"] = labels
            await client.create(kind, body, namespace)
        assert names((await client.list(kind, namespace, labels=selector)).items) == expected


@pytest.mark.parametrize("selector", ["colour in", "=blue", "colour=in valid", "a b", "-x=1"])
async def test_a_label_selector_that_cannot_be_read_is_refused(client: Client, namespace: str, selector: str) -> None:
    for kind in (CONFIG_MAP, PLACEMENT):
        error = await refusal(client.list(kind, namespace, labels=selector))
        assert summary(error)[:2] == (400, "BadRequest")


async def test_names_and_namespaces_select(client: Client, new_namespace: Callable[[], Awaitable[str]]) -> None:
    here, there = await new_namespace(), await new_namespace()
    for namespace in (here, there):
        for name in ("a", "b"):
            await client.create(PLACEMENT, placement_of(name), namespace)

    async def found(fields: str) -> list[tuple[str, str]]:
        items = (await client.list(PLACEMENT, fields=fields)).items
        return [(each["metadata"]["namespace"], each["metadata"]["name"]) for each in items]

    assert await found(f"metadata.namespace={here}") == [(here, "a"), (here, "b")]
    assert await found(f"metadata.namespace={there},metadata.name!=a") == [(there, "b")]
    assert (there, "a") in await found("metadata.name=a")


async def test_a_field_that_a_kind_offers_selects(client: Client, namespace: str) -> None:
    listed = await client.list(NAMESPACE, fields=f"status.phase=Active,metadata.name={namespace}")
    assert names(listed.items) == [namespace]
    assert (await client.list(NAMESPACE, fields=f"status.phase=Terminating,metadata.name={namespace}")).items == []


async def test_a_field_that_a_kind_does_not_offer_is_refused(client: Client, namespace: str) -> None:
    error = await refusal(client.list(PLACEMENT, namespace, fields="spec.numberOfClusters=1"))
    assert summary(error) == (400, "BadRequest", "field label not supported: spec.numberOfClusters")
    error = await refusal(client.list(CONFIG_MAP, namespace, fields="data.x=1"))
    why = '"data.x" is not a known field selector: only "metadata.name", "metadata.namespace"'
    assert summary(error) == (400, "BadRequest", why)
