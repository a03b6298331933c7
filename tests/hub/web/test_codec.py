import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from echelon.hub.web import codec
from echelon.kube.errors import BadRequest, TooLarge, UnsupportedMediaType

YAML = "application/yaml"

TEXT = st.text(st.characters(exclude_categories=["Cs"], max_codepoint=0xFFFD), max_size=8)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(TEXT, VALUES, max_size=4)


def refused(data: bytes, content_type: str = "application/json", kind: str = "") -> str:
    with pytest.raises(BadRequest) as error:
        codec.decode_body(data, content_type, kind)
    return str(error.value)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "unexpected end of JSON input"),
        (b"  \n", "unexpected end of JSON input"),
        (b'{"a":', "unexpected end of JSON input"),
        (b'{"a":1} x', "invalid character 'x' after top-level value"),
        (b'{"a":NaN}', "invalid character 'N' looking for beginning of value"),
        (b"{a:1}", "invalid character 'a' looking for beginning of object key string"),
        (b'{"a":1,}', "invalid character '}' looking for beginning of object key string"),
        (b'{"a":"\xff"}', "invalid UTF-8 in string"),
        (b"[" * 20000, "invalid character '[' exceeded max depth"),
        (b'{"a":' * 2000 + b"1" + b"}" * 2000, "invalid character '{' exceeded max depth"),
        (b'{"a":' + b"9" * 400 + b"}", "a number is out of range"),
    ],
)
def test_broken_json_is_refused_with_the_reason(data: bytes, why: str) -> None:
    assert refused(data) == f"couldn't get version/kind; json parse error: {why}"


def test_an_error_names_the_kind_and_shows_the_body() -> None:
    text = "the object provided is unrecognized (must be of type Pod): couldn't get version/kind; json parse error: "
    assert refused(b"{", kind="Pod") == f"{text}unexpected end of JSON input ({{)"
    assert refused(b"", kind="Pod") == f"{text}unexpected end of JSON input (<empty>)"
    assert refused(b"[" * 200, kind="Pod").endswith(f"({'5b' * 30} ...)")


@pytest.mark.parametrize(("data", "what"), [(b"[1]", "array"), (b'"x"', "string"), (b"5", "number"), (b"true", "bool")])
def test_a_body_is_an_object(data: bytes, what: str) -> None:
    assert f"json: cannot unmarshal {what} into Go value of type struct" in refused(data)
    assert f"json: cannot unmarshal {what} into Go value of type struct" in refused(data, YAML)
    assert refused(b"null") == "Object 'Kind' is missing in 'null'"


def test_a_json_patch_is_a_list() -> None:
    assert codec.decode_body(b'[{"op":"remove"}]', "application/json-patch+json; charset=utf-8") == [{"op": "remove"}]


def test_numbers_beyond_64_bits_become_floats() -> None:
    data = b'{"a":9223372036854775807,"b":9223372036854775808,"c":[-9223372036854775809]}'
    decoded: Any = codec.decode_body(data)
    assert decoded == {"a": 2**63 - 1, "b": float(2**63), "c": [float(-(2**63) - 1)]}
    assert [type(decoded[key]) for key in "ab"] == [int, float]
    assert codec.decode_body(data, YAML) == decoded


def test_nesting_is_counted_outside_of_strings_only() -> None:
    brackets = {"a": "[" * 500 + '\\"' + "{" * 500, "b": [[]]}
    assert codec.decode_body(json.dumps(brackets).encode()) == brackets
    deep = b'{"a":' * 100 + b"1" + b"}" * 100
    assert isinstance(codec.decode_body(deep), dict)
    assert isinstance(codec.decode_body(b'{"a":' * 99 + b"1" + b"}" * 99, YAML), dict)


def test_large_bodies_are_refused() -> None:
    with pytest.raises(TooLarge, match=r"^Request entity too large: limit is 3145728$"):
        codec.decode_body(b" " * (3 * 1024 * 1024 + 1))


@pytest.mark.parametrize("media", ["application/cbor", "text/plain"])
def test_other_formats_are_not_read(media: str) -> None:
    text = (
        "the body of the request was in an unknown format - "
        "accepted media types include: application/json, application/yaml"
    )
    with pytest.raises(UnsupportedMediaType) as error:
        codec.decode_body(b"{}", media)
    assert str(error.value) == text


def test_yaml_scalars_are_what_kubernetes_makes_of_them() -> None:
    text = b"""
date: 2020-01-01
time: 2020-01-01T00:00:00Z
clock: 12:30:45
yes: on
octal: 010
new: 0o10
hex: 0x10
big: 1_000
exp: 1e3
none: ~
empty:
quoted: "5"
tagged: !!str 5
5: x
1.5: y
"""
    assert codec.decode_body(text, YAML) == {
        "date": "2020-01-01",
        "time": "2020-01-01T00:00:00Z",
        "clock": "12:30:45",
        "true": True,
        "octal": 8,
        "new": 8,
        "hex": 16,
        "big": 1000,
        "exp": 1000.0,
        "none": None,
        "empty": None,
        "quoted": "5",
        "tagged": "5",
        "5": "x",
        "1.5": "y",
    }


