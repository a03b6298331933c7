"""The command line: what people type."""

from typing import Any

import click

from echelon import __version__
from echelon.cli.program import PLUGIN, Program

_COMMANDS = {
    "agent": "Make a cluster part of a fleet.",
    "cluster": "Let clusters join the fleet, look at them, take them out.",
    "completion": "Print what makes a shell complete commands and names.",
    "crds": "Print the custom resource definitions and admission policies.",
    "dashboard": "Show the fleet in a browser, with the rights of whoever signs in.",
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


@click.group(cls=Program, help_of=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="echelon")
def main(**_ignored: Any) -> None:
    """Progressive rollouts for fleets of Kubernetes clusters."""


def plugin() -> None:
    """Run the program as `kubectl echelon`."""
    main(prog_name=PLUGIN)
