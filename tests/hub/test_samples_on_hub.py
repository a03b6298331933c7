"""Every sample on a hub with our CRDs: the good ones come back as they were, the bad ones name their field."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from echelon.api import registry
from tests.hub.api import Api

SAMPLES = sorted((Path(__file__).parent.parent / "api" / "samples").glob("*/*.yaml"))
GOOD = [pytest.param(path, id=path.stem) for path in SAMPLES if path.stem.startswith("good-")]
BAD = [pytest.param(path, id=path.stem) for path in SAMPLES if path.stem.startswith("bad-")]
PLURALS = {(kind.api_version, kind.kind): kind for kind in registry.registry().kinds}


@pytest.fixture
def namespace(maps: str) -> str:
    return maps.split("/")[4]


def address(document: dict[str, Any], namespace: str) -> str:
    """Return where a document is created, and make it one of this test."""
    kind = PLURALS[document["apiVersion"], document["kind"]]
    if kind.namespaced:
        document["metadata"]["namespace"] = namespace
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    return f"{root}/namespaces/{namespace}/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"


def lost(sent: Any, got: Any, path: str = "") -> list[str]:
    """Return the fields that were sent and did not come back; the server may add others."""
    if isinstance(sent, dict) and isinstance(got, dict):
        return [field for name in sent for field in lost(sent[name], got.get(name), f"{path}.{name}")]
    if isinstance(sent, list) and isinstance(got, list) and len(sent) == len(got):
        return [field for i, each in enumerate(sent) for field in lost(each, got[i], f"{path}[{i}]")]
    return [] if sent == got else [f"{path}: {sent!r} became {got!r}"]


@pytest.mark.parametrize("sample", GOOD)
def test_a_good_sample_comes_back_with_every_field(api: Api, namespace: str, sample: Path) -> None:
    document = yaml.safe_load(sample.read_text())
    path = address(document, namespace)
    document["metadata"] = {key: value for key, value in document["metadata"].items() if key not in SERVERS}
    status = document.pop("status", None)
    created = api.ok("POST", path, document, fieldValidation="Strict")
    stored = f"{path}/{document['metadata']['name']}"
    try:
        assert lost(document, created) == []
        if status is not None:
            api.ok("PATCH", f"{stored}/status", {"status": status}, "application/merge-patch+json")
        got = api.ok("GET", stored)
        assert lost({**document, **({"status": status} if status is not None else {})}, got) == []
        # What was read can be written back, and nothing has changed by that.
        assert api.ok("PUT", stored, got)["metadata"]["resourceVersion"] == got["metadata"]["resourceVersion"]
    finally:
        api("DELETE", stored)


# What a server decides on, whatever is sent.
SERVERS = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
    "deletionTimestamp",
    "selfLink",
)


@pytest.mark.parametrize("sample", BAD)
def test_a_bad_sample_is_refused_at_its_field(api: Api, namespace: str, sample: Path) -> None:
    text = sample.read_text()
    field = text.splitlines()[0].removeprefix("# error: ")
    document = yaml.safe_load(text)
    path = address(document, namespace)
    answer = api("POST", path, document, fieldValidation="Strict")
    if field.startswith("status"):  # only the subresource takes a status
        document.pop("status")
        api.ok("POST", path, document)
        stored = f"{path}/{document['metadata']['name']}"
        body = {"status": yaml.safe_load(text)["status"]}
        answer = api("PATCH", f"{stored}/status", body, "application/merge-patch+json", fieldValidation="Strict")
        api("DELETE", stored)
    if answer.status == 400:
        assert f'unknown field "{field}"' in answer.message
    else:
        assert answer.status == 422, answer.data
        assert field in answer.fields
    assert api("GET", f"{path}/{document['metadata']['name']}").status == 404
