"""`echelon completion`: what a shell needs to complete commands, names, namespaces and contexts."""

import sys

import click
from click.shell_completion import ShellComplete, get_completion_class

from echelon.cli import main
from echelon.cli.program import PLUGIN
from echelon.cli.terminal import echo, joined

_SHELLS = ("bash", "zsh", "fish")
_NO_FILES = 4  # what kubectl is to do with what it gets: offer it, and no names of files


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(shell: str) -> None:
    """Print what makes a shell complete commands, options, and names as the hub has them.

    \b
      bash  source <(echelon completion bash)
      zsh   source <(echelon completion zsh)
      fish  echelon completion fish | source

    Put the line where your shell starts. `kubectl echelon` is completed by
    kubectl's own completion.
    """
    found = get_completion_class(shell)
    if found is None:
        raise click.ClickException(f"{shell} is not known here")
    made = found(main, {}, "echelon", "_ECHELON_COMPLETE")
    echo(joined((made.source_template % made.source_vars()).splitlines()))


def for_kubectl() -> None:
    """Answer kubectl, which asks `kubectl_complete-echelon` for what may come next in `kubectl echelon`."""
    *typed, incomplete = sys.argv[1:] or [""]
    offered = ShellComplete(main, {}, PLUGIN, "").get_completions(typed, incomplete)
    for each in offered:
        echo(each.value)
    echo(f":{_NO_FILES}")
