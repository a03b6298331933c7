"""The forms of an answer: whole objects, tables and metadata, JSON and YAML."""

from typing import Any

import pytest
import yaml

from tests.hub.api import CLUSTERS, MERGE_PATCH, Api, config_map, managed_cluster

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


def taking(api: Api, accept: str) -> Api:
    return api.with_headers(Accept=accept)


def test_a_table_of_a_list(api: Api, maps: str) -> None:
    for name in ("a", "b"):
        api.ok("POST", maps, config_map(name, x="1", y="2"))
    table = taking(api, TABLE).ok("GET", maps)
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert [row["cells"][:2] for row in table["rows"]] == [["a", 2], ["b", 2]]
    row = table["rows"][0]["object"]
    assert (row["kind"], row["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert row["metadata"]["name"] == "a"
    assert "data" not in row
    assert table["metadata"]["resourceVersion"] == api.ok("GET", maps)["metadata"]["resourceVersion"]


def test_pages_of_a_table(api: Api, maps: str) -> None:
    for name in ("a", "b"):
        api.ok("POST", maps, config_map(name))
    page = taking(api, TABLE).ok("GET", maps, limit=1)
    assert page["metadata"]["remainingItemCount"] == 1
    rest = taking(api, TABLE).ok("GET", maps, **{"continue": page["metadata"]["continue"]})
    assert [row["cells"][0] for row in rest["rows"]] == ["b"]


@pytest.mark.parametrize(
    ("include", "kind"), [("Object", "ConfigMap"), ("Metadata", "PartialObjectMetadata"), ("None", None)]
)
def test_what_a_row_carries(api: Api, maps: str, include: str, kind: str | None) -> None:
    api.ok("POST", maps, config_map("a"))
    (row,) = taking(api, TABLE).ok("GET", f"{maps}/a", includeObject=include)["rows"]
    assert (row.get("object") or {}).get("kind") == kind
    answer = taking(api, TABLE)("GET", maps, includeObject="Nope")
    assert (answer.status, "must be 'Metadata', 'Object', 'None', or empty" in answer.message) == (400, True)


def test_a_table_of_custom_resources_has_the_columns_of_their_definition(api: Api, maps: str) -> None:
    name = maps.split("/")[4]
    api.ok("POST", CLUSTERS, managed_cluster(name))
    table = taking(api, TABLE).ok("GET", f"{CLUSTERS}/{name}")
    columns = [column["name"] for column in table["columnDefinitions"]]
    assert columns[:3] == ["Name", "Hub Accepted", "Managed Cluster URLs"]
    assert table["rows"][0]["cells"][:2] == [name, True]
    api.ok("DELETE", f"{CLUSTERS}/{name}")


def test_a_table_of_what_was_written(api: Api, maps: str) -> None:
    table = taking(api, TABLE).ok("POST", maps, config_map("a", x="1"))
    assert table["rows"][0]["cells"][:2] == ["a", 1]


def test_a_watch_of_tables_names_the_columns_once(api: Api, maps: str) -> None:
    api.ok("POST", maps, config_map("a", x="1"))
    with taking(api, TABLE).watch(maps) as events:
        first = next(events)
        api.ok("PATCH", f"{maps}/a", {"data": {"y": "2"}}, MERGE_PATCH)
        second = next(events)
    assert (first["type"], second["type"]) == ("ADDED", "MODIFIED")
    assert len(first["object"]["columnDefinitions"]) == 3
    assert second["object"]["columnDefinitions"] is None
    assert [event["object"]["rows"][0]["cells"][1] for event in (first, second)] == [1, 2]


def test_metadata_only(api: Api, maps: str) -> None:
    created = api.ok("POST", maps, config_map("a", labels={"l": "v"}, x="1"))
    one = taking(api, PARTIAL).ok("GET", f"{maps}/a")
    assert one == {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": created["metadata"]}
    listed = taking(api, PARTIAL_LIST).ok("GET", maps)
    assert (listed["kind"], listed["items"]) == ("PartialObjectMetadataList", [one])
    with taking(api, PARTIAL).watch(maps) as events:
        assert next(events) == {"type": "ADDED", "object": one}


def test_bookmarks_have_the_form_of_their_watch(api: Api, maps: str) -> None:
    asked = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    for accept, kind in ((TABLE, "Table"), (PARTIAL, "PartialObjectMetadata"), ("*/*", "ConfigMap")):
        with taking(api, accept).watch(maps, **asked) as events:
            mark = next(events)
        assert (mark["type"], mark["object"]["kind"]) == ("BOOKMARK", kind)
        assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_yaml(api: Api, maps: str) -> None:
    text = yaml.safe_dump(config_map("a", x="yes"))
    sent = api("POST", maps, text, "application/yaml")
    assert sent.status == 201
    answer = taking(api, "application/yaml")("GET", f"{maps}/a")
    assert answer.headers["Content-Type"].startswith("application/yaml")
    assert yaml.safe_load(answer.data) == sent.json
    listed = yaml.safe_load(taking(api, "text/yaml")("GET", maps).data)
    assert listed["items"] == [sent.json]


@pytest.mark.parametrize(
    ("accept", "media"),
    [
        ("", "application/json"),
        ("*/*", "application/json"),
        ("application/*", "application/json"),
        ("text/html, application/json;q=0.5", "application/json"),
        ("application/vnd.kubernetes.protobuf, application/json", "application/json"),
        ("application/json;as=Table;v=v9;g=meta.k8s.io, application/yaml", "application/yaml"),
    ],
)
def test_the_first_form_that_can_be_served_is(api: Api, maps: str, accept: str, media: str) -> None:
    answer = taking(api, accept)("GET", maps)
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith(media)


@pytest.mark.parametrize("accept", ["text/html", "application/json;as=Table;v=v9;g=meta.k8s.io", "application/xml"])
def test_a_form_that_cannot_be_served(api: Api, maps: str, accept: str) -> None:
    answer = taking(api, accept)("GET", maps)
    assert (answer.status, answer.reason) == (406, "NotAcceptable")
    assert "application/json, application/yaml" in answer.message


def test_a_watch_is_never_yaml(api: Api, maps: str) -> None:
    answer = taking(api, "application/yaml")("GET", maps, watch="1", timeoutSeconds="1")
    assert (answer.status, answer.reason) == (406, "NotAcceptable")
    assert "application/json;stream=watch" in answer.message
    api.ok("POST", maps, config_map("a"))
    with taking(api, "application/yaml, application/json").watch(maps) as events:
        assert next(events)["type"] == "ADDED"


def test_head_is_get_without_a_body(api: Api, maps: str) -> None:
    api.ok("POST", maps, config_map("a"))
    for path in (f"{maps}/a", maps, "/version", "/healthz"):
        answer = api("HEAD", path)
        assert (answer.status, answer.data) == (200, b"")
    assert api("HEAD", f"{maps}/b").status == 404
    assert api("HEAD", maps, watch="1").data == b""


def test_answers_are_compact_and_of_the_length_that_they_say(api: Api, maps: str) -> None:
    many: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": "y" * 100_000}}
    for number in range(12):
        api.ok("POST", maps, {**many, "metadata": {"name": f"m{number}"}})
    answer = api("GET", maps)
    assert int(answer.headers["Content-Length"]) == len(answer.data) > 1_200_000
    assert len(answer.json["items"]) == 12
