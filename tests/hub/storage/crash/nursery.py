"""Starts hubs quickly: Python and the package are loaded once, and each hub is a fork that runs the command."""

import json
import os
import sys

import click

from echelon.cli import main
from echelon.hub import server  # noqa: F401 - loaded before the first fork
from echelon.hub.catalogue.resources import builtin_resources


def nursery() -> None:
    """Run a hub for each line of arguments; report its process id, and its exit code when it has ended."""
    for resource in builtin_resources():
        _ = resource.structural, resource.validator
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            os.dup2(2, 1)
            try:
                main(json.loads(line), standalone_mode=False)
            except click.ClickException as error:
                error.show()
                os._exit(1)
            os._exit(0)
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    nursery()
