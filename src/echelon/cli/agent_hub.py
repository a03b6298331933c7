"""The two ways in which an agent finds its hub: a kubeconfig that somebody made, or a place that its cluster has."""

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from random import Random

import click

from echelon.agent.cluster_lease import AnotherAgent
from echelon.agent.context import Runnable
from echelon.agent.joining import CannotJoin, Invitation, Joining, NotAnInvitation
from echelon.agent.membership import MembershipCredentials, MembershipSecret
from echelon.agent.renewal import Renewal
from echelon.agent.settings import HUB_MANAGER
from echelon.cli.connection import Connection
from echelon.kube.client import Client
from echelon.kube.clock import SystemClock
from echelon.kube.config import ClusterConfig
from echelon.kube.http import HttpClient


@dataclass(frozen=True)
class OpenHub:
    """A client of the hub, for a cluster; `host` is its address as it was spelled."""

    client: Client
    cluster: str
    host: str
    beside: Sequence[Runnable] = ()  # what has to run so that it stays open


@dataclass(frozen=True)
class KubeconfigHub:
    """The hub of a kubeconfig."""

    connection: Connection
    cluster: str

    async def open(self, stack: AsyncExitStack, _member: Client, _random: Random) -> OpenHub:
        """Connect to the hub."""
        config = self.connection.load()
        client = await stack.enter_async_context(HttpClient(config, field_manager=HUB_MANAGER))
        return OpenHub(client, self.cluster, config.host)


@dataclass(frozen=True)
class JoinedHub:
    """The hub on which the cluster has a place, or asks for one."""

    invitation: Invitation | None
    cluster: str
    place: tuple[str, str]
    seconds: int | None

    async def open(self, stack: AsyncExitStack, member: Client, random: Random) -> OpenHub:
        """Connect to the hub, as soon as the cluster has a certificate."""
        kept, clock = MembershipSecret(member, *self.place), SystemClock()
        joining = Joining(kept, _as_bearer, random, self.invitation, self.cluster, self.seconds)
        credentials = MembershipCredentials(await joining.membership(clock.now()))
        held = credentials.membership
        client = HttpClient(held.config, field_manager=HUB_MANAGER, credentials=credentials)
        hub = await stack.enter_async_context(client)
        renewal = Renewal(hub, credentials, kept, clock=clock, random=random, seconds=self.seconds)
        return OpenHub(hub, held.cluster, held.server, (renewal,))


def _as_bearer(config: ClusterConfig) -> HttpClient:
    return HttpClient(config, field_manager=HUB_MANAGER)


def read_invitation(context: click.Context, param: click.Parameter, value: str | None) -> Invitation | None:
    """Read what `echelon cluster join` printed, from the option or from standard input."""
    if value is None:
        return None
    try:
        return Invitation.read(sys.stdin.read() if value == "-" else value)
    except NotAnInvitation as error:
        raise click.BadParameter(str(error), context, param) from None


def read_place(context: click.Context, param: click.Parameter, value: str) -> tuple[str, str]:
    """Read NAMESPACE/NAME."""
    namespace, _, name = value.partition("/")
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", namespace) or not re.fullmatch(
        r"[a-z0-9][-a-z0-9.]*", name
    ):
        raise click.BadParameter(f"{value!r} is not NAMESPACE/NAME", context, param)
    return namespace, name


@contextmanager
def trouble_said() -> Iterator[None]:
    """Turn what keeps an agent from working into one line and exit code 1."""
    try:
        yield
    except (CannotJoin, AnotherAgent) as error:
        raise click.ClickException(str(error)) from error
    except ExceptionGroup as group:
        others, rest = group.split(AnotherAgent)
        if others is None or rest is not None:
            raise
        raise click.ClickException(str(_first(others))) from group


def _first(group: BaseExceptionGroup[AnotherAgent]) -> BaseException:
    found = group.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found
