"""Watches over HTTPS: where they begin, what they say, and how they end."""

import threading
from itertools import islice
from typing import Any

import pytest

from tests.hub.api import CLUSTERS, MERGE_PATCH, Api, config_map, deployment, managed_cluster


def version(obj: dict[str, Any]) -> int:
    return int(obj["metadata"]["resourceVersion"])


def told(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


def test_a_watch_says_what_happens(api: Api, maps: str) -> None:
    start = api.ok("GET", maps)["metadata"]["resourceVersion"]
    with api.watch(maps, resourceVersion=start) as events:
        created = api.ok("POST", maps, config_map("a", x="1"))
        assert next(events) == {"type": "ADDED", "object": created}
        changed = api.ok("PATCH", f"{maps}/a", {"data": {"x": "2"}}, MERGE_PATCH)
        assert next(events) == {"type": "MODIFIED", "object": changed}
        api.ok("DELETE", f"{maps}/a")
        gone = next(events)
    assert gone["type"] == "DELETED"
    assert gone["object"]["data"] == {"x": "2"}
    assert version(gone["object"]) > version(changed) > version(created) > int(start)


def test_a_write_that_changes_nothing_is_no_event(api: Api, maps: str) -> None:
    before = api.ok("POST", maps, config_map("a", x="1"))
    assert api.ok("PATCH", f"{maps}/a", {"data": {"x": "1"}}, MERGE_PATCH) == before
    assert api.events(maps, resourceVersion=version(before)) == []


def test_a_watch_resumes_where_another_ended(api: Api, maps: str) -> None:
    versions = [version(api.ok("POST", maps, config_map(f"m{i}"))) for i in range(5)]
    for seen in range(5):
        with api.watch(maps, resourceVersion=versions[seen]) as stream:
            events = list(islice(stream, 4 - seen))
        assert told(events) == [("ADDED", f"m{i}") for i in range(seen + 1, 5)]
        assert [version(event["object"]) for event in events] == versions[seen + 1 :]


def test_a_watch_without_a_version_begins_with_what_is_there(api: Api, maps: str) -> None:
    for name in ("b", "a"):
        api.ok("POST", maps, config_map(name))
    for start in ({}, {"resourceVersion": "0"}):
        with api.watch(maps, **start) as events:
            assert told(list(islice(events, 2))) == [("ADDED", "a"), ("ADDED", "b")]


def test_other_namespaces_and_kinds_are_not_heard(api: Api, maps: str) -> None:
    start = version(api.ok("POST", maps, config_map("a")))
    api.ok("POST", "/api/v1/namespaces/default/configmaps", config_map(f"elsewhere-{start}"))
    api.ok("DELETE", f"/api/v1/namespaces/default/configmaps/elsewhere-{start}")
    assert api.events(maps, resourceVersion=start) == []
    every = [e for e in api.events("/api/v1/configmaps", resourceVersion=start) if f"{start}" in str(e)]
    assert told(every) == [("ADDED", f"elsewhere-{start}"), ("DELETED", f"elsewhere-{start}")]


def test_bookmarks_come_when_they_are_asked_for(api: Api, maps: str) -> None:
    start = version(api.ok("POST", maps, config_map("a")))
    assert api.events(maps, resourceVersion=start) == []
    (mark,) = api.events(maps, resourceVersion=start, allowWatchBookmarks="true", sendInitialEvents="true",
                         resourceVersionMatch="NotOlderThan")[1:2]  # fmt: skip
    assert mark["type"] == "BOOKMARK"
    assert mark["object"]["kind"] == "ConfigMap"
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert version(mark["object"]) >= start
    assert api.events(maps, resourceVersion=version(mark["object"])) == []


def test_a_watch_that_ends_says_how_far_it_was(api: Api, maps: str) -> None:
    start = version(api.ok("POST", maps, config_map("a")))
    api.ok("POST", maps, config_map("b"))
    first, *others, mark = api.events(maps, resourceVersion=start, allowWatchBookmarks="true")
    assert told([first]) == [("ADDED", "b")]
    assert {event["type"] for event in (*others, mark)} == {"BOOKMARK"}
    assert version(mark["object"]) >= version(first["object"])


def test_initial_events_end_with_a_bookmark_and_changes_follow(api: Api, maps: str) -> None:
    for name in ("b", "a"):
        api.ok("POST", maps, config_map(name))
    asked = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    with api.watch(maps, **asked) as events:
        assert told([next(events), next(events)]) == [("ADDED", "a"), ("ADDED", "b")]
        mark = next(events)
        assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        created = api.ok("POST", maps, config_map("c"))
        assert next(events) == {"type": "ADDED", "object": created}
    assert version(created) > version(mark["object"])


def test_without_initial_events_a_watch_begins_now(api: Api, maps: str) -> None:
    api.ok("POST", maps, config_map("a"))
    asked = {"sendInitialEvents": "false", "resourceVersionMatch": "NotOlderThan"}
    with api.watch(maps, **asked) as events:
        api.ok("POST", maps, config_map("b"))
        assert told([next(events)]) == [("ADDED", "b")]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"sendInitialEvents": "true"}, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
        ({"sendInitialEvents": "false"}, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
        ({"resourceVersionMatch": "NotOlderThan"}, "forbidden for watch unless sendInitialEvents is provided"),
        ({"sendInitialEvents": "true", "resourceVersionMatch": "Exact"}, 'supported values: "NotOlderThan"'),
        ({"continue": "x"}, "resourceVersionMatch is forbidden when continue is provided"),
    ],
)
def test_options_of_a_watch_that_contradict_each_other(api: Api, maps: str, query: dict[str, str], said: str) -> None:
    answer = api("GET", maps, watch="true", **query)
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert said in answer.message
    assert set(answer.fields) == {"resourceVersionMatch"}