def test_flow_style_is_yaml_even_if_it_begins_like_json() -> None:
    assert codec.decode_body(b"{a: 1, 'b': [on]}", YAML) == {"a": 1, "b": [True]}
    assert codec.read(b"{a: 1, a: 2}", YAML).repeated == ["a"]


def test_aliases_and_merges_expand_into_separate_copies() -> None:
    decoded: Any = codec.decode_body(b"a: &x {b: [1]}\nc: *x\nd:\n  <<: *x\n  e: 2\n", YAML)
    assert decoded == {"a": {"b": [1]}, "c": {"b": [1]}, "d": {"b": [1], "e": 2}}
    assert decoded["a"]["b"] is not decoded["c"]["b"]


def _laughs(levels: int) -> bytes:
    lines = [b"a: &a [x, x, x, x, x, x, x, x, x, x]"]
    for code in range(97, 97 + levels):
        above, here = chr(code).encode(), chr(code + 1).encode()
        lines.append(here + b": &" + here + b" [" + b", ".join([b"*" + above] * 10) + b"]")
    return b"\n".join(lines)


def _chain() -> bytes:
    """Anchors that each nest the one before: shallow in the text, deep when expanded."""
    return b"k0: &k0 [x]\n" + b"".join(b"k%d: &k%d [[*k%d]]\n" % (i, i, i - 1) for i in range(1, 2000))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (_laughs(8), "yaml: document contains excessive aliasing"),
        (b"a: &a [*a]", "yaml: line 1: unknown anchor 'a' referenced, or one that contains itself"),
        (b"a: !!python/object/apply:os.system [ls]", "unknown tag tag:yaml.org,2002:python/object/apply:os.system"),
        (b"a: !!python/name:os.system", "unknown tag tag:yaml.org,2002:python/name:os.system"),
        (b"a: !foo x", "yaml: line 1: unknown tag !foo"),
        (b"[" * 100_000, "exceeded max depth of 100"),
        (b"- " * 50_000, "exceeded max depth of 100"),
        (b"? " * 50_000, "exceeded max depth of 100"),
        (b"\n".join(b" " * i + b"a:" for i in range(1500)), "exceeded max depth of 100"),
        (_chain(), "exceeded max depth of 100"),
        (b"a: .nan", "json: unsupported value: .nan"),
        (b"a: -.inf", "json: unsupported value: -.inf"),
        (b"a: 1e999", "json: unsupported value"),
        (b"a: 1\n---\nb: 2", "found another document"),
        (b"\xff\xfe\xfd", "yaml: invalid UTF-8"),
        (b"? [1]\n: 2", "invalid map key"),
        (b"a: [", "did not find expected node content"),
        (b"", "Object 'Kind' is missing in ''"),
    ],
)
def test_hostile_or_broken_yaml_is_refused_with_the_reason(data: bytes, why: str) -> None:
    assert why in refused(data, YAML)


def test_repeated_keys_are_found_with_their_paths_when_asked() -> None:
    data = b'{"a":1,"b":{"c":1,"c":2},"a":[{"x":1},{"x":1,"x":2,"x":3}]}'
    assert codec.read(data).repeated == ["b.c", "a", "a[1].x"]
    assert codec.decode_body(data) == {"a": [{"x": 1}, {"x": 3}], "b": {"c": 2}}
    text = b"a: 1\nb:\n  c: 1\n  c: 2\na:\n- x: 1\n- {x: 1, x: 2}\n"
    assert codec.read(text, YAML).repeated == ["b.c", "a", "a[1].x"]
    assert not codec.read(b'{"a":{"b":1},"c":{"b":1}}').repeated


@given(OBJECTS)
def test_what_is_encoded_decodes_to_the_same(obj: dict[str, Any]) -> None:
    assert codec.decode_body(codec.encode(obj)) == obj


@given(OBJECTS)
def test_json_means_the_same_when_read_as_yaml(obj: dict[str, Any]) -> None:
    data = json.dumps(obj).encode()
    assert codec.decode_body(data, YAML) == codec.decode_body(data)
    assert codec.decode_body(b"# a comment, so that it cannot be read as JSON\n" + data, YAML) == obj


def test_json_with_surrogate_pairs_is_read_under_the_name_of_yaml_too() -> None:
    assert codec.decode_body(b'{"a":"\\ud83d\\ude00"}', "application/apply-patch+yaml") == {"a": "\U0001f600"}


@given(OBJECTS)
def test_what_a_yaml_library_writes_is_read_back(obj: dict[str, Any]) -> None:
    data = yaml.safe_dump(obj, default_style='"').encode()
    assert codec.decode_body(data, YAML) == obj


@given(st.binary(max_size=60) | st.text("{}[]\":,-? \n&*a!1<.'#|>", max_size=40).map(str.encode))
def test_any_bytes_decode_or_are_a_bad_request(data: bytes) -> None:
    for media in ("application/json", YAML):
        try:
            value = codec.decode_body(data, media)
        except BadRequest:
            continue
        codec.encode(value)
        codec.read(data, media)
