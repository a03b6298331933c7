"""The options by which commands find a hub, and what they say when that does not work."""

import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

from echelon.cli.terminal import clean
from echelon.kube import config
from echelon.kube.credentials import CredentialsUnavailable
from echelon.kube.errors import ApiError
from echelon.kube.http import HttpClient
from echelon.kube.kubeconfig import ConfigError
from echelon.rollouts.refusals import Refused


@dataclass(frozen=True)
class Connection:
    """Which hub is meant."""

    kubeconfig: Path | None = None
    context: str | None = None

    @property
    def options(self) -> tuple[str, ...]:
        """How another command is told the same."""
        named = (("--kubeconfig", self.kubeconfig), ("--context", self.context))
        return tuple(text for option, value in named if value for text in (option, str(value)))

    def load(self) -> config.ClusterConfig:
        """Find the hub's address and the credentials."""
        return config.load(self.kubeconfig, self.context)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[HttpClient]:
        """Return a client for as long as it is needed."""
        async with HttpClient(self.load()) as client:
            yield client


def connected(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say which hub is meant; it gets them as `connection`."""

    @click.option("--kubeconfig", type=click.Path(path_type=Path, dir_okay=False), help="Kubeconfig of the hub.")
    @click.option("--context", help="Context in the kubeconfig.")
    @wraps(command)
    def wrapped(*, kubeconfig: Path | None, context: str | None, **arguments: Any) -> Any:
        with errors_said():
            return command(connection=Connection(kubeconfig, context), **arguments)

    return wrapped


@contextmanager
def errors_said() -> Iterator[None]:
    """Turn what a hub or its configuration refuses into one line and exit code 1."""
    try:
        yield
    except click.ClickException as error:
        if type(error) is not click.ClickException:  # about what somebody typed
            raise
        raise click.ClickException("\n".join(map(clean, error.message.split("\n")))) from error
    except Refused as error:
        raise click.ClickException("\n".join(map(clean, error.message.split("\n")))) from error
    except (ApiError, ConfigError, CredentialsUnavailable, ssl.SSLError, OSError, TimeoutError) as error:
        raise click.ClickException(clean(str(error)) or type(error).__name__) from error
