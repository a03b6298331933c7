"""`echelon dashboard`: the fleet in a browser, with the rights of whoever signs in."""

import asyncio
import ssl
import sys
from contextlib import suppress
from pathlib import Path

import click

from echelon.cli.connection import Connection, connected
from echelon.cli.logs import logged, say
from echelon.cli.process import parse_listen, run, stop_on_signals
from echelon.cli.terminal import echo
from echelon.dashboard.server import InTheClear, Settings, serving
from echelon.kube.config import ClusterConfig, User

_PORT = "127.0.0.1:8090"


@click.command()
@connected
@click.option("--listen", default=_PORT, show_default=True, metavar="HOST:PORT", help="Port 0 takes a free one.")
@click.option("--tls-cert", type=click.Path(path_type=Path, dir_okay=False, exists=True), help="Certificate, as PEM.")
@click.option("--tls-key", type=click.Path(path_type=Path, dir_okay=False, exists=True), help="Its key, as PEM.")
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
    settings = Settings(host, port, _context(tls_cert, tls_key), url.rstrip("/"))
    try:
        settings.check()
    except InTheClear as error:
        raise click.UsageError(str(error)) from error
    run(_serve(connection.load(), settings, attached=attached))


def _context(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    if certificate is None or key is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        raise click.BadParameter(
            f"{certificate} and {key} are no certificate and key", param_hint="--tls-cert"
        ) from error
    return context


async def _serve(hub: ClusterConfig, settings: Settings, *, attached: bool) -> None:
    stopping = stop_on_signals()
    parent = await _standard_input() if attached else None
    left: asyncio.Task[None] | None = None
    async with serving(hub, settings) as (made, url):
        if parent is None:
            say(f"the dashboard is at {url}")
        else:
            token = (await parent.readline()).decode().strip()
            code = await made.link(User(token=token)) if token else ""
            echo(f"{url}/#code={code}" if code else url)
            sys.stdout.flush()
            left = asyncio.create_task(_until_left(parent, stopping), name="parent")
        await stopping.wait()
    if left is not None:
        left.cancel()


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
