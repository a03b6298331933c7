"""How `echelon up` runs, what it shows meanwhile, and what it tells people to try."""

import gc
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from shlex import quote
from shutil import which

import click

from echelon.cli.dashboard_process import dashboard_beside
from echelon.cli.examples import example
from echelon.cli.hub import CONTEXT, write_kubeconfig
from echelon.cli.process import stop_on_signals
from echelon.cli.terminal import echo, style
from echelon.controllers.running import freeze
from echelon.fleet.local import Local, Settings

_BAR = 30  # characters


async def serve(settings: Settings, kubeconfig: Path, dashboard: str) -> None:
    """Run everything until asked to stop."""
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
    gc.freeze()  # the fleet stays, and a walk through ten thousand clusters takes seconds in which nobody is served
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

    def show(self, text: str, share: float | None = None) -> None:
        """Show a line instead of the last one, with a bar where it is known how much is done."""
        text = text if share is None else f"[{'#' * int(share * _BAR):<{_BAR}}] {text}"
        if sys.stderr.isatty() and text != self._shown:
            click.echo("\r\x1b[K", nl=False, err=True)
            echo(f"    {text}", nl=False, err=True)
            self._shown = text

    def end(self) -> None:
        """Leave nothing behind."""
        if self._shown:
            click.echo("\r\x1b[K", nl=False, err=True)
