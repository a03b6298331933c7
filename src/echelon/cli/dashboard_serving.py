"""How `echelon dashboard` serves: with a certificate that may be renewed, for as long as whoever started it lives."""

import asyncio
import logging
import ssl
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click

from echelon.cli.logs import say
from echelon.cli.process import stop_on_signals
from echelon.cli.terminal import echo
from echelon.dashboard.server import Settings, serving
from echelon.kube.config import ClusterConfig, User

_RENEWAL_SECONDS = 300.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Pair:
    """The files of a certificate and its key, which somebody may renew while we run."""

    certificate: Path
    key: Path

    def load(self, context: ssl.SSLContext) -> None:
        """Let new connections see what is in the files now."""
        context.load_cert_chain(self.certificate, self.key)

    def context(self) -> ssl.SSLContext:
        """Return how to serve with it."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            self.load(context)
        except OSError as error:  # those of TLS, too
            why = f"{self.certificate} and {self.key} are no certificate and its key: {error}"
            raise click.BadParameter(why, param_hint="--tls-cert") from error
        return context

    async def renewed(self, context: ssl.SSLContext) -> None:
        """Look into the files from time to time."""
        while True:
            await asyncio.sleep(_RENEWAL_SECONDS)
            try:
                self.load(context)
            except OSError as error:
                _log.warning("the certificate cannot be read again, and stays as it was: %s", error)


async def serve(hub: ClusterConfig, settings: Settings, pair: Pair | None, *, attached: bool) -> None:
    """Serve until asked to stop."""
    stopping = stop_on_signals()
    parent = await _standard_input() if attached else None
    beside: list[asyncio.Task[None]] = []
    if pair is not None and settings.tls is not None:
        beside.append(asyncio.create_task(pair.renewed(settings.tls), name="certificate"))
    async with serving(hub, settings) as (made, url):
        if parent is None:
            say(f"the dashboard is at {url}")
        else:
            token = (await parent.readline()).decode().strip()
            code = await made.link(User(token=token)) if token else ""
            echo(f"{url}/#code={code}" if code else url)
            sys.stdout.flush()
            beside.append(asyncio.create_task(_until_left(parent, stopping), name="parent"))
        await stopping.wait()
    for task in beside:
        task.cancel()


async def _standard_input() -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


async def _until_left(parent: asyncio.StreamReader, stopping: asyncio.Event) -> None:
    """Stop when whoever started us is gone."""
    with suppress(OSError):
        while await parent.read(1024):
            pass
    stopping.set()
