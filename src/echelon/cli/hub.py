"""`echelon hub`: the embedded hub in the foreground."""

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from echelon.cli.listening import parse_listen
from echelon.cli.logs import logged, say

if TYPE_CHECKING:
    from echelon.hub.server import Hub, Settings

CONTEXT = "echelon"


@click.command()
@click.option("--data", type=click.Path(path_type=Path, file_okay=False), help="Directory for state and keys.")
@click.option("--memory", is_flag=True, help="Keep everything in memory; nothing survives the end.")
@click.option(
    "--listen",
    default="127.0.0.1:0",
    show_default=True,
    metavar="HOST:PORT",
    help="Port 0 takes a free one; with --data, the one that it had before.",
)
@click.option("--kubeconfig", type=click.Path(path_type=Path, dir_okay=False), help="Kubeconfig to write once ready.")
@click.option("--cluster", "clusters", multiple=True, metavar="NAME", help="Also serve a logical cluster; repeatable.")
@click.option("--server-name", "server_names", multiple=True, help="Further name or address for the certificate.")
@click.option(
    "--sync",
    type=click.Choice(["normal", "full"]),
    default="normal",
    show_default=True,
    help="full: survive power loss.",
)
@click.option(
    "--audit",
    type=click.Choice(["none", "writes", "all"]),
    default="writes",
    show_default=True,
    help="Which requests are logged.",
)
@click.option(
    "--authority",
    type=click.Choice(["next", "switch", "finish"]),
    help="Take a step of the exchange of the hub's certificate authority before the start: announce the next one, "
    "sign with it, forget the old one. Restart with each when all agents have had time to follow.",
)
@click.option("--no-anonymous", is_flag=True, help="Refuse requests without credentials.")
@logged()
def hub(
    *,
    data: Path | None,
    memory: bool,
    listen: str,
    kubeconfig: Path | None,
    clusters: Sequence[str],
    server_names: Sequence[str],
    sync: str,
    audit: str,
    authority: str | None,
    no_anonymous: bool,
) -> None:
    """Run a Kubernetes-compatible API server that needs nothing else.

    Give it a directory to keep its state in, or --memory. It listens on loopback unless told otherwise, writes a
    kubeconfig when it is ready, and stops cleanly on SIGTERM or Ctrl-C.
    """
    if (data is None) != memory:
        raise click.UsageError("give either --data DIR or --memory")
    if authority is not None and data is None:
        raise click.UsageError("--authority needs --data: a hub in memory has a new authority every time")
    host, port = parse_listen(listen)

    from echelon.cli.process import run
    from echelon.hub.server import Settings

    settings = Settings(
        data=data,
        host=host,
        port=port,
        clusters=clusters,
        server_names=server_names,
        full_sync=sync == "full",
        audit=audit,  # type: ignore[arg-type]  # click has checked it
        anonymous=not no_anonymous,
        authority=authority,  # type: ignore[arg-type]  # click has checked it
    )
    with failures_said():
        run(_serve(settings, kubeconfig))


@contextmanager
def failures_said() -> Iterator[None]:
    """Say in one line why a hub cannot start."""
    from echelon.hub.access.identity import TokenFileError
    from echelon.hub.access.kubeconfig import KubeconfigError
    from echelon.hub.access.pki import PkiError
    from echelon.hub.storage.database import LogError
    from echelon.kube.errors import ApiError

    try:
        yield
    except (LogError, PkiError, TokenFileError, KubeconfigError, ApiError, OSError) as error:
        raise click.ClickException(str(error)) from error


async def _serve(settings: "Settings", kubeconfig: Path | None) -> None:
    from echelon.cli.process import stop_on_signals
    from echelon.hub.server import Hub

    stopping = stop_on_signals()
    running = await Hub.start(settings)
    try:
        if kubeconfig is not None:
            write_kubeconfig(running, kubeconfig)
        gc.collect()
        gc.freeze()
        where = f" --kubeconfig {kubeconfig}" if kubeconfig else ""
        say(f"echelon hub is ready at {running.url()}")
        if kubeconfig:
            say(f"try: kubectl{where} api-resources")
        sys.stderr.flush()
        await stopping.wait()
    finally:
        await running.stop()
    say("echelon hub has stopped")


def write_kubeconfig(running: "Hub", path: Path) -> None:
    """Write a context for the hub and one for each logical cluster."""
    from echelon.hub.access.kubeconfig import ClusterEntry, ContextEntry, UserEntry, merge_kubeconfig

    authority = running.keys.authorities_pem
    names = ["", *sorted(name for name in running.cluster_names() if name)]
    labels = {name: f"{CONTEXT}-{name}" if name else CONTEXT for name in names}
    merge_kubeconfig(
        path,
        [ClusterEntry(labels[name], running.url(name), authority) for name in names],
        [UserEntry(labels[name], token=running.admin_token_for(name)) for name in names],
        [ContextEntry(labels[name], labels[name], labels[name]) for name in names],
        current=CONTEXT,
    )
