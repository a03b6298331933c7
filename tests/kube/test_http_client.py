import asyncio
import gzip
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from tests.kube.scripted_server import Answer, Request, Script, ScriptedServer, answering, scripted

from echelon.api.apps import DEPLOYMENT
from echelon.api.core import CONFIG_MAP
from echelon.api.namespaces import NAMESPACE
from echelon.kube import errors
from echelon.kube.client import (
    Client,
    WriteOptions,
)
from echelon.kube.config import ClusterConfig, Impersonation, User
from echelon.kube.exec_plugin import ExecPlugin
from echelon.kube.http import HttpClient

T = TypeVar("T")

STATUS = {"kind": "Status", "status": "Failure"}


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, 60))


async def asked(script: Script, ask: Any, **options: Any) -> tuple[Any, ScriptedServer]:
    """Return what a call gave, or the ApiError that it raised, and the server that saw it."""
    async with scripted(script) as server:
        config = options.pop("config", ClusterConfig(""))
        async with HttpClient(replace(config, server=server.url + config.server), **options) as client:
            try:
                return await ask(client), server
            except errors.ApiError as error:
                return error, server


# What goes over the wire.


def test_requests_say_who_asks_and_what_for() -> None:
    config = ClusterConfig(
        "/clusters/x",
        user=User(token="t"),
        impersonation=Impersonation("ann", "7", ("g", "h"), {"example.org/scope": ("read",)}),
    )

    async def ask(client: Client) -> Any:
        options = WriteOptions(dry_run=True, field_validation="Strict")
        return await client.create(CONFIG_MAP, {"metadata": {"name": "a"}}, "blue", options=options)

    _, server = run(asked(answering((201, {})), ask, config=config, user_agent="tester/1", field_manager="me"))
    (request,) = server.requests
    assert request.target.startswith("/clusters/x/api/v1/namespaces/blue/configmaps?")
    assert request.query == {"fieldManager": "me", "dryRun": "All", "fieldValidation": "Strict"}
    assert request.header("Authorization") == "Bearer t"
    assert request.header("User-Agent") == "tester/1"
    assert request.header("Impersonate-User") == "ann"
    assert request.header("Impersonate-Uid") == "7"
    assert [value for key, value in request.headers if key == "Impersonate-Group"] == ["g", "h"]
    assert request.header("Impersonate-Extra-example.org%2Fscope") == "read"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a%2fb"])
def test_a_name_that_would_be_another_path_is_never_sent(name: str) -> None:
    error, server = run(asked(answering((200, {})), lambda client: client.delete(CONFIG_MAP, name, "blue")))
    assert isinstance(error, errors.BadRequest)
    assert server.requests == []


def test_a_namespaced_object_without_namespace_is_never_asked_for() -> None:
    for ask in (lambda client: client.get(CONFIG_MAP, "a"), lambda client: client.create(CONFIG_MAP, {})):
        error, server = run(asked(answering((200, {})), ask))
        assert isinstance(error, errors.BadRequest)
        assert server.requests == []


def test_names_with_colons_are_sent_as_they_are() -> None:
    kind = replace(NAMESPACE, plural="clusterroles")
    _, server = run(asked(answering((200, {})), lambda client: client.get(kind, "system:a b")))
    assert server.requests[0].target == "/api/v1/clusterroles/system:a%20b"


def test_a_connection_is_used_again() -> None:
    async def ask(client: Client) -> None:
        for _ in range(5):
            await client.get(CONFIG_MAP, "a", "b")

    _, server = run(asked(answering((200, {})), ask))
    assert len(server.requests) == 5
    assert server.connections == 1


def test_a_large_list_in_one_answer_is_read() -> None:
    items = [{"metadata": {"name": f"a{number}"}, "data": {"k": "x" * 1500}} for number in range(8500)]
    body = msgspec.json.encode({"kind": "ConfigMapList", "metadata": {"resourceVersion": "5"}, "items": items})
    assert len(body) > 13_000_000
    page, _ = run(asked(answering((200, body)), lambda client: client.list(CONFIG_MAP)))
    assert (len(page.items), page.resource_version) == (8500, "5")
    zipped = gzip.compress(body, 1)
    script = answering((200, zipped, {"Content_Encoding": "gzip"}))
    page, server = run(asked(script, lambda client: client.list(CONFIG_MAP)))
    assert len(page.items) == 8500
    assert server.requests[0].header("Accept-Encoding") == "gzip"


