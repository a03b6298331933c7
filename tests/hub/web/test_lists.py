"""Lists over HTTPS: pages, versions and selectors."""

from typing import Any

import pytest

from tests.hub.api import CLUSTERS, MERGE_PATCH, Api, config_map, deployment, managed_cluster


def names(listed: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


@pytest.fixture
def ten(api: Api, maps: str) -> str:
    for number in (3, 1, 4, 0, 5, 9, 2, 6, 8, 7):
        api.ok("POST", maps, config_map(f"m{number}", labels={"odd": str(number % 2), "n": str(number)}))
    return maps


def test_a_list_is_in_order_of_names(api: Api, ten: str) -> None:
    listed = api.ok("GET", ten)
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert names(listed) == [f"m{i}" for i in range(10)]
    assert int(listed["metadata"]["resourceVersion"]) >= max(
        int(i["metadata"]["resourceVersion"]) for i in listed["items"]
    )


def test_pages_together_are_the_list(api: Api, ten: str) -> None:
    page = api.ok("GET", ten, limit=4)
    assert page["metadata"]["remainingItemCount"] == 6
    found, sizes = names(page), [len(page["items"])]
    while token := page["metadata"].get("continue"):
        page = api.ok("GET", ten, **{"limit": 4, "continue": token})
        found += names(page)
        sizes.append(len(page["items"]))
    assert found == [f"m{i}" for i in range(10)]
    assert sizes == [4, 4, 2]
    assert "remainingItemCount" not in page["metadata"]


def test_pages_are_of_one_moment_whatever_is_written(api: Api, ten: str) -> None:
    first = api.ok("GET", ten, limit=3)
    moment = first["metadata"]["resourceVersion"]
    api.ok("DELETE", f"{ten}/m4")
    api.ok("POST", ten, config_map("m35"))
    api.ok("PATCH", f"{ten}/m8", {"data": {"x": "new"}}, MERGE_PATCH)
    found, page = names(first), first
    while token := page["metadata"].get("continue"):
        page = api.ok("GET", ten, **{"limit": 3, "continue": token})
        assert page["metadata"]["resourceVersion"] == moment
        assert all("x" not in item["data"] for item in page["items"])
        found += names(page)
    assert found == [f"m{i}" for i in range(10)]
    assert names(api.ok("GET", ten)) == ["m0", "m1", "m2", "m3", "m35", "m5", "m6", "m7", "m8", "m9"]


def test_pages_of_a_selection(api: Api, ten: str) -> None:
    page = api.ok("GET", ten, limit=2, labelSelector="odd=1")
    assert "remainingItemCount" not in page["metadata"]  # nobody has counted them
    found = names(page)
    while token := page["metadata"].get("continue"):
        page = api.ok("GET", ten, **{"limit": 2, "labelSelector": "odd=1", "continue": token})
        found += names(page)
    assert found == ["m1", "m3", "m5", "m7", "m9"]


def test_a_token_and_a_version_exclude_each_other(api: Api, ten: str) -> None:
    token = api.ok("GET", ten, limit=1)["metadata"]["continue"]
    answer = api("GET", ten, **{"continue": token, "resourceVersion": "5"})
    assert (answer.status, answer.message) == (400, "specifying resource version is not allowed when using continue")


@pytest.mark.parametrize(
    ("selector", "numbers"),
    [
        ("odd=1,n!=3", "1579"),
        ("n in (1,2,3)", "123"),
        ("n notin (1,2,3),odd", "0456789"),
        ("!odd", ""),
        ("n>6", "789"),
        ("n<2,odd==0", "0"),
        ("absent!=x", "0123456789"),
    ],
)
def test_label_selectors(api: Api, ten: str, selector: str, numbers: str) -> None:
    assert names(api.ok("GET", ten, labelSelector=selector)) == [f"m{n}" for n in numbers]


def test_field_selectors(api: Api, ten: str) -> None:
    assert names(api.ok("GET", ten, fieldSelector="metadata.name=m3")) == ["m3"]
    assert len(names(api.ok("GET", ten, fieldSelector="metadata.name!=m3"))) == 9
    namespace = ten.split("/")[4]
    both = f"metadata.namespace={namespace},metadata.name=m1"
    assert names(api.ok("GET", "/api/v1/configmaps", fieldSelector=both)) == ["m1"]
    pods = ten.replace("configmaps", "pods")
    template = deployment("d")["spec"]["template"]["spec"]
    for name, node in (("p", "n1"), ("q", "n2")):
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {**template, "nodeName": node}}
        api.ok("POST", pods, body)
    assert names(api.ok("GET", pods, fieldSelector="spec.nodeName=n2")) == ["q"]
    assert names(api.ok("GET", pods, fieldSelector="status.phase=Pending,spec.nodeName!=n2")) == ["p"]


