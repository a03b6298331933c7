"""`echelon up`: a hub, the controllers and a simulated fleet with its agents, in one process and one command."""

from pathlib import Path

import click

from echelon.cli.listening import parse_listen
from echelon.cli.logs import logged
from echelon.fleet.member.fleet_spec import CLAUSES, BadFleetSpec

_USUAL = (
    "regions eu/us/ap; environments staging/production; versions v1.36.1/v1.35.4; canary label on 2; "
    "slow starts on 2; image *:bad* fails on all"
)
_COLUMN = 25


def _grammar(*, trouble: bool) -> str:
    listed = [each for each in CLAUSES if each.is_trouble is trouble]
    return "\n".join(f"  {each.form:{_COLUMN}}{each.meaning}" for each in listed)


_EPILOG = f"""
\b
Clauses of --fleet, separated by semicolons:
{_grammar(trouble=False)}

\b
Troubles, of one cluster that --seed draws or "on 3" or "on all" clusters, and
always or "from 60 to 300" or "from 60" seconds after the start:
{_grammar(trouble=True)}

\b
Every fleet begins with these, and what you give comes on top:
  {_USUAL.replace("; ", ";" + chr(10) + "  ")}
A later clause replaces an earlier one of its kind; troubles add up.
"""


@click.command(epilog=_EPILOG)
@click.option("--clusters", type=click.IntRange(min=1), default=50, show_default=True, help="Size of the fleet.")
@click.option(
    "--fleet",
    "clauses",
    default="",
    metavar="CLAUSE;...",
    help="What its clusters are like, besides the usual; see below.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Draws which clusters are troubled.")
@click.option("--data", type=click.Path(path_type=Path, file_okay=False), help="Directory for state and keys.")
@click.option(
    "--listen",
    default="127.0.0.1:0",
    show_default=True,
    metavar="HOST:PORT",
    help="Port 0 takes a free one; with --data, the one that it had before.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("echelon.kubeconfig"),
    show_default=True,
    help="Kubeconfig to write: a context for the hub and one for each cluster.",
)
@click.option(
    "--dashboard",
    default="127.0.0.1:0",
    show_default=True,
    metavar="HOST:PORT",
    callback=lambda _, __, value: parse_listen(value, "--dashboard") and value if value else "",
    help="Serve the dashboard there, and print a link that signs in, once. Empty: no dashboard.",
)
@logged(level="error", verbose="info")
def up(
    *, clusters: int, clauses: str, seed: int, data: Path | None, listen: str, kubeconfig: Path, dashboard: str
) -> None:
    """Run everything on this machine: a hub, the controllers, and a simulated fleet with its agents.

    The clusters have nodes, pods that take time to start, and controllers that roll Deployments, StatefulSets,
    DaemonSets, Jobs and CloneSets as Kubernetes does. Without --data, everything is gone at the end.
    """
    host, port = parse_listen(listen)

    from echelon.cli.hub import failures_said
    from echelon.cli.process import run
    from echelon.cli.up_process import serve
    from echelon.fleet.local import Settings

    settings = Settings(f"{clusters} clusters; {_USUAL}; {clauses}", seed, data, host, port)
    try:
        with failures_said():
            run(serve(settings, kubeconfig, dashboard))
    except BadFleetSpec as error:
        raise click.BadParameter(str(error), param_hint="--fleet") from error
