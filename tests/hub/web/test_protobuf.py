"""Protobuf as real clients send it, as an enemy would, and as a small encoder writes all that is between."""

import base64
import contextlib
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api import registry
from echelon.hub.web import codec, protobuf
from echelon.kube.errors import BadRequest, UnsupportedMediaType
from tests.hub.web.kubectl_bodies import SENT


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def put(number: int, value: bytes | str | float) -> bytes:
    """Encode one field; the type of the value is its wire type."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def body(api_version: str, kind: str, raw: bytes) -> bytes:
    return protobuf.MAGIC + put(1, put(1, api_version) + put(2, kind)) + put(2, raw) + put(3, "") + put(4, "")


def read(api_version: str, kind: str, raw: bytes) -> dict[str, Any]:
    decoded = codec.decode_body(body(api_version, kind, raw), protobuf.MEDIA_TYPE)
    assert isinstance(decoded, dict)
    return decoded


def refused(data: bytes) -> str:
    with pytest.raises(BadRequest) as error:
        codec.decode_body(data, protobuf.MEDIA_TYPE)
    return str(error.value)


def pod_spec(raw: bytes) -> dict[str, Any]:
    spec: dict[str, Any] = read("v1", "Pod", put(2, raw))["spec"]
    return spec


def schema(raw: bytes) -> Any:
    crd = read("apiextensions.k8s.io/v1", "CustomResourceDefinition", put(2, put(7, put(4, put(1, raw)))))
    return crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


@pytest.mark.parametrize("command", SENT)
def test_what_kubectl_sends_is_what_it_prints(command: str) -> None:
    sent, printed = SENT[command]
    assert codec.decode_body(base64.b64decode(sent), protobuf.MEDIA_TYPE) == printed


def test_a_body_repeats_no_keys() -> None:
    sent, _ = SENT["create namespace made"]
    assert not codec.read(base64.b64decode(sent), protobuf.MEDIA_TYPE).repeated


def test_every_built_in_kind_is_read() -> None:
    for kind in registry.registry().kinds:
        if kind.builtin:
            version = f"{kind.group}/{kind.version}" if kind.group else kind.version
            assert read(version, kind.kind, b"") == {"apiVersion": version, "kind": kind.kind}


def test_custom_resources_are_not_read() -> None:
    text = (
        "the body of the request was in an unknown format - "
        "accepted media types include: application/json, application/yaml"
    )
    with pytest.raises(UnsupportedMediaType) as error:
        read("example.com/v1", "Pod", b"")
    assert str(error.value) == text


def test_delete_options_belong_to_every_group() -> None:
    options = {"gracePeriodSeconds": 0, "propagationPolicy": "Orphan", "preconditions": {"uid": "u"}}
    raw = put(1, 0) + put(2, put(1, "u")) + put(4, "Orphan")
    for version in ("v1", "apps/v1", "meta.k8s.io/v1", "example.com/v1"):
        assert read(version, "DeleteOptions", raw) == {"apiVersion": version, "kind": "DeleteOptions", **options}


def test_zero_is_kept_where_it_can_be_told_from_nothing() -> None:
    # In a Deployment `replicas` is a pointer, `minReadySeconds` and `paused` are values.
    raw = put(1, 0) + put(5, 0) + put(7, 0)
    assert read("apps/v1", "Deployment", put(2, raw))["spec"] == {"replicas": 0}
    # A value without `omitempty` is printed whatever it is.
    assert pod_spec(put(2, put(1, "") + put(2, "")))["containers"] == [{"name": ""}]
    # An explicit empty string means "no class", nothing means "the default class".
    assert read("v1", "PersistentVolumeClaim", put(2, put(5, "")))["spec"] == {"storageClassName": ""}


def test_a_number_has_the_bits_of_its_type() -> None:
    assert pod_spec(put(25, 2**32 + 5)) == {"priority": 5}
    assert pod_spec(put(25, 2**32 - 1)) == {"priority": -1}
    assert pod_spec(put(5, 2**32 - 1)) == {"activeDeadlineSeconds": 2**32 - 1}


def test_the_last_value_of_a_field_counts() -> None:
    assert pod_spec(put(10, "one") + put(10, "two")) == {"nodeName": "two"}
    assert pod_spec(put(10, "one") + put(10, "")) == {}


def test_parts_that_go_inlines_have_no_name_of_their_own() -> None:
    volume = put(1, "data") + put(2, put(19, put(1, put(1, "settings"))))
    assert pod_spec(put(1, volume)) == {"volumes": [{"name": "data", "configMap": {"name": "settings"}}]}
    probe = put(1, put(2, put(1, "/ready") + put(2, put(1, 0) + put(2, 8080)))) + put(4, 5)
    container = pod_spec(put(2, put(11, probe)))["containers"][0]
    assert container == {"readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 5}}


def test_times_are_text() -> None:
    moment = put(1, 1700000000) + put(2, 123456789)
    lease = read("coordination.k8s.io/v1", "Lease", put(1, put(8, moment)) + put(2, put(3, moment) + put(4, b"")))
    assert lease["metadata"] == {"creationTimestamp": "2023-11-14T22:13:20Z"}
    assert lease["spec"] == {"acquireTime": "2023-11-14T22:13:20.123456Z"}
    epoch = read("v1", "Pod", put(1, put(8, put(1, 0))))
    assert epoch["metadata"] == {"creationTimestamp": "1970-01-01T00:00:00Z"}
    early = read("v1", "Pod", put(1, put(8, put(1, -62135596799))))
    assert early["metadata"] == {"creationTimestamp": "0001-01-01T00:00:01Z"}


@pytest.mark.parametrize("seconds", [2**62, -(2**62), 253402300800, 2**63])
def test_a_time_that_no_calendar_has_is_refused(seconds: int) -> None:
    assert refused(body("v1", "Pod", put(1, put(8, put(1, seconds))))).startswith("proto: ")


def test_quantities_and_extra_values_are_plain() -> None:
    limits = put(1, put(1, "cpu") + put(2, put(1, "500m"))) + put(1, put(1, "none"))
    container = pod_spec(put(2, put(8, limits)))["containers"][0]
    assert container["resources"] == {"limits": {"cpu": "500m", "none": "0"}}
    extra = put(5, put(1, "scopes") + put(2, put(1, "a") + put(1, "b"))) + put(5, put(1, "nothing"))
    review = read("authorization.k8s.io/v1", "SubjectAccessReview", put(2, extra))
    assert review["spec"] == {"extra": {"scopes": ["a", "b"], "nothing": []}}


def test_embedded_json_is_json() -> None:
    raw = put(2, put(1, '{"spec": [1, null]}')) + put(3, 7)
    revision = read("apps/v1", "ControllerRevision", raw)
    assert (revision["data"], revision["revision"]) == ({"spec": [1, None]}, 7)
    entry = put(17, put(1, "kubectl") + put(7, put(1, '{"f:data":{}}')))
    assert read("v1", "ConfigMap", put(1, entry))["metadata"]["managedFields"] == [
        {"manager": "kubectl", "fieldsV1": {"f:data": {}}}
    ]
    for nothing in (b"", put(1, b""), put(1, "null")):
        assert "data" not in read("apps/v1", "ControllerRevision", put(2, nothing))
    for broken in ("{", "[" * 1000, b"\xff"):
        assert refused(body("apps/v1", "ControllerRevision", put(2, put(1, broken)))).startswith("proto: ")


def test_schemas_take_the_forms_that_json_has() -> None:
    assert schema(put(9, 10.0) + put(11, 0.5) + put(8, put(1, "{}"))) == {"maximum": 10, "minimum": 0.5, "default": {}}
    assert json.dumps(schema(put(9, 10.0))) == '{"maximum": 10}'
    assert schema(put(30, put(1, 1))) == {"additionalProperties": True}
    assert schema(put(30, put(1, 0))) == {"additionalProperties": False}
    assert schema(put(30, put(1, 1) + put(2, put(5, "string")))) == {"additionalProperties": {"type": "string"}}
    assert schema(put(24, put(1, put(5, "string")))) == {"items": {"type": "string"}}
    assert schema(put(24, put(2, put(5, "string")) + put(2, b""))) == {"items": [{"type": "string"}, {}]}
    assert schema(put(32, put(1, "a") + put(2, put(2, "b")))) == {"dependencies": {"a": ["b"]}}
    assert schema(put(29, put(1, "a") + put(2, put(5, "string")))) == {"properties": {"a": {"type": "string"}}}
    assert schema(put(4, "") + put(38, 1)) == {"x-kubernetes-preserve-unknown-fields": True}


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan")])
def test_a_number_that_json_cannot_write_is_refused(number: float) -> None:
    raw = put(2, put(7, put(4, put(1, put(9, number)))))
    assert "unsupported value" in refused(body("apiextensions.k8s.io/v1", "CustomResourceDefinition", raw))


def test_fields_of_a_newer_kubernetes_are_passed_over() -> None:
    newer = put(5000, "x") + put(5001, 1) + put(5002, 1.5) + varint(5003 << 3 | 5) + b"\0\0\0\0" + put(10, "node")
    assert pod_spec(newer) == {"nodeName": "node"}


INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)


@given(revision=INT64, priority=INT32, host=st.booleans(), name=TEXT, groups=st.lists(INT64, max_size=20))
def test_scalars_come_out_as_they_went_in(
    revision: int, priority: int, host: bool, name: str, groups: list[int]
) -> None:
    assert read("apps/v1", "ControllerRevision", put(3, revision))["revision"] == revision
    container = put(2, put(1, name))
    one_by_one = b"".join(put(4, group) for group in groups)
    packed = put(4, b"".join(varint(group) for group in groups))
    for supplemental in (one_by_one, packed):
        spec = pod_spec(container + put(25, priority) + put(37, host) + put(14, supplemental))
        assert spec["containers"] == [{"name": name}]
        assert spec["priority"] == priority
        assert spec["hostUsers"] is host
        assert spec["securityContext"].get("supplementalGroups", []) == groups


@given(
    data=st.dictionaries(TEXT, TEXT, max_size=5),
    binary=st.dictionaries(TEXT, st.binary(max_size=300), max_size=5),
    number=st.floats(allow_nan=False, allow_infinity=False),
)
def test_maps_bytes_and_floats_come_out_as_they_went_in(
    data: dict[str, str], binary: dict[str, bytes], number: float
) -> None:
    raw = b"".join(put(2, put(1, key) + put(2, text)) for key, text in data.items())
    raw += b"".join(put(3, put(2, octets) + put(1, key)) for key, octets in binary.items())
    config = read("v1", "ConfigMap", raw)
    assert config.get("data", {}) == data
    assert {key: base64.b64decode(text) for key, text in config.get("binaryData", {}).items()} == binary
    assert json.loads(json.dumps(schema(put(9, number))["maximum"])) == number


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"),
        (b'{"kind":"Pod"}', "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"),
        (protobuf.MAGIC, "proto: Object 'Kind' is missing in a protobuf message"),
        (body("", "Pod", b""), "proto: Object 'apiVersion' is missing in a protobuf message"),
        (protobuf.MAGIC + put(1, 5), "proto: Object 'Kind' is missing in a protobuf message"),
        (body("v1", "Pod", put(2, "abc")[:-1]), "proto: unexpected EOF"),
        (body("v1", "Pod", b"\x12\xff"), "proto: unexpected EOF"),
        (body("v1", "Pod", b"\x08" + b"\xff" * 10), "proto: integer overflow"),
        (body("v1", "Pod", b"\x08" + b"\xff" * 9 + b"\x7f"), "proto: integer overflow"),
        (body("v1", "Pod", b"\x13\x14"), "proto: illegal wireType 3"),
        (body("v1", "Pod", b"\x02\x00"), "proto: illegal tag 0 (wire type 2)"),
        (body("v1", "Pod", put(2, 5)), "proto: wrong wireType = 0 for field spec"),
        (body("v1", "Pod", put(1, put(11, 5))), "proto: wrong wireType = 0 for field labels"),
        (body("v1", "Pod", put(2, put(1, put(2, 5)))), "proto: wrong wireType = 0 for field "),
        (body("v1", "Pod", put(2, put(4, 5.0))), "proto: wrong wireType = 1 for field terminationGracePeriodSeconds"),
        (body("v1", "Pod", put(1, put(1, b"\xff"))), "proto: string field contains invalid UTF-8"),
        (body("v1", "Pod", put(1, put(11, put(1, b"\xff")))), "proto: string field contains invalid UTF-8"),
    ],
)
def test_what_is_not_the_message_is_refused_with_the_reason(data: bytes, why: str) -> None:
    assert refused(data) == why


def test_nesting_is_bounded() -> None:
    def nested(levels: int) -> bytes:
        raw = b""
        for _ in range(levels):
            raw = put(28, raw)  # `not` of a schema
        return raw

    assert schema(nested(80))
    crd = put(2, put(7, put(4, put(1, nested(20_000)))))
    assert refused(body("apiextensions.k8s.io/v1", "CustomResourceDefinition", crd)) == "proto: exceeded max depth"


def test_the_number_of_values_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protobuf, "MAX_VALUES", 1000)
    assert len(pod_spec(put(2, b"") * 990)["containers"]) == 990
    assert refused(body("v1", "Pod", put(2, put(2, b"") * 1001))) == "proto: more than 1000 values"
    packed = put(14, put(4, b"\0" * 1001))
    assert refused(body("v1", "Pod", put(2, packed))) == "proto: more than 1000 values"
    assert refused(body("v1", "Pod", put(5000, 1) * 1001)) == "proto: more than 1000 values"


def only_refusals(data: bytes) -> None:
    with contextlib.suppress(BadRequest, UnsupportedMediaType):
        codec.encode(codec.decode_body(data, protobuf.MEDIA_TYPE))


MESSAGES = st.recursive(
    st.binary(max_size=12),
    lambda inner: st.lists(
        st.builds(put, st.integers(0, 50), inner | INT64 | st.floats() | TEXT),
        max_size=6,
    ).map(b"".join),
    max_leaves=20,
)
KINDS = st.sampled_from(
    [("v1", "Pod"), ("apps/v1", "Deployment"), ("apiextensions.k8s.io/v1", "CustomResourceDefinition")]
)


@given(data=st.binary(max_size=200))
def test_random_bytes_are_read_or_refused(data: bytes) -> None:
    only_refusals(data)
    only_refusals(protobuf.MAGIC + data)


@given(kind=KINDS, raw=MESSAGES)
def test_random_messages_are_read_or_refused(kind: tuple[str, str], raw: bytes) -> None:
    only_refusals(body(*kind, raw))


@given(command=st.sampled_from(sorted(SENT)), at=st.integers(4, 300), bits=st.integers(1, 255), end=st.integers(4, 400))
def test_damaged_bodies_are_read_or_refused(command: str, at: int, bits: int, end: int) -> None:
    damaged = bytearray(base64.b64decode(SENT[command][0]))
    damaged[min(at, len(damaged) - 1)] ^= bits
    only_refusals(bytes(damaged))
    only_refusals(bytes(damaged[:end]))
