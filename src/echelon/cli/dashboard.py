"""`echelon dashboard`: the fleet in a browser, with the rights of whoever signs in."""

from pathlib import Path

import click

from echelon.cli.connection import Connection, connected
from echelon.cli.listening import parse_listen
from echelon.cli.logs import logged

_PORT = "127.0.0.1:8090"


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

    from echelon.cli import dashboard_serving as serving
    from echelon.cli.process import run
    from echelon.dashboard.server import InTheClear, Settings

    pair = serving.Pair(tls_cert, tls_key) if tls_cert is not None and tls_key is not None else None
    settings = Settings(host, port, pair.context() if pair is not None else None, url.rstrip("/"))
    try:
        settings.check()
    except InTheClear as error:
        raise click.UsageError(str(error)) from error
    run(serving.serve(connection.load(), settings, pair, attached=attached))
