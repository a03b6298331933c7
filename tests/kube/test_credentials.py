import asyncio
import json
import os
import sys
from collections.abc import Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml
from tests.environment.processes import wait_for_the_end

from echelon.kube import credentials
from echelon.kube.config import load
from echelon.kube.credentials import CredentialsUnavailable, User, open_credentials
from echelon.kube.errors import ApiError
from echelon.kube.exec_plugin import ExecPlugin, PluginFailed, issue

T = TypeVar("T")

V1 = "client.authentication.k8s.io/v1"
START = datetime(2026, 11, 1, tzinfo=UTC)


@dataclass
class SetClock:
    time: datetime = START

    def now(self) -> datetime:
        return self.time


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, 30))


@dataclass
class Program:
    """A plugin that counts its runs and keeps what it was told."""

    directory: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return self.directory / "plugin"

    @property
    def runs(self) -> list[dict[str, Any]]:
        log = self.directory / "runs"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def write(self, body: str) -> None:
        prologue = f"""#!{sys.executable} -SE
import json, os, sys, time
log = {str(self.directory / "runs")!r}
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
told = {{"info": info, "args": sys.argv[1:], "env": os.environ.get("FLAVOUR", ""), "stdin": sys.stdin.read()}}
with open(log, "a") as file:
    file.write(json.dumps(told) + "\\n")
number = len(open(log).readlines())
def issue(**status):
    print(json.dumps({{"kind": "ExecCredential", "apiVersion": info["apiVersion"], "status": status}}))
"""
        self.path.write_text(prologue + body)
        self.path.chmod(0o755)

    def plugin(self, **options: Any) -> ExecPlugin:
        return ExecPlugin(str(self.path), **{"api_version": V1, **options})


@pytest.fixture
def program(tmp_path: Path) -> Program:
    made = Program(tmp_path)
    made.write('issue(token=f"token-{number}")')
    return made


def test_a_token_file_is_read_again_after_a_minute_and_at_once_after_a_rejection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")

    async def story() -> None:
        given = open_credentials(User(token_file=file), SetClock())
        first = await given.current()
        assert first.authorization == "Bearer one"
        file.write_text("two")
        assert await given.current() == first, "not before its time"
        assert await given.renew(first)
        assert (await given.current()).authorization == "Bearer two"
        assert not await given.renew(await given.current()), "the same token would be rejected again"
        file.write_text("three")
        monkeypatch.setattr(credentials, "_REREAD_SECONDS", 0.0)
        assert (await given.current()).authorization == "Bearer three"
        file.unlink()
        assert (await given.current()).authorization == "Bearer three", "a file that is being replaced"

    run(story())


def test_a_token_file_that_was_never_readable_is_named(tmp_path: Path) -> None:
    with pytest.raises(CredentialsUnavailable, match="none: No such file"):
        run(open_credentials(User(token_file=tmp_path / "none"), SetClock()).current())
    (tmp_path / "empty").write_text(" \n")
    with pytest.raises(CredentialsUnavailable, match="empty: the token file is empty"):
        run(open_credentials(User(token_file=tmp_path / "empty"), SetClock()).current())


def test_the_token_counts_while_its_file_is_not_there(tmp_path: Path) -> None:
    given = run(open_credentials(User(token="fixed", token_file=tmp_path / "none"), SetClock()).current())
    assert given.authorization == "Bearer fixed"


def test_passwords_are_sent_as_basic_authentication() -> None:
    given = run(open_credentials(User(username="ann", password="pässword"), SetClock()).current())
    assert given.authorization == "Basic YW5uOnDDpHNzd29yZA=="


def test_certificate_files_are_read_again(tmp_path: Path) -> None:
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    certificate.write_bytes(b"one")
    key.write_bytes(b"key")

    async def story() -> None:
        given = open_credentials(User(certificate=certificate, key=key), SetClock())
        first = await given.current()
        certificate.write_bytes(b"two")
        assert await given.renew(first)
        pair = (await given.current()).pair
        assert pair is not None
        assert pair.certificate == b"two"

    run(story())


@pytest.mark.parametrize("version", [V1, "client.authentication.k8s.io/v1beta1"])
def test_a_plugin_gets_its_arguments_environment_and_cluster_and_no_input(
    tmp_path: Path, program: Program, version: str
) -> None:
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
    cluster = {"server": "https://c:1", "insecure-skip-tls-verify": True, "extensions": [extension]}
    exec_ = {
        "apiVersion": version,
        "command": "./plugin",
        "args": ["get", "it"],
        "env": [{"name": "FLAVOUR", "value": "sweet"}],
        "provideClusterInfo": True,
        "interactiveMode": "IfAvailable",
    }
    document = {
        "current-context": "x",
        "clusters": [{"name": "c", "cluster": cluster}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"exec": exec_}}],
    }
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(document))
    config = load(path, environ={})
    assert run(open_credentials(config.user, SetClock()).current()).authorization == "Bearer token-1"
    (told,) = program.runs
    assert (told["args"], told["env"], told["stdin"]) == (["get", "it"], "sweet", "")
    assert told["info"] == {
        "kind": "ExecCredential",
        "apiVersion": version,
        "spec": {
            "interactive": False,
            "cluster": {"server": "https://c:1", "insecure-skip-tls-verify": True, "config": {"audience": "x"}},
        },
    }


