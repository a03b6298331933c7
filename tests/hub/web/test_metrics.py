"""A hub counts what it is asked for, and whoever asks for nonsense does not make it grow."""

import time
from collections.abc import Callable

from prometheus_client.parser import text_string_to_metric_families

from tests.hub.api import Api, config_map

PATIENCE_SECONDS = 60.0
Samples = dict[tuple[str, tuple[str, ...]], float]


def samples(api: Api) -> Samples:
    """Return all values, by name and the values of labels."""
    families = text_string_to_metric_families(api("GET", "/metrics").data.decode())
    found = [each for family in families for each in family.samples if "le" not in each.labels]
    return {(each.name, tuple(value for _, value in sorted(each.labels.items()))): each.value for each in found}


def wait(asked: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not asked():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_requests_are_counted_by_verb_resource_and_code_and_measured(api: Api, maps: str) -> None:
    created = ("apiserver_request_total", ("201", "", "configmaps", "", "create"))
    took = ("apiserver_request_duration_seconds_count", ("", "configmaps", "", "create"))
    before = samples(api)
    api.ok("POST", maps, config_map("counted"))
    after = samples(api)
    assert after[created] >= before.get(created, 0) + 1
    assert after[took] >= before.get(took, 0) + 1


def test_what_does_not_exist_is_counted_without_its_name(api: Api) -> None:
    for number in range(3):
        assert api("GET", f"/apis/made-up-{number}.example/v1/things").status == 404
        assert api("GET", f"/api/v1/namespaces/default/configmaps/a/made-up-{number}").status == 404
        assert api("GET", f"/made-up-{number}").status == 404
    found = samples(api)
    assert not [key for key in found if any("made-up" in label for label in key[1])]
    assert found["apiserver_request_total", ("404", "", "", "", "list")] >= 3


def test_open_watches_are_counted_until_they_end(api: Api, maps: str) -> None:
    key = ("apiserver_longrunning_requests", ())
    api.ok("POST", maps, config_map("watched"))
    before = samples(api)[key]
    with api.watch(maps) as events:
        next(iter(events))
        assert samples(api)[key] > before
    wait(lambda: samples(api)[key] <= before)


def test_storage_and_process_are_measured(api: Api, maps: str) -> None:
    objects = ("echelon_hub_storage_objects", ())
    before = samples(api)
    api.ok("POST", maps, config_map("stored"))
    after = samples(api)
    assert after[objects] > before[objects]
    for name in ("echelon_hub_storage_revisions", "process_resident_memory_bytes"):
        assert after[name, ()] > 0
    assert ("echelon_hub_storage_compacted_revisions_total", ()) in after
    assert ("echelon_hub_storage_size_bytes", ()) in after