@pytest.mark.parametrize(
    "query",
    [{"labelSelector": "a b"}, {"fieldSelector": "a"}, {"resourceVersion": "x"}, {"timeoutSeconds": "x"}],
)
def test_what_cannot_be_understood_is_an_answer_and_not_an_event(api: Api, maps: str, query: dict[str, str]) -> None:
    answer = api("GET", maps, watch="true", **query)
    assert (answer.status, answer.reason) == (400, "BadRequest")


def test_a_version_that_is_not_there_yet_is_an_error_event(api: Api, maps: str) -> None:
    with api.watch(maps, resourceVersion=10**9, timeoutSeconds=20) as events:
        (event,) = list(events)
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (504, "Timeout")
    assert event["object"]["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


def test_the_server_ends_a_watch_after_its_time(api: Api, maps: str) -> None:
    with api.watch(maps, timeoutSeconds=1) as events:
        assert list(events) == []


@pytest.mark.parametrize("value", ["true", "1", "", "yes"])
def test_the_ways_to_ask_for_a_watch(api: Api, maps: str, value: str) -> None:
    api.ok("POST", maps, config_map("a"))
    with api.watch(maps, watch=value) as events:
        assert told([next(events)]) == [("ADDED", "a")]


@pytest.mark.parametrize("value", ["false", "0"])
def test_the_ways_not_to_ask_for_a_watch(api: Api, maps: str, value: str) -> None:
    assert api.ok("GET", maps, watch=value)["kind"] == "ConfigMapList"


# --- selectors -------------------------------------------------------------------------------------------------------


def test_an_object_comes_and_goes_with_its_labels(api: Api, maps: str) -> None:
    first = api.ok("POST", maps, config_map("a", x="1"))
    with api.watch(maps, labelSelector="on=yes", resourceVersion=version(first)) as events:
        steps: list[dict[str, Any]] = [
            {"metadata": {"labels": {"on": "yes"}}},
            {"data": {"x": "2"}},
            {"metadata": {"labels": {"on": "no"}}},
            {"data": {"x": "3"}},
            {"metadata": {"labels": {"on": "yes"}}},
        ]
        states = [api.ok("PATCH", f"{maps}/a", step, MERGE_PATCH) for step in steps]
        api.ok("DELETE", f"{maps}/a")
        seen = [next(events) for _ in range(5)]
    assert [event["type"] for event in seen] == ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]
    assert seen[0]["object"] == states[0]
    assert seen[1]["object"] == states[1]
    # What ceased to match is shown as it last matched, at the version of the change.
    assert seen[2]["object"]["metadata"]["labels"] == {"on": "yes"}
    assert version(seen[2]["object"]) == version(states[2])
    assert seen[3]["object"] == states[4]


