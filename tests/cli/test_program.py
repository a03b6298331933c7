"""The program as shells, pipes and people meet it: help that fits, hints for what is mistyped, and how it ends."""

import os
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from echelon.cli import main
from echelon.cli.connection import errors_said
from echelon.cli.exit_codes import MEANINGS, ExitCode, troubled
from echelon.cli.terminal import style
from echelon.kube.errors import ApiError, Conflict, Forbidden, NotFound, ServerTimeout, Unauthorized, Unavailable
from echelon.kube.kubeconfig import ConfigError
from echelon.rollouts.refusals import NotThere, Refused

ROOT = Path(__file__).parents[2]
ECHELON = [sys.executable, "-m", "echelon"]
PLUGIN = [sys.executable, "-c", "from echelon.cli import plugin; plugin()"]
PATIENCE_SECONDS = 120.0
WAITING = (("rollout", "watch"), ("cluster", "detach"))


def commands(of: click.Command, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Walk all commands."""
    yield path, of
    if isinstance(of, click.Group):
        context = click.Context(of)
        for name in of.list_commands(context):
            found = of.get_command(context, name)
            assert found is not None
            yield from commands(found, *path, name)


EVERY = dict(commands(main))
LEAVES = {path: each for path, each in EVERY.items() if not isinstance(each, click.Group)}


def help_of(path: tuple[str, ...], columns: int) -> str:
    context = click.Context(main, info_name="kubectl echelon", terminal_width=columns, max_content_width=columns)
    for end in range(1, len(path) + 1):
        context = click.Context(EVERY[path[:end]], context, path[end - 1], terminal_width=columns)
    return EVERY[path].get_help(context)


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_help_fits_eighty_columns_and_says_something_of_every_command_and_option(path: tuple[str, ...]) -> None:
    said = help_of(path, 80)
    assert [line for line in said.splitlines() if len(line) > 80] == []
    assert (EVERY[path].help or "").strip()
    options = [each for each in EVERY[path].params if isinstance(each, click.Option)]
    silent = [each.name for each in options if not each.help]
    assert silent == [], "what nobody explains"


def flags(path: tuple[str, ...]) -> set[str]:
    return {flag for each in LEAVES[path].params for flag in each.opts}


def test_the_flags_that_every_user_of_kubectl_tries_are_there() -> None:
    asking = [
        path for path in LEAVES if "--kubeconfig" in flags(path) and path[0] not in ("up", "hub", "crds", "agent")
    ]
    assert len(asking) > 25
    for path in asking:
        assert {"--context", "--request-timeout", "--as", "--as-group"} <= flags(path), path
    for path in LEAVES:
        if path[0] in ("rollout", "policy", "placement"):
            assert {"-n", "--namespace"} <= flags(path), path
        if path[-1] == "list":
            assert {"-o", "--output"} <= flags(path), path
        if path[-1] == "list" and path[0] != "cluster":
            assert {"-A", "--all-namespaces", "--no-headers"} <= flags(path), path


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["rolout", "list"], 'has no command "rolout"; did you mean rollout?'),
        (["rollout", "aprove", "x"], 'rollout has no command "aprove"; did you mean approve or promote?'),
        (["cluster", "join-me"], 'cluster has no command "join-me"; did you mean join?'),
        (["policy", "zzz"], 'policy has no command "zzz"\n'),
    ],
)
def test_who_mistypes_a_verb_is_told_which_may_be_meant(typed: list[str], meant: str) -> None:
    done = CliRunner().invoke(main, typed)
    assert done.exit_code == ExitCode.USAGE
    assert meant in done.output


CODES = [
    (NotFound("x"), ExitCode.NOT_FOUND),
    (NotThere("x"), ExitCode.NOT_FOUND),
    (Forbidden("x"), ExitCode.FORBIDDEN),
    (Unauthorized("x"), ExitCode.FORBIDDEN),
    (Unavailable("x"), ExitCode.UNREACHABLE),
    (ServerTimeout("x"), ExitCode.UNREACHABLE),
    (ApiError("x"), ExitCode.UNREACHABLE),
    (ConnectionRefusedError("x"), ExitCode.UNREACHABLE),
    (ConfigError("x"), ExitCode.UNREACHABLE),
    (Refused("x"), ExitCode.FAILED),
    (Conflict("x"), ExitCode.FAILED),
    (click.ClickException("x"), ExitCode.FAILED),
]


@pytest.mark.parametrize(("error", "code"), CODES)
def test_what_a_hub_refuses_has_its_own_code_and_a_diff_keeps_one_for_differences(
    error: Exception, code: ExitCode
) -> None:
    with pytest.raises(click.ClickException) as caught, errors_said():
        raise error
    assert caught.value.exit_code == code
    with pytest.raises(click.ClickException) as caught, errors_said(), troubled():
        raise error
    assert caught.value.exit_code == (ExitCode.USAGE if code == ExitCode.FAILED else code)


@pytest.mark.parametrize("error", [ZeroDivisionError, BrokenPipeError])
def test_what_is_no_trouble_of_the_hub_is_not_told_as_such(error: type[Exception]) -> None:
    with pytest.raises(error), errors_said(), troubled():
        raise error


def test_the_documentation_has_the_table_of_exit_codes() -> None:
    text = (ROOT / "docs" / "cli.md").read_text()
    for code, meaning in MEANINGS.items():
        assert f"| {code.value} | {meaning} |" in text, code


def test_no_color_means_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    coloured = style("failed", fg="red", bold=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert style("failed", fg="red", bold=True) == "failed" != coloured


@pytest.mark.parametrize("typed", [["--help"], ["rollout", "--help"], ["crds", "--all"]])
def test_a_reader_who_leaves_is_no_reason_for_a_traceback(typed: list[str]) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    try:
        done = subprocess.run([*ECHELON, *typed], check=False, stdout=writes, stderr=subprocess.PIPE)
    finally:
        os.close(writes)
    assert (done.returncode, done.stderr) == (ExitCode.BROKEN_PIPE, b"")


def test_ctrl_c_ends_without_many_words(tmp_path: Path) -> None:
    """A server that takes connections and says nothing: whoever asks it waits."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_SECONDS)
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(kubeconfig(f"http://127.0.0.1:{server.getsockname()[1]}")))
        command = [*ECHELON, "rollout", "watch", "web", "--kubeconfig", str(path)]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Who runs tests in the background of a shell has them ignore it, and with them all that they start.
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - it takes no lock
        )
        with server.accept()[0]:
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, out, err.strip()) == (ExitCode.INTERRUPTED, b"", b"")


