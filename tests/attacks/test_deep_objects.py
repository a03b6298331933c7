"""One object that is nested deeper than anybody can follow: it hides nobody else, whoever reads the list it is in."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from echelon.api import registry
from echelon.api.kinds import Kind
from echelon.api.work import MANIFEST_WORK
from echelon.kube import config
from echelon.kube.answers import read_document, read_object, read_page
from echelon.kube.client import EventType
from echelon.kube.errors import Unreadable
from echelon.kube.http import HttpClient
from echelon.kube.nesting import DEEPEST, shortened
from echelon.kube.streaming import EventDecoder
from tests.attacks.hub import eventually
from tests.attacks.test_both import api_of

LEVELS = 4000
KINDS: dict[str, Kind[Any]] = {"typed": MANIFEST_WORK, "untyped": MANIFEST_WORK.untyped()}


def work(name: str, levels: int) -> str:
    """Return a work with an object of so many levels; strings in it have brackets that are none."""
    manifest = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"},"x":%s}'
    inner = '{"a]}\\"[":' * levels + '"]}\\\\"' + "}" * levels
    metadata = f'{{"name":"{name}","namespace":"default","resourceVersion":"7","uid":"{name}"}}'
    head = '"apiVersion":"work.open-cluster-management.io/v1","kind":"ManifestWork"'
    return f'{{{head},"metadata":{metadata},"spec":{{"workload":{{"manifests":[{manifest % inner}]}}}}}}'


@pytest.mark.parametrize("kind", KINDS)
def test_a_list_has_all_others_and_says_which_one_cannot_be_read(kind: str) -> None:
    items = ",".join((work("first", 1), work("deep", LEVELS), work("last", 100)))
    page = read_page(KINDS[kind], f'{{"metadata":{{"resourceVersion":"9"}},"items":[{items}]}}'.encode())
    assert len(page.readable) == 2
    (found,) = page.unreadable
    assert (found.metadata.name, found.metadata.uid, found.why) == (
        "deep",
        "deep",
        "it is nested deeper than 500 levels",
    )
    assert page.resource_version == "9"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", ['{{"type":"{type}","object":{object}}}', '{{"object":{object},"type":"{type}"}}'])
def test_a_watch_goes_on_after_it(kind: str, order: str) -> None:
    decode = EventDecoder(KINDS[kind])
    for name in ("ADDED", "MODIFIED", "DELETED"):
        event = decode(order.format(type=name, object=work("deep", LEVELS)).encode())
        assert (event.type, event.resource_version) == (EventType(name), "7")
        assert event.unreadable is not None
        assert event.unreadable.metadata.name == "deep"
    assert decode(order.format(type="ADDED", object=work("good", 1)).encode()).unreadable is None


def test_what_is_nothing_but_deep_is_an_error_that_says_so() -> None:
    deep = b"[" * 100_000
    for read in (
        lambda: read_object(MANIFEST_WORK, work("deep", LEVELS).encode()),
        lambda: read_object(MANIFEST_WORK, deep),
        lambda: read_page(MANIFEST_WORK, b'{"items":' + deep),
        lambda: read_document("/version", deep),
        lambda: EventDecoder(MANIFEST_WORK)(b'{"type":"ADDED","object":' + deep),
        lambda: EventDecoder(MANIFEST_WORK)(b'{"type":' + deep + b"]" * 100_000 + b"}"),
    ):
        with pytest.raises(Unreadable):
            read()


@pytest.mark.parametrize("levels", [0, DEEPEST - 1, DEEPEST, DEEPEST + 1, LEVELS])
def test_what_is_left_of_a_text_is_what_it_was_up_to_a_depth(levels: int) -> None:
    text = '{"a":[1,{"b":"]"}],"deep":%s,"z":"\\"}"}' % ("[" * levels + "1" + "]" * levels)
    short, word = shortened(text.encode())
    found: Any = msgspec.json.decode(short)
    assert (found["a"], found["z"]) == ([1, {"b": "]"}], '"}')
    assert (word in short) == (levels >= DEEPEST)
    if levels < DEEPEST:
        assert short == text.encode()


def test_on_kubernetes_others_are_read_beside_it(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """A real kube-apiserver takes it, from anybody who may write works."""
    control_plane = request.getfixturevalue("control_plane")
    api = api_of(control_plane.kubeconfig, tmp_path)
    crd = next(each for each in registry.crds() if each["spec"]["names"]["kind"] == "ManifestWork")
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    api("POST", definitions, json.dumps(crd))
    works = "/apis/work.open-cluster-management.io/v1/namespaces/default/manifestworks"
    eventually(lambda: api("GET", works).status == 200)
    for name, levels in (("deep", LEVELS), ("good", 1)):
        body = work(name, levels).replace('"resourceVersion":"7",', "").replace(f',"uid":"{name}"', "")
        assert api("POST", works, body).status == 201

    async def read() -> None:
        async with HttpClient(config.load(control_plane.kubeconfig), timeout_seconds=30.0) as client:
            page = await client.list(MANIFEST_WORK, "default")
            assert [each.metadata.name for each in page.readable] == ["good"]
            assert [each.metadata.name for each in page.unreadable] == ["deep"]
            seen = {}
            async for event in client.watch(MANIFEST_WORK, "default", resource_version="0", timeout_seconds=30):
                if event.object is not None or event.unreadable is not None:
                    found: Any = (event.object or event.unreadable).metadata  # type: ignore[union-attr] # one is there
                    seen[found.name] = event.unreadable is None
                if len(seen) == 2:
                    break
            assert seen == {"deep": False, "good": True}

    try:
        asyncio.run(read())
    finally:
        for name in ("deep", "good"):
            api("DELETE", f"{works}/{name}")
