"""`echelon doctor`: what a hub lacks for Echelon to work on it in full, asked with the rights of whoever runs it.

Controllers refuse to start without the kinds that they need. The rest shows only when it is too late: that nobody
checks who binds a cluster set, or that a foreign definition drops what a status says.
"""

import textwrap
from typing import TYPE_CHECKING

import click

from echelon.cli.connection import Connection, connected
from echelon.cli.terminal import echo, joined

if TYPE_CHECKING:
    from echelon.cli.doctor_checks import Finding

_WIDTH = 80
_INDENT = " " * 10
_MOST_ITEMS = 20


@click.command()
@connected
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Format to print.",
)
def doctor(*, connection: Connection, output: str) -> None:
    """Check whether a hub has what Echelon needs: its kinds, and policies for who may bind, join and accept.

    Exits with 1 if something is found, or cannot be told with the rights of the user.
    """
    from msgspec import to_builtins

    from echelon.cli.doctor_checks import examine
    from echelon.cli.output import print_document

    found = examine(connection)
    if output == "json":
        print_document(to_builtins(found), "json")
    else:
        for each in found:
            _print(each)
    if any(each.state != "ok" for each in found):
        raise click.exceptions.Exit(1)


def _print(found: "Finding") -> None:
    echo(joined(_wrapped(found.message, f"{found.state:<10}", _INDENT)))
    for item in found.items[:_MOST_ITEMS]:
        echo(joined(_wrapped(item, f"{_INDENT}  ", f"{_INDENT}    ")))
    if (more := len(found.items) - _MOST_ITEMS) > 0:
        echo(f"{_INDENT}  and {more} more (-o json lists all)")
    if found.fix:
        lines = _wrapped(found.fix, _INDENT, f"{_INDENT}  ", _WIDTH - 2)
        echo(joined([*(f"{line} \\" for line in lines[:-1]), lines[-1]]))


def _wrapped(text: str, first: str, rest: str, width: int = _WIDTH) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False, break_long_words=False
    )
