"""Plain columns, as kubectl prints them: no frames, so that they can be cut and grepped."""

from collections.abc import Sequence

from echelon.cli.terminal import clean, echo

_GAP = 3


def print_columns(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table; what is missing shows as <none>."""
    texts = [[header.upper() for header in headers], *([_text(cell) for cell in row] for row in rows)]
    widths = [max(len(row[i]) for row in texts) for i in range(len(headers))]
    for row in texts:
        cells = (cell.ljust(width + _GAP) for cell, width in zip(row, widths, strict=True))
        echo("".join(cells).rstrip())


def _text(cell: object) -> str:
    if cell is None:
        return "<none>"
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return clean(str(cell))