# --- versions --------------------------------------------------------------------------------------------------------


def test_a_list_at_an_exact_version_is_that_of_the_past(api: Api, ten: str) -> None:
    before = api.ok("GET", ten)
    moment = before["metadata"]["resourceVersion"]
    api.ok("DELETE", f"{ten}/m4")
    past = api.ok("GET", ten, resourceVersion=moment, resourceVersionMatch="Exact")
    assert past == before
    assert names(api.ok("GET", ten, resourceVersion=moment, limit=5)) == names(before)[:5]


@pytest.mark.parametrize(
    "query", [{}, {"resourceVersion": "0"}, {"resourceVersion": "0", "resourceVersionMatch": "NotOlderThan"}]
)
def test_a_list_at_any_version_is_the_newest_here(api: Api, ten: str, query: dict[str, str]) -> None:
    api.ok("DELETE", f"{ten}/m4")
    assert len(api.ok("GET", ten, **query)["items"]) == 9


def test_a_list_not_older_than_a_write_has_it(api: Api, ten: str) -> None:
    written = api.ok("POST", ten, config_map("new"))["metadata"]["resourceVersion"]
    for query in ({}, {"resourceVersionMatch": "NotOlderThan"}):
        listed = api.ok("GET", ten, resourceVersion=written, **query)
        assert "new" in names(listed)
        assert int(listed["metadata"]["resourceVersion"]) >= int(written)


def test_a_version_that_is_not_there_yet(api: Api, ten: str) -> None:
    answer = api("GET", ten, resourceVersion="999999999")
    assert (answer.status, answer.reason) == (504, "Timeout")
    assert answer.message.startswith("Timeout: Too large resource version: 999999999, current: ")
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    assert answer.json["details"] == {"causes": [cause], "retryAfterSeconds": 1}
    assert answer.headers["Retry-After"] == "1"


def test_a_collection_is_deleted_by_selector(api: Api, ten: str) -> None:
    deleted = api.ok("DELETE", ten, labelSelector="odd=0", dryRun="All")
    assert len(api.ok("GET", ten)["items"]) == 10
    deleted = api.ok("DELETE", ten, labelSelector="odd=0")
    assert deleted["kind"] == "ConfigMapList"
    assert names(deleted) == ["m0", "m2", "m4", "m6", "m8"]
    assert names(api.ok("GET", ten)) == ["m1", "m3", "m5", "m7", "m9"]
    api.ok("DELETE", ten, fieldSelector="metadata.name=m1")
    assert names(api.ok("DELETE", ten)) == ["m3", "m5", "m7", "m9"]
    assert names(api.ok("GET", ten)) == []


def test_custom_resources_are_listed_alike(api: Api, maps: str) -> None:
    test = maps.split("/")[4]
    for number in range(3):
        api.ok("POST", CLUSTERS, managed_cluster(f"{test}-{number}", labels={"test": test}))
    page = api.ok("GET", CLUSTERS, labelSelector=f"test={test}", limit=2)
    assert (page["kind"], len(page["items"])) == ("ManagedClusterList", 2)
    query = {"labelSelector": f"test={test}", "limit": 2, "continue": page["metadata"]["continue"]}
    assert names(api.ok("GET", CLUSTERS, **query)) == [f"{test}-2"]
    assert len(api.ok("DELETE", CLUSTERS, labelSelector=f"test={test}")["items"]) == 3
    assert api.ok("GET", CLUSTERS, labelSelector=f"test={test}")["items"] == []
