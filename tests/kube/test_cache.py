"""The cache and its indexes, against what a walk over all objects would say."""

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echelon.api.core import ConfigMap
from echelon.api.keys import Key
from echelon.api.meta import ObjectMeta
from echelon.api.versions import newer
from echelon.kube.cache import Cache, key_of

KEYS = st.builds(Key, st.sampled_from("abc"), st.sampled_from(["x", "y"]))
VALUES = st.lists(st.sampled_from("pqr"), max_size=4)


def config(key: Key, values: Iterable[str] = (), version: int = 1) -> ConfigMap:
    metadata = ObjectMeta(name=key.name, namespace=key.namespace, resource_version=str(version))
    return ConfigMap(metadata=metadata, data={"values": "".join(values)})


@settings(deadline=None)
@given(st.lists(st.tuples(KEYS, st.none() | VALUES)))
def test_indexes_always_say_what_a_walk_over_all_objects_says(steps: list[tuple[Key, list[str] | None]]) -> None:
    cache: Cache[ConfigMap] = Cache({"values": lambda obj: obj.data["values"]})
    model: dict[Key, ConfigMap] = {}
    for version, (key, values) in enumerate(steps):
        if values is None:
            assert cache.remove(key, str(version)) == model.pop(key, None)
        else:
            model[key] = config(key, values, version)
            cache.put(key, model[key])
        assert cache.seen(key) == str(version)
        assert len(cache) == len(model)
        assert set(cache.keys()) == set(model)
        for namespace in ("x", "y"):
            found = {key_of(obj) for obj in cache.values(namespace)}
            assert found == {known for known in model if known.namespace == namespace}
        for value in "pqr":
            wanted = {known for known, obj in model.items() if value in obj.data["values"]}
            held = cache.by_index("values", value)
            assert {key_of(obj) for obj in held} == wanted
            assert all(model[key_of(obj)] is obj for obj in held)


def test_an_indexer_that_fails_on_an_object_leaves_it_out_and_the_rest_in(caplog: pytest.LogCaptureFixture) -> None:
    cache: Cache[ConfigMap] = Cache({"values": lambda obj: obj.data["values"], "all": lambda _: ["yes"]})
    broken = Key("x", "broken")
    cache.put(broken, ConfigMap(metadata=ObjectMeta(name="broken", namespace="x")))
    cache.put(Key("x", "fine"), config(Key("x", "fine"), "p"))
    assert [key_of(obj).name for obj in cache.by_index("values", "p")] == ["fine"]
    assert len(cache.by_index("all", "yes")) == 2
    cache.remove(broken, "9")
    assert len(cache.by_index("all", "yes")) == 1
    assert "x/broken" in caplog.text


def test_an_index_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(KeyError):
        Cache[ConfigMap]().by_index("none", "value")


def test_traces_of_the_deleted_are_bounded() -> None:
    cache: Cache[ConfigMap] = Cache()
    for number in range(10_000):
        cache.remove(Key("", f"c{number}"), str(number))
    assert cache.seen(Key("", "c0")) == ""
    assert cache.seen(Key("", "c9999")) == "9999"
    assert sum(cache.seen(Key("", f"c{number}")) != "" for number in range(10_000)) < 5_000


@pytest.mark.parametrize(
    ("version", "than", "answer"),
    [("10", "9", True), ("9", "10", False), ("9", "9", False), ("b", "a", True), ("a", "b", True), ("a", "a", False)],
)
def test_versions_compare_as_numbers_where_they_are_some(version: str, than: str, answer: bool) -> None:
    assert newer(version, than) is answer
