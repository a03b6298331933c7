"""How the commands that stay write what happens: a line for people, or an object a line for programs."""

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps
from typing import Any

import click

from echelon.cli.terminal import clean, echo, escaped

_LEVELS = ("debug", "info", "warning", "error")
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}

_log = logging.getLogger(__name__)


class JSONFormatter(logging.Formatter):
    """A record as one line of JSON, with the fields that whoever wrote it gave it: `controller`, `key`, `attempt`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        from echelon.api.times import format_micro_time  # help has none

        line = {
            "time": format_micro_time(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **{name: value for name, value in vars(record).items() if name not in _OWN},
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return escaped(json.dumps(line, default=str, ensure_ascii=False))


class TextFormatter(logging.Formatter):
    """A record as one line for people."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        """Return the line; traces of exceptions, which are ours, follow it."""
        return clean(super().formatMessage(record))


def logged(*, level: str = "info", verbose: str = "debug") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the options that say how it writes its log; `-v` is short for a level."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @click.option(
            "--log-format",
            type=click.Choice(["text", "json"]),
            default="text",
            show_default=True,
            help="Lines for people, or objects for programs.",
        )
        @click.option(
            "--log-level",
            type=click.Choice(_LEVELS),
            default=level,
            show_default=True,
            help="The least that is worth a line.",
        )
        @click.option("-v", "--verbose", is_flag=True, help=f"The same as --log-level {verbose}.")
        @wraps(command)
        def wrapped(*, log_format: str, log_level: str, verbose: bool, **arguments: Any) -> Any:
            write_logs(log_format, more if verbose else log_level)
            return command(**arguments)

        return wrapped

    more = verbose
    return decorate


def write_logs(form: str, level: str) -> None:
    """Write logs to standard error from now on."""
    handler = logging.StreamHandler()
    text = TextFormatter("%(asctime)s %(levelname)s %(message)s")
    handler.setFormatter(JSONFormatter() if form == "json" else text)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def say(text: str) -> None:
    """Tell people how far a process is; where programs read along, as a line of the log."""
    if any(isinstance(handler.formatter, JSONFormatter) for handler in logging.getLogger().handlers):
        _log.info("%s", text)
    else:
        echo(text, err=True)
