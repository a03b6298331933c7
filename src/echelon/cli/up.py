"""`echelon up`: a hub, the controllers and a simulated fleet with its agents, in one process and one command."""

import sys
from contextlib import AsyncExitStack
from pathlib import Path
from shlex import quote
from shutil import which

import click

from echelon.cli.dashboard_process import dashboard_beside
from echelon.cli.examples import example
from echelon.cli.hub import CONTEXT, write_kubeconfig
from echelon.cli.logs import logged
from echelon.cli.process import parse_listen, run, stop_on_signals
from echelon.cli.terminal import echo, style
from echelon.controllers.running import freeze
from echelon.fleet.local import Local, Settings
from echelon.fleet.member.fleet_spec import CLAUSES, BadFleetSpec
from echelon.hub.access.identity import TokenFileError
from echelon.hub.access.kubeconfig import KubeconfigError
from echelon.hub.access.pki import PkiError
from echelon.hub.storage.database import LogError
from echelon.kube.errors import ApiError

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
    settings = Settings(f"{clusters} clusters; {_USUAL}; {clauses}", seed, data, host, port)
    try:
        run(_serve(settings, kubeconfig, dashboard))
    except BadFleetSpec as error:
        raise click.BadParameter(str(error), param_hint="--fleet") from error
    except (LogError, PkiError, TokenFileError, KubeconfigError, ApiError, OSError) as error:
        raise click.ClickException(str(error)) from error


async def _serve(settings: Settings, kubeconfig: Path, dashboard: str) -> None:
    local = await started(settings)
    stopping = stop_on_signals()
    try:
        write_kubeconfig(local.hub, kubeconfig)
        freeze()
        say(f"{len(local.fleet)} clusters have joined the hub at {local.hub.url()}.")
        async with AsyncExitStack() as stack:
            if dashboard:
                options = ("--kubeconfig", str(kubeconfig), "--context", CONTEXT, "--listen", dashboard)
                url = await stack.enter_async_context(dashboard_beside(options, local.hub.admin_token))
                say(f"The dashboard, by a link that works once: {url}")
            look_around(local, kubeconfig)
            await stopping.wait()
    finally:
        await local.stop()
    say("Everything has stopped.")


async def started(settings: Settings) -> Local:
    """Start everything, and show how far it is."""
    progress = Progress()
    local = await Local.start(settings, on_member=lambda count: progress.show(f"{count} clusters made"))
    await local.wait_joined(lambda count: progress.show(f"{count} of {len(local.fleet)} clusters have joined"))
    progress.end()
    return local


def look_around(local: Local, kubeconfig: Path) -> None:
    """Print what to try."""
    member = next(iter(local.fleet.members))
    echo("Look around:")
    echo(f"  export KUBECONFIG={quote(str(kubeconfig))}")
    echo("  kubectl get managedclusters -L region,environment,canary")
    echo(f"  kubectl apply -f {quote(str(example('canary-then-regions.yaml')))}")
    echo(f"  {program()} rollout watch storefront -n shop")
    echo(f"  kubectl --context echelon-{member} get deployments,pods,events -n shop")
    echo(f"  kubectl --context echelon-{member} logs -n shop deployment/storefront")


def program() -> str:
    """Return what to type for this program, wherever it was installed."""
    if (found := which("echelon")) and (here := which(sys.argv[0])) and Path(found).samefile(here):
        return "echelon"
    module = Path(sys.argv[0]).name == "__main__.py"
    return f"{quote(sys.executable)} -m echelon" if module else quote(sys.argv[0])


def say(text: str) -> None:
    """Print a step."""
    echo(style("==> ", fg="green", bold=True) + text)


class Progress:
    """A line that is written over, where there is a terminal."""

    def __init__(self) -> None:
        self._shown = ""

    def show(self, text: str) -> None:
        """Show a line instead of the last one."""
        if sys.stderr.isatty() and text != self._shown:
            click.echo("\r\x1b[K", nl=False, err=True)
            echo(f"    {text}", nl=False, err=True)
            self._shown = text

    def end(self) -> None:
        """Leave nothing behind."""
        if self._shown:
            click.echo("\r\x1b[K", nl=False, err=True)
