"""What commands that stay write: lines for people or for programs, and how much."""

import json
import logging
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from echelon.cli import main
from echelon.cli.logs import JSONFormatter, logged, say
from echelon.kube.errors import Conflict

_log = logging.getLogger("echelon.kube.controller")


@click.command()
@logged(level="warning", verbose="info")
def talking() -> None:
    """Say something at each level."""
    _log.debug("a detail")
    extra = {"controller": "placement", "key": "shop/web", "attempt": 3}
    _log.info("%s failed", "shop/web", extra=extra)
    try:
        raise Conflict("somebody was faster")
    except Conflict:
        _log.exception("an accident: é")
    say("all is ready")


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Leave the handlers of the test run as they were."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(*options: str) -> list[str]:
    done = CliRunner().invoke(talking, options)
    assert done.exit_code == 0, done.output
    return done.output.splitlines()


def test_a_line_of_json_has_the_fields_that_it_was_given_and_nothing_else() -> None:
    first, second, third = map(json.loads, lines("--log-format", "json", "--log-level", "info"))
    assert first.pop("time").endswith("Z")
    assert first == {
        "level": "info",
        "logger": "echelon.kube.controller",
        "message": "shop/web failed",
        "controller": "placement",
        "key": "shop/web",
        "attempt": 3,
    }
    assert second["message"] == "an accident: é"
    assert second["level"] == "error"
    assert second["error"].startswith("Traceback")
    assert "Conflict" in second["error"]
    assert third["message"] == "all is ready"


def test_a_record_is_one_line_whatever_is_in_it() -> None:
    record = logging.makeLogRecord({"msg": "two\nlines", "created": 0.0, "about": object(), "levelname": "INFO"})
    line = JSONFormatter().format(record)
    assert "\n" not in line
    assert json.loads(line)["message"] == "two\nlines"
    assert json.loads(line)["about"].startswith("<object object")
    assert json.loads(line)["time"] == "1970-01-01T00:00:00.000000Z"


def test_text_is_for_people() -> None:
    said = lines("--log-level", "info")
    assert said[0].endswith("INFO shop/web failed")
    assert said[-1] == "all is ready"


@pytest.mark.parametrize(
    ("options", "messages"),
    [
        ([], ["an accident: é"]),
        (["-v"], ["shop/web failed", "an accident: é"]),
        (["--log-level", "debug"], ["a detail", "shop/web failed", "an accident: é"]),
        (["--log-level", "error"], ["an accident: é"]),
    ],
)
def test_the_level_says_how_much(options: list[str], messages: list[str]) -> None:
    said = [json.loads(line)["message"] for line in lines("--log-format", "json", *options)]
    assert [message for message in said if message != "all is ready"] == messages


@pytest.mark.parametrize("command", ["run", "agent", "hub", "up"])
def test_every_command_that_stays_has_the_options(command: str) -> None:
    shown = CliRunner().invoke(main, [command, "--help"]).output
    for option in ("--log-format [text|json]", "--log-level [debug|info|warning|error]", "--verbose"):
        assert option in shown
    refused = CliRunner().invoke(main, [command, "--log-level", "loud"])
    assert refused.exit_code == 2
    assert "'loud' is not one of" in refused.output