def test_a_plugin_runs_once_for_many_requests_and_once_more_after_a_rejection(program: Program) -> None:
    async def story() -> None:
        given = open_credentials(User(plugin=program.plugin()), SetClock())
        first, *others = await asyncio.gather(*(given.current() for _ in range(5)))
        assert set(others) == {first}
        assert len(program.runs) == 1
        assert all(await asyncio.gather(*(given.renew(first) for _ in range(5))))
        assert (await given.current()).authorization == "Bearer token-2"
        assert len(program.runs) == 2

    run(story())


def test_what_expires_is_renewed_before_it_does(program: Program) -> None:
    program.write('issue(token=f"token-{number}", expirationTimestamp="2026-11-01T%02d:00:00Z" % number)')
    clock = SetClock()

    async def story() -> None:
        given = open_credentials(User(plugin=program.plugin()), clock)
        await given.current()
        clock.time = START + timedelta(minutes=58)
        assert (await given.current()).authorization == "Bearer token-1"
        clock.time = START + timedelta(minutes=59, seconds=30)
        assert (await given.current()).authorization == "Bearer token-2"
        program.write("sys.exit(1)")
        clock.time = START + timedelta(minutes=119, seconds=30)
        assert (await given.current()).authorization == "Bearer token-2", "still good, though not for long"
        assert (await given.current()).authorization == "Bearer token-2"
        assert len(program.runs) == 3, "and not tried again for every request"
        clock.time = START + timedelta(minutes=121)
        with pytest.raises(PluginFailed):
            await given.current()

    run(story())


def test_a_plugin_may_issue_a_certificate(program: Program) -> None:
    program.write('issue(clientCertificateData="CERT", clientKeyData="KEY")')
    issued = run(issue(program.plugin()))
    assert issued.pair is not None
    assert (issued.pair.certificate, issued.pair.key) == (b"CERT", b"KEY")
    assert "KEY" not in repr(issued)


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ("sys.exit(3)", "failed with exit code 3"),
        ('print("hunter2")', "did not print an ExecCredential"),
        ('print(json.dumps({"kind": "Pod"}))', "did not print an ExecCredential"),
        ('info["apiVersion"] = "v0"; issue(token="hunter2")', "returned another version"),
        ('print(json.dumps({"kind": "ExecCredential", "apiVersion": info["apiVersion"]}))', "status"),
        ("issue()", "did not return a token or cert/key pair"),
        ('issue(clientKeyData="hunter2")', "only certificate or key"),
        ('issue(token={"hunter2": 1})', "did not print an ExecCredential"),
        ('issue(token="hunter2", expirationTimestamp="hunter2")', "did not print an ExecCredential"),
    ],
)
def test_a_plugin_that_fails_becomes_one_sentence_with_the_hint_and_without_the_secret(
    program: Program, body: str, rule: str
) -> None:
    program.write(body)
    with pytest.raises(PluginFailed, match=rule) as caught:
        run(issue(program.plugin(install_hint="brew install plugin")))
    assert str(caught.value).endswith("\nbrew install plugin")
    assert "hunter2" not in str(caught.value)


def test_a_plugin_that_is_not_installed_is_said_to_be_with_the_hint() -> None:
    plugin = ExecPlugin("no-such-plugin", V1, install_hint="brew install plugin")
    with pytest.raises(ApiError, match="executable no-such-plugin not found\nbrew install plugin"):
        run(issue(plugin))


@pytest.mark.full
def test_a_plugin_that_hangs_is_ended_with_what_it_started(program: Program) -> None:
    child = program.directory / "child"
    # A shell, because it has started its child long before the time is over, on a busy machine too.
    program.path.write_text(f"#!/bin/sh\nsleep 600 &\necho $! > {child}\nwait\n")
    program.path.chmod(0o755)
    with pytest.raises(PluginFailed, match="did not answer within 3 s"):
        run(issue(program.plugin(timeout_seconds=3.0)))
    wait_for_the_end([int(child.read_text())])


def test_a_plugin_that_needs_a_terminal_fails_where_there_is_none(program: Program) -> None:
    with pytest.raises(PluginFailed, match="needs a terminal"):
        run(issue(program.plugin(interactive_mode="Always")))
    assert program.runs == []


def test_a_token_that_would_break_the_request_is_refused() -> None:
    with pytest.raises(CredentialsUnavailable) as caught:
        run(open_credentials(User(token="hunter2\r\nX: y"), SetClock()).current())
    assert "hunter2" not in str(caught.value)


def test_a_plugin_inherits_the_environment(program: Program) -> None:
    os.environ["FLAVOUR"] = "plain"
    try:
        run(issue(program.plugin()))
    finally:
        del os.environ["FLAVOUR"]
    assert program.runs[0]["env"] == "plain"


def test_requests_that_wait_for_a_failing_plugin_share_its_failure(program: Program) -> None:
    program.write("sys.exit(1)")

    async def story() -> None:
        given = open_credentials(User(plugin=program.plugin()), SetClock())
        results = await asyncio.gather(*(given.current() for _ in range(5)), return_exceptions=True)
        assert all(isinstance(result, PluginFailed) for result in results)

    run(story())
    assert len(program.runs) == 1


def test_a_plugin_does_not_read_what_is_meant_for_us(program: Program) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"our input")
    os.close(writing)
    ours = os.dup(0)
    os.dup2(reading, 0)
    try:
        run(issue(program.plugin()))
    finally:
        os.dup2(ours, 0)
        os.close(ours)
        os.close(reading)
    assert program.runs[0]["stdin"] == ""
