"""Plain columns, as kubectl prints them: no frames, so that they can be cut and grepped."""

from collections.abc import Sequence

from echelon.cli.terminal import clean, echo

_GAP = 3


def print_columns(titles: Sequence[str], rows: Sequence[Sequence[object]], *, headers: bool = True) -> None:
    """Print a table; what is missing shows as <none>."""
    texts = [[_text(cell) for cell in row] for row in rows]
    if headers:
        texts.insert(0, [title.upper() for title in titles])
    widths = [max((len(row[i]) for row in texts), default=0) for i in range(len(titles))]
    for row in texts:
        cells = (cell.ljust(width + _GAP) for cell, width in zip(row, widths, strict=True))
        echo("".join(cells).rstrip())


def _text(cell: object) -> str:
    if cell is None:
        return "<none>"
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return clean(str(cell))
