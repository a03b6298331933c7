"""Lists: their order, their pages, and the revision that they show."""

from collections.abc import Awaitable, Callable

import pytest

from echelon.kube.client import Client, MergePatch, Page
from tests.conformance.asking import (
    CONFIG_MAP,
    PLACEMENT,
    Document,
    config_map,
    names,
    placement_of,
    refusal,
    refused_fields,
    summary,
    version,
)


async def make(client: Client, namespace: str, *listed: str) -> None:
    for name in listed:
        await client.create(PLACEMENT, placement_of(name), namespace)


async def test_objects_come_in_the_order_of_their_names(client: Client, namespace: str) -> None:
    await make(client, namespace, "b", "a.b", "a", "a-b", "c", "aa")
    assert names((await client.list(PLACEMENT, namespace)).items) == ["a", "a-b", "a.b", "aa", "b", "c"]


async def test_all_namespaces_are_listed_one_after_the_other(
    client: Client, new_namespace: Callable[[], Awaitable[str]]
) -> None:
    first, second = sorted([await new_namespace(), await new_namespace()])
    await make(client, second, "a", "b")
    await make(client, first, "b")
    items = (await client.list(PLACEMENT, fields="metadata.name!=none")).items
    places = [(each["metadata"]["namespace"], each["metadata"]["name"]) for each in items]
    mine = [place for place in places if place[0] in (first, second)]
    assert mine == [(first, "b"), (second, "a"), (second, "b")]


async def test_pages_together_are_the_list(client: Client, namespace: str) -> None:
    await make(client, namespace, "a", "b", "c", "d", "e")
    pages: list[Page[Document]] = [await client.list(PLACEMENT, namespace, limit=2)]
    while pages[-1].continue_:
        pages.append(await client.list(PLACEMENT, namespace, limit=2, continue_=pages[-1].continue_))
    assert [names(page.items) for page in pages] == [["a", "b"], ["c", "d"], ["e"]]
    assert [page.remaining for page in pages] == [3, 1, 0]
    assert len({page.resource_version for page in pages}) == 1


async def test_pages_show_one_moment(client: Client, namespace: str) -> None:
    await make(client, namespace, "a", "b", "d")
    first = await client.list(PLACEMENT, namespace, limit=1)
    await make(client, namespace, "c")
    await client.delete(PLACEMENT, "d", namespace)
    await client.patch(PLACEMENT, "b", MergePatch({"spec": {"numberOfClusters": 9}}), namespace)
    rest = await client.list(PLACEMENT, namespace, limit=10, continue_=first.continue_)
    assert names(rest.items) == ["b", "d"]
    assert "numberOfClusters" not in rest.items[0]["spec"]
    assert rest.resource_version == first.resource_version
    assert names((await client.list(PLACEMENT, namespace)).items) == ["a", "b", "c"]


async def test_a_page_of_what_a_selector_leaves_does_not_tell_how_much_remains(client: Client, namespace: str) -> None:
    for name in ("a", "b", "c", "d"):
        await client.create(PLACEMENT, placement_of(name, labels={"odd": str(name in "ac")}), namespace)
    first = await client.list(PLACEMENT, namespace, labels="odd=True", limit=1)
    assert (names(first.items), first.remaining) == (["a"], 0)
    rest = await client.list(PLACEMENT, namespace, labels="odd=True", limit=1, continue_=first.continue_)
    assert names(rest.items) == ["c"]
    if rest.continue_:  # a server need not look ahead whether anything else matches
        last = await client.list(PLACEMENT, namespace, labels="odd=True", limit=1, continue_=rest.continue_)
        assert (last.items, last.continue_) == ([], "")


async def test_a_limit_that_everything_fits_into_gives_one_page(client: Client, namespace: str) -> None:
    await make(client, namespace, "a", "b")
    page = await client.list(PLACEMENT, namespace, limit=2)
    assert (names(page.items), page.continue_, page.remaining) == (["a", "b"], "", 0)


@pytest.mark.parametrize("token", ["nonsense", "bm9uc2Vuc2U"])
async def test_a_token_that_no_server_made_is_refused(client: Client, namespace: str, token: str) -> None:
    error = await refusal(client.list(CONFIG_MAP, namespace, limit=1, continue_=token))
    assert summary(error)[:2] == (400, "BadRequest")
    assert error.message.startswith("invalid continue token: continue key is not valid: ")


async def test_a_list_can_be_as_of_a_version(client: Client, namespace: str) -> None:
    await make(client, namespace, "a")
    before = await client.list(PLACEMENT, namespace)
    await make(client, namespace, "b")
    then = await client.list(
        PLACEMENT, namespace, resource_version=before.resource_version, resource_version_match="Exact"
    )
    assert (names(then.items), then.resource_version) == (["a"], before.resource_version)
    now = await client.list(
        PLACEMENT, namespace, resource_version=before.resource_version, resource_version_match="NotOlderThan"
    )
    assert names(now.items)[:1] == ["a"]
    assert int(now.resource_version) >= int(before.resource_version)


async def test_a_list_is_at_least_as_new_as_the_newest_object_in_it(client: Client, namespace: str) -> None:
    await make(client, namespace, "a")
    page = await client.list(PLACEMENT, namespace)
    assert int(page.resource_version) >= int(version(page.items[0]))


async def test_a_match_without_a_version_is_refused(client: Client, namespace: str) -> None:
    error = await refusal(client.list(CONFIG_MAP, namespace, resource_version_match="Exact"))
    assert summary(error)[:2] == (422, "Invalid")
    assert refused_fields(error) == [("resourceVersionMatch", "FieldValueForbidden")]
    error = await refusal(client.list(CONFIG_MAP, namespace, resource_version="1", resource_version_match="Nearly"))
    assert refused_fields(error) == [("resourceVersionMatch", "FieldValueNotSupported")]


@pytest.mark.full
@pytest.mark.long
async def test_a_version_from_the_future_is_waited_for_a_little(client: Client, namespace: str) -> None:
    await client.create(CONFIG_MAP, config_map("a"), namespace)
    # The server says that it may be asked again, and a client that does may meet its own deadline meanwhile.
    error = await refusal(
        client.list(CONFIG_MAP, namespace, resource_version="999999999", resource_version_match="NotOlderThan")
    )
    assert (error.status_code, error.status_reason) == (504, "Timeout")


async def test_a_version_that_is_no_number_is_refused(client: Client, namespace: str) -> None:
    error = await refusal(client.list(CONFIG_MAP, namespace, resource_version="newest"))
    assert summary(error)[:2] == (400, "BadRequest")
