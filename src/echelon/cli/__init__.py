"""The command line. Each command lives in a module of its own, imported only when it runs, so that help is quick."""

import gc
import importlib
from typing import Any

import click

from echelon import __version__

_COMMANDS = {
    "agent": "Make a cluster part of a fleet.",
    "cluster": "Let clusters join the fleet, look at them, take them out.",
    "crds": "Print the custom resource definitions and admission policies.",
    "demo": "Roll a change out on a simulated fleet, and look at it.",
    "doctor": "Check what a hub lacks.",
    "fleet": "Write down what a fleet is like, for plans without a hub.",
    "hub": "Run the embedded hub in the foreground.",
    "install": "Print what runs Echelon in a cluster.",
    "lint": "Look at placements and work sets that are still files.",
    "placement": "Look at placements, and ask why.",
    "plan": "Tell what a change would do, cluster by cluster, before it does it.",
    "policy": "Look at policies: compliance, and what enforcing would change.",
    "rollout": "Watch rollouts, ask what they wait for, steer them.",
    "run": "Run controllers against a hub.",
    "simulate": "Try a change on a copy of the fleet, with what may go wrong.",
    "up": "Run a hub, the controllers and a simulated fleet.",
}


class _LazyGroup(click.Group):
    """Knows the names and the one-line help of commands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        # Nothing of what imports make is garbage, and looking for it takes a sixth of their time.
        gc.disable()
        try:
            command: click.Command = getattr(importlib.import_module(f"echelon.cli.{cmd_name}"), cmd_name)
        finally:
            gc.enable()
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name]) for name in self.list_commands(ctx)])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="echelon")
def main(**_ignored: Any) -> None:
    """Progressive rollouts for fleets of Kubernetes clusters."""
