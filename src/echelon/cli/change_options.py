"""Options of commands that look at a change which is still a file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

files_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "-f", "--filename", "sources", multiple=True, required=True, help="File or directory, - for input; repeatable."
)
recursive_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "-R", "--recursive", is_flag=True, help="Directories with all that is below them."
)
fleet_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--fleet",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Plan for this fleet, which echelon fleet capture wrote, and ask no hub.",
)
