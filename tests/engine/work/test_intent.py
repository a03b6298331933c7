"""What was intended can be read again."""

from hypothesis import given
from hypothesis import strategies as st

from echelon.engine.work.intent import ANNOTATION, LONGEST, IntendedObject, intended, read, written

OBJECTS = st.frozensets(st.builds(IntendedObject, st.text(), st.text(), st.text(), st.text()), max_size=4)


@given(OBJECTS)
def test_what_was_written_is_read_again(objects: frozenset[IntendedObject]) -> None:
    assert read({ANNOTATION: written(objects)}) == objects


def test_a_list_that_is_too_long_is_left_out() -> None:
    assert written(IntendedObject("v1", "ConfigMap", "n", "x" * 200 + str(i)) for i in range(LONGEST // 200)) == ""
    assert read({ANNOTATION: ""}) == read({}) == frozenset()


def test_what_somebody_else_put_there_is_nothing() -> None:
    for text in ("x", "{}", "[1]", '[["a"]]', "null"):
        assert read({ANNOTATION: text}) == frozenset()


def test_manifests_name_objects() -> None:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "n"}}
    assert intended([manifest, {}, None]) == {IntendedObject("v1", "ConfigMap", "n", "x")}