def test_a_list_without_items_is_empty_and_dicts_are_told_their_kind() -> None:
    page, _ = run(asked(answering((200, {"items": None})), lambda client: client.list(CONFIG_MAP)))
    assert list(page.items) == []
    body = {"items": [{"metadata": {}}], "metadata": {"continue": "c", "remainingItemCount": 7}}
    page, _ = run(asked(answering((200, body)), lambda client: client.list(DEPLOYMENT.untyped())))
    assert page.items == [{"metadata": {}, "apiVersion": "apps/v1", "kind": "Deployment"}]
    assert (page.continue_, page.remaining) == ("c", 7)


# Failures.


def get(client: Client) -> Any:
    return client.get(CONFIG_MAP, "a", "b")


def create(client: Client) -> Any:
    return client.create(CONFIG_MAP, {}, "b")


@pytest.mark.parametrize(
    ("code", "body", "expected", "text"),
    [
        (404, {**STATUS, "reason": "NotFound", "message": "gone fishing"}, errors.NotFound, "gone fishing"),
        (409, {**STATUS, "reason": "AlreadyExists", "message": "m"}, errors.AlreadyExists, "m"),
        (409, b"", errors.Conflict, "HTTP 409 Conflict"),
        (410, {**STATUS, "reason": "Gone", "message": "old"}, errors.Gone, "old"),
        (500, b"<html>boom</html>", errors.ApiError, "<html>boom</html>"),
        (502, b"", errors.ApiError, "HTTP 502 Bad Gateway"),
        (503, b"x" * 5_000_000, errors.Unavailable, "x" * 1024),
        (500, {"kind": "Other"}, errors.ApiError, '{"kind":"Other"}'),
        (400, {**STATUS, "message": "m", "details": 3}, errors.BadRequest, "m"),
        (302, b"", errors.ApiError, "HTTP 302 Found"),
    ],
)
def test_a_refusal_is_the_error_that_it_stands_for(
    code: int, body: Any, expected: type[errors.ApiError], text: str
) -> None:
    error, server = run(asked(answering((code, body, {"Location": "http://127.0.0.1:1/"})), get))
    assert type(error) is expected
    assert (error.status_code, str(error)) == (code, text)
    assert len(server.requests) == 1


@pytest.mark.parametrize("ask", [get, create])
def test_a_429_is_tried_again_whatever_it_was(ask: Any) -> None:
    refused = (429, {**STATUS, "reason": "TooManyRequests"}, {"Retry_After": "0"})
    result, server = run(asked(answering(refused, refused, (200, {})), ask))
    assert not isinstance(result, Exception)
    assert len(server.requests) == 3


def test_a_pause_beyond_the_deadline_is_left_to_the_caller() -> None:
    error, server = run(asked(answering((429, b"later", {"Retry_After": "99"})), get))
    assert isinstance(error, errors.TooManyRequests)
    assert error.retry_after == 99
    assert len(server.requests) == 1


def test_a_429_without_end_is_given_up_within_the_deadline() -> None:
    error, server = run(asked(answering((429, b"")), get, timeout_seconds=0.5))
    assert isinstance(error, errors.TooManyRequests)
    assert 1 < len(server.requests) <= 11


def test_a_503_that_says_when_is_tried_again_for_reads_only() -> None:
    refused = (503, b"", {"Retry_After": "0"})
    result, _ = run(asked(answering(refused, (200, {})), get))
    assert not isinstance(result, Exception)
    for ask in (create, lambda client: client.delete(CONFIG_MAP, "a", "b")):
        error, server = run(asked(answering(refused, (200, {})), ask))
        assert isinstance(error, errors.Unavailable)
        assert len(server.requests) == 1
    error, server = run(asked(answering((503, b""), (200, {})), get))
    assert isinstance(error, errors.Unavailable)