def kubeconfig(server: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "hub", "cluster": {"server": server}}],
        "users": [{"name": "me", "user": {}}],
        "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "me", "namespace": "web"}}],
        "current-context": "hub",
    }


def test_a_hub_that_is_not_there_has_its_code(tmp_path: Path) -> None:
    with socket.socket() as nobody:  # bound and not listened on
        nobody.bind(("127.0.0.1", 0))
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(kubeconfig(f"http://127.0.0.1:{nobody.getsockname()[1]}")))
        for typed in (["list"], ["watch", "x"], ["diff", "x"], ["pause", "x"]):
            done = CliRunner().invoke(main, ["rollout", *typed, "--kubeconfig", str(path)])
            assert done.exit_code == ExitCode.UNREACHABLE, done.output
            assert done.output.rstrip().endswith(": Connection refused")


@pytest.mark.parametrize(("given", "seconds"), [("0", 86_400.0), ("5", 5.0), ("500ms", 0.5), ("2m", 120.0)])
def test_a_request_has_as_long_as_somebody_says(given: str, seconds: float) -> None:
    @click.command()
    @click.pass_context
    def ask(context: click.Context) -> None:
        option = next(each for each in LEAVES["rollout", "list"].params if each.name == "request_timeout")
        assert option.process_value(context, given) == seconds
        with pytest.raises(click.BadParameter, match="such as 500ms, 30s or 2m"):
            option.process_value(context, "soon")

    assert CliRunner().invoke(ask, [], catch_exceptions=False).exit_code == 0


@pytest.mark.parametrize(("given", "seconds"), [("200", 200.0), ("90s", 90.0), ("5m", 300.0), ("0", 0.0)])
def test_a_rollout_is_waited_for_as_long_as_somebody_says(given: str, seconds: float) -> None:
    found = {each.name: each for path in WAITING for each in LEAVES[path].params if each.name == "timeout"}
    assert found["timeout"].type_cast_value(click.Context(main), given) == seconds
    for path in WAITING:
        done = CliRunner().invoke(main, [*path, "x", "--timeout", "soon"])
        assert done.exit_code == ExitCode.USAGE
        assert "must be a time such as 500ms, 30s or 2m" in done.output
    done = CliRunner().invoke(main, ["rollout", "watch", "x", "--interval", "1ms"])
    assert "it must be 0.1s at least" in done.output


def test_kubectl_finds_its_plugin_and_completes_it(kubectl: str, tmp_path: Path) -> None:
    for name, code in (
        ("kubectl-echelon", "from echelon.cli import plugin; plugin()"),
        ("kubectl_complete-echelon", "from echelon.cli.completion import for_kubectl; for_kubectl()"),
    ):
        script = tmp_path / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{code}" "$@"\n')
        script.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def asks(*arguments: str) -> list[str]:
        command = [kubectl, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.split()

    assert asks("echelon", "--version")[0] == "echelon,"
    assert asks("__complete", "echelon", "rollout", "pro")[0] == "promote"


def test_kubectl_echelon_is_what_its_help_says() -> None:
    done = subprocess.run([*PLUGIN, "rollout", "--help"], check=True, capture_output=True, text=True)
    assert done.stdout.startswith("Usage: kubectl echelon rollout ")
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["kubectl-echelon"] == "echelon.cli:plugin"
    assert scripts["kubectl_complete-echelon"] == "echelon.cli.completion:for_kubectl"
