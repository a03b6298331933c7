"""`echelon dashboard`: the fleet in a browser, with the rights of whoever signs in."""

import asyncio
import logging
import ssl
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click

from echelon.cli.connection import Connection, connected
from echelon.cli.logs import logged, say
from echelon.cli.process import parse_listen, run, stop_on_signals
from echelon.cli.terminal import echo
from echelon.dashboard.server import InTheClear, Settings, serving
from echelon.kube.config import ClusterConfig, User

_PORT = "127.0.0.1:8090"
_RENEWAL_SECONDS = 300.0

_log = logging.getLogger(__name__)


@click.command()
@connected
@click.option("--listen", default=_PORT, show_default=True, metavar="HOST:PORT", help="Port 0 takes a free one.")
@click.option("--tls-cert", type=click.Path(path_type=Path, dir_okay=False), help="Certificate, as PEM.")
@click.option("--tls-key", type=click.Path(path_type=Path, dir_okay=False), help="Its key, as PEM.")
@click.option("--url", default="", metavar="https://HOST", help="Where browsers find it, if a proxy is before it.")
@click.option("--attached", is_flag=True, hidden=True, help="End with standard input; its first line is a token.")
@logged()
def dashboard(
    *, connection: Connection, listen: str, tls_cert: Path | None, tls_key: Path | None, url: str, attached: bool
) -> None:
    """Show the fleet in a browser: clusters, rollouts, placements, policies, and verbs with what they would do.

    People sign in with a token or a client certificate of their own, and see and steer what the hub lets them. Of the
    kubeconfig only the hub's address and certificate authority are used.
    """
    if (tls_cert is None) != (tls_key is None):
        raise click.UsageError("--tls-cert and --tls-key belong together")
    if url and not url.startswith(("https://", "http://")):
        raise click.BadParameter(f"{url!r} is no http or https URL", param_hint="--url")
    host, port = parse_listen(listen)
    pair = _Pair(tls_cert, tls_key) if tls_cert is not None and tls_key is not None else None
    settings = Settings(host, port, pair.context() if pair is not None else None, url.rstrip("/"))
    try:
        settings.check()
    except InTheClear as error:
        raise click.UsageError(str(error)) from error
    run(_serve(connection.load(), settings, pair, attached=attached))


@dataclass(frozen=True)
class _Pair:
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


async def _serve(hub: ClusterConfig, settings: Settings, pair: _Pair | None, *, attached: bool) -> None:
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