def test_a_rejected_token_is_replaced_once(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")

    async def script(request: Request, answer: Answer) -> None:
        file.write_text("new")
        await answer.send(200 if request.header("Authorization") == "Bearer new" else 401, {})

    config = ClusterConfig("", user=User(token_file=file))
    result, server = run(asked(script, create, config=config))
    assert not isinstance(result, Exception)
    assert len(server.requests) == 2
    error, server = run(asked(answering((401, STATUS)), create, config=config))
    assert isinstance(error, errors.Unauthorized)
    assert len(server.requests) == 1


def test_silence_ends_at_the_deadline() -> None:
    async def script(_: Request, answer: Answer) -> None:
        await answer.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")

    async def nothing(_: Request, __: Answer) -> None:
        pass

    for silent in (script, nothing):
        error, _ = run(asked(silent, create, timeout_seconds=0.2))
        assert isinstance(error, errors.ServerTimeout)
        assert "within 0.2 s" in str(error)


def test_a_watch_that_does_not_begin_ends_at_the_deadline() -> None:
    async def nothing(_: Request, __: Answer) -> None:
        pass

    async def ask(client: Client) -> Any:
        return await anext(aiter(client.watch(CONFIG_MAP)))

    error, _ = run(asked(nothing, ask, timeout_seconds=0.2))
    assert isinstance(error, errors.ServerTimeout)


@pytest.mark.parametrize("ask", [create, lambda client: client.delete(CONFIG_MAP, "a", "b")])
def test_a_write_whose_answer_was_lost_is_not_sent_again(ask: Any) -> None:
    async def script(request: Request, answer: Answer) -> None:
        if request.method == "GET":
            await answer.send()
        else:
            answer.reset()

    async def after_a_read(client: Client) -> Any:
        await get(client)
        return await ask(client)

    for way in (ask, after_a_read):
        error, server = run(asked(script, way))
        assert isinstance(error, errors.Unavailable)
        assert [request.method for request in server.requests].count("GET") == len(server.requests) - 1


def test_a_truncated_answer_and_no_server_are_unavailability() -> None:
    async def script(_: Request, answer: Answer) -> None:
        await answer.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
        answer.writer.close()

    error, _ = run(asked(script, create))
    assert isinstance(error, errors.Unavailable)
    assert "incomplete" in str(error)

    async def nobody() -> None:
        async with HttpClient(ClusterConfig("http://127.0.0.1:1")) as client:
            await get(client)

    with pytest.raises(errors.Unavailable, match=r"GET http://127.0.0.1:1/api/v1/namespaces/b/configmaps/a: "):
        run(nobody())


@pytest.mark.parametrize("body", [b"<html>", b"", {"metadata": 3}])
def test_an_answer_that_is_no_such_object_is_a_typed_error(body: Any) -> None:
    error, _ = run(asked(answering((200, body)), get))
    assert isinstance(error, errors.Unreadable)
    error, _ = run(asked(answering((200, body)), lambda client: client.list(CONFIG_MAP)))
    assert isinstance(error, errors.Unreadable)


def test_closing_the_client_ends_its_watches_and_refuses_what_comes_later() -> None:
    async def script(_: Request, answer: Answer) -> None:
        await answer.stream(b'{"type":"ADDED","object":{}}\n', end=False)

    async def story() -> None:
        async with scripted(script) as server:
            client = HttpClient(ClusterConfig(server.url))
            events = client.watch(CONFIG_MAP)
            await anext(events)
            waiting = asyncio.create_task(anext(events))
            await asyncio.sleep(0)
            await client.close()
            with pytest.raises(errors.Unavailable):
                await waiting
            with pytest.raises(errors.Unavailable, match="closed"):
                await get(client)

    run(story())


def test_the_time_that_credentials_take_is_not_the_requests(tmp_path: Path) -> None:
    program = tmp_path / "plugin"
    credential = '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"t"}}'
    program.write_text(f"#!/bin/sh\nsleep 1\necho '{credential}'\n")
    program.chmod(0o755)
    plugin = ExecPlugin(str(program), "client.authentication.k8s.io/v1")
    config = ClusterConfig("", user=User(plugin=plugin))
    result, server = run(asked(answering((200, {})), get, config=config, timeout_seconds=0.8))
    assert not isinstance(result, Exception)
    assert server.requests[0].header("Authorization") == "Bearer t"


def test_a_plugin_that_fails_is_an_api_error() -> None:
    config = ClusterConfig("", user=User(plugin=ExecPlugin("no-such-plugin", "client.authentication.k8s.io/v1")))
    error, server = run(asked(answering((200, {})), get, config=config))
    assert isinstance(error, errors.Unauthorized)
    assert server.requests == []
