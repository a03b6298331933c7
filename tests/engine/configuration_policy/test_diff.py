"""How changes are shown to people."""

from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.core import CONFIG_MAP, SECRET
from echelon.engine.configuration_policy.comparison import LAST_APPLIED
from echelon.engine.configuration_policy.diff import MOST_BYTES, MOST_LINES, _lines, diff
from tests.engine.configuration_policy.values import MAPS


def shown(before: dict[str, Any] | None, after: dict[str, Any] | None) -> list[str]:
    bodies = [None if data is None else {"metadata": {"name": "x"}, "data": data} for data in (before, after)]
    return diff(CONFIG_MAP, *bodies).splitlines()


def test_a_change_is_shown_with_what_is_around_it() -> None:
    assert shown({"a": "1", "b": "2"}, {"a": "1", "b": "3"}) == [
        "@@ -1,7 +1,7 @@",
        " apiVersion: v1",
        " data:",
        '   a: "1"',
        '-  b: "2"',
        '+  b: "3"',
        " kind: ConfigMap",
        " metadata:",
        "   name: x",
    ]


def test_a_new_object_and_one_that_goes_are_shown_as_a_whole() -> None:
    assert all(line[0] in "@+" for line in shown(None, {"a": "1"}))
    assert all(line[0] in "@-" for line in shown({"a": "1"}, None))


def test_lines_are_counted_from_the_beginning_of_the_object() -> None:
    long = {f"k{number:04}": "v" for number in range(1000)}
    assert shown(long, {**long, "k0500": "w"})[0] == "@@ -500,7 +500,7 @@"


def test_texts_of_several_lines_are_shown_line_by_line() -> None:
    assert "-    old" in shown({"a": "same\nold\n"}, {"a": "same\nnew\n"})


def test_what_only_a_server_cares_for_is_no_change() -> None:
    def obj(number: int) -> dict[str, Any]:
        metadata: dict[str, Any] = {
            "name": "x",
            "resourceVersion": str(number),
            "managedFields": [number],
            "uid": str(number),
        }
        metadata["annotations"] = {LAST_APPLIED: str(number)}
        return {"metadata": metadata, "status": {"phase": str(number)}}

    assert diff(CONFIG_MAP, obj(1), {**CONFIG_MAP.type_meta, **obj(2)}) == ""


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=200), max_size=100), st.integers(0, 3))
def test_a_diff_is_short(data: dict[str, str], lines: int) -> None:
    text = diff(CONFIG_MAP, None, {"metadata": {}, "data": {key: value + "\nx" * lines for key, value in data.items()}})
    assert len(text.encode()) <= MOST_BYTES
    assert len(text.split("\n")) <= MOST_LINES


def test_what_is_cut_off_is_counted() -> None:
    lines = shown(None, {f"k{number}": "v" for number in range(100)})
    assert len(lines) == MOST_LINES
    assert lines[-1] == "... 57 more lines"
    assert shown(None, {"a": "x" * 5000})[-1].endswith("more lines")


@given(
    st.dictionaries(st.sampled_from("abc"), st.text("ghijk", min_size=5)),
    st.dictionaries(st.sampled_from("abc"), st.text("ghijk", min_size=5)),
)
def test_what_is_in_a_secret_is_never_shown(before: dict[str, str], after: dict[str, str]) -> None:
    # Servers leave the kind out of what they list.
    old = {"metadata": {"annotations": {LAST_APPLIED: str(before)}}, "data": before, "stringData": before}
    new = {**SECRET.type_meta, "metadata": {"name": "s"}, "data": after}
    text = diff(SECRET, old, new)
    for value in {*before.values(), *after.values()}:
        assert value not in text
    for key in before.keys() & after.keys():
        assert (f'+  {key}: "<hidden, changed>"' in text) is (before[key] != after[key])


@given(MAPS)
def test_objects_are_written_as_yaml(value: dict[str, Any]) -> None:
    written = yaml.safe_load("\n".join(_lines(value)))
    assert (written or {}) == value