def test_a_watch_of_one_name(api: Api, maps: str) -> None:
    start = version(api.ok("POST", maps, config_map("other")))
    with api.watch(maps, fieldSelector="metadata.name=mine", resourceVersion=start) as events:
        api.ok("PATCH", f"{maps}/other", {"data": {"x": "2"}}, MERGE_PATCH)
        api.ok("POST", maps, config_map("mine"))
        assert told([next(events)]) == [("ADDED", "mine")]


def test_an_object_comes_and_goes_with_a_field(api: Api, maps: str) -> None:
    pods = maps.replace("configmaps", "pods")
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": deployment("d")["spec"]["template"]["spec"],
    }
    start = version(api.ok("POST", pods, body))
    with api.watch(pods, fieldSelector="status.phase=Running", resourceVersion=start) as events:
        for phase in ("Running", "Failed"):
            api.ok("PATCH", f"{pods}/p/status", {"status": {"phase": phase}}, MERGE_PATCH)
        seen = [next(events), next(events)]
    phases = [(event["type"], event["object"]["status"]["phase"]) for event in seen]
    assert phases == [("ADDED", "Running"), ("DELETED", "Running")]


def test_custom_resources_are_watched_alike(api: Api, maps: str) -> None:
    name = maps.split("/")[4]
    start = api.ok("GET", CLUSTERS, limit=1)["metadata"]["resourceVersion"]
    with api.watch(CLUSTERS, labelSelector=f"test={name}", resourceVersion=start) as events:
        created = api.ok("POST", CLUSTERS, managed_cluster(name, labels={"test": name}))
        assert next(events) == {"type": "ADDED", "object": created}
        api.ok("PATCH", f"{CLUSTERS}/{name}/status", {"status": {"version": {"kubernetes": "1"}}}, MERGE_PATCH)
        assert next(events)["object"]["status"] == {"version": {"kubernetes": "1"}}
        api.ok("DELETE", f"{CLUSTERS}/{name}")
        assert next(events)["type"] == "DELETED"


def test_many_watches_see_the_same_in_the_same_order(api: Api, maps: str) -> None:
    start = api.ok("GET", maps)["metadata"]["resourceVersion"]
    seen: list[list[dict[str, Any]]] = [[] for _ in range(6)]
    begun = threading.Barrier(len(seen) + 1)

    def follow(events: list[dict[str, Any]]) -> None:
        with api.watch(maps, resourceVersion=start) as stream:
            begun.wait()
            for event in stream:
                events.append(event)
                if event["type"] == "DELETED":
                    return

    threads = [threading.Thread(target=follow, args=(events,)) for events in seen]
    for thread in threads:
        thread.start()
    begun.wait()
    for number in range(20):
        api.ok("POST", maps, config_map(f"m{number}"))
    api.ok("DELETE", f"{maps}/m0")
    for thread in threads:
        thread.join(timeout=30)
    assert len(seen[0]) == 21
    assert all(events == seen[0] for events in seen)
    versions = [version(event["object"]) for event in seen[0]]
    assert versions == sorted(set(versions))
