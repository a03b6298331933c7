"""The options by which commands find a hub, and what they say when that does not work.

They are kubectl's, because whoever types them has typed kubectl's before.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from echelon.cli.completing import contexts, namespaces
from echelon.cli.exit_codes import Ended, ExitCode, ended_by
from echelon.cli.time_span import TimeSpan

if TYPE_CHECKING:
    from echelon.kube.config import ClusterConfig
    from echelon.kube.http import HttpClient

_PATIENCE_SECONDS = 30.0
_FOR_EVER_SECONDS = 86_400.0

namespace_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "-n", "--namespace", default="", shell_complete=namespaces, help="Namespace; that of the context if not given."
)


@dataclass(frozen=True)
class Connection:
    """Which hub is meant, and who asks it for how long."""

    kubeconfig: Path | None = None
    context: str | None = None
    patience_seconds: float = _PATIENCE_SECONDS  # for an answer
    user: str = ""  # to act as
    groups: tuple[str, ...] = ()

    @property
    def options(self) -> tuple[str, ...]:
        """How another command is told the same."""
        named = (("--kubeconfig", self.kubeconfig), ("--context", self.context))
        return tuple(text for option, value in named if value for text in (option, str(value)))

    def load(self) -> "ClusterConfig":
        """Find the hub's address and the credentials."""
        from echelon.kube import config

        found = config.load(self.kubeconfig, self.context)
        if not self.user:
            return found
        return replace(found, impersonation=config.Impersonation(self.user, groups=self.groups))

    @asynccontextmanager
    async def open(self) -> "AsyncIterator[HttpClient]":
        """Return a client for as long as it is needed."""
        from echelon.cli.hub_client import hub_client

        async with hub_client(self.load(), self.patience_seconds) as client:
            yield client


def _patience(_: click.Context, __: click.Parameter, value: float) -> float:
    return value or _FOR_EVER_SECONDS


def connected(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say which hub is meant; it gets them as `connection`."""

    @click.option("--kubeconfig", type=click.Path(path_type=Path, dir_okay=False), help="Kubeconfig of the hub.")
    @click.option("--context", shell_complete=contexts, help="Context in the kubeconfig.")
    @click.option(
        "--request-timeout",
        default=f"{_PATIENCE_SECONDS:g}s",
        show_default=True,
        type=TimeSpan(or_else=", or 0 for no limit"),
        callback=_patience,
        help="How long an answer of the hub may take; 0: as long as it likes.",
    )
    @click.option("--as", "act_as", default="", metavar="USER", help="Act as this user, if you may.")
    @click.option("--as-group", "act_as_groups", multiple=True, metavar="GROUP", help="With --as: in this group.")
    @wraps(command)
    def wrapped(
        *,
        kubeconfig: Path | None,
        context: str | None,
        request_timeout: float,
        act_as: str,
        act_as_groups: tuple[str, ...],
        **arguments: Any,
    ) -> Any:
        if act_as_groups and not act_as:
            raise click.UsageError("--as-group says in which groups the user of --as is: name both")
        with errors_said():
            hub = Connection(kubeconfig, context, request_timeout, act_as, act_as_groups)
            return command(connection=hub, **arguments)

    return wrapped


@contextmanager
def errors_said() -> Iterator[None]:
    """Turn what a hub or its configuration refuses into one line and an exit code that says which kind it is."""
    try:
        yield
    except click.ClickException as error:
        if type(error) is not click.ClickException:  # about what somebody typed, or ended already
            raise
        raise Ended(error.message, ExitCode.FAILED) from error
    except Exception as error:
        ended = ended_by(error)
        if ended is None:
            raise
        raise ended from error
