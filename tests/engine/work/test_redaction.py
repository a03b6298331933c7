"""A server's words about a secret go on without what is in it."""

import pytest

from echelon.api.base import JSONObject
from echelon.engine.work.redaction import redact_secrets


def secret(**fields: object) -> JSONObject:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, **fields}


@pytest.mark.parametrize(
    ("manifest", "text", "told"),
    [
        (
            secret(data={"a": "hunter2!!"}),
            'Invalid value: "hunter2!!": bad',
            "Invalid value: <hidden>: bad",
        ),
        (secret(data={"a": "aHVudGVyMg=="}), "quotes hunter2 plainly", "quotes <hidden> plainly"),
        (secret(stringData={"a": "hunter2"}), 'bad "aHVudGVyMg=="', "bad <hidden>"),
        (secret(data={"a": ["deep", {"b": "er"}]}), 'deeper: "er"', "<hidden>er: <hidden>"),
        (secret(data={"a": "x"}), 'a text with x and "x"', "a text with x and <hidden>"),
        (secret(data="whole"), "the whole text", "the <hidden> text"),
        (secret(), "says nothing", "says nothing"),
        ({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "value"}}, "a value", "a value"),
    ],
)
def test_what_is_in_a_secret_is_hidden(manifest: JSONObject, text: str, told: str) -> None:
    assert redact_secrets(text, manifest) == told
