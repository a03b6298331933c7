"""How `echelon rollout list` and `status` print what they found."""

from collections.abc import Sequence
from datetime import UTC, datetime

from echelon.cli.columns import print_columns
from echelon.cli.output import SHARED, is_document, print_document
from echelon.cli.rollout_tree import columns, tree
from echelon.cli.terminal import echo
from echelon.rollouts.picture import COMPLETE, DONE, FAILED, MOVING, SOAKING, TIMED_OUT, Picture, document


def print_list(found: Sequence[Picture], where: str, output: str, *, headers: bool) -> None:
    """Print rollouts, one a line."""
    if is_document(output):
        print_document([document(each) for each in found], output)
        return
    if not found:
        echo(f"No rollouts found in {f'namespace {where}' if where else 'any namespace'}.", err=True)
        return
    titles = ["Name", "State", "Done", "InFlight", "Failed", "At", "Age"]
    wide = output == "wide"
    several = len({each.kind for each in found}) > 1
    rows = [_row(each, wide=wide, several=several) for each in found]
    if not where:
        titles, rows = ["Namespace", *titles], [[e.namespace, *row] for e, row in zip(found, rows, strict=True)]
    print_columns([*titles, *(["Revision", "Message"] if wide else [])], rows, headers=headers)


def print_picture(drawn: Picture, output: str) -> None:
    """Print a rollout."""
    if is_document(output):
        print_document(document(drawn), output)
        return
    if output in SHARED:
        from echelon.rollouts import sharing

        made = {"svg": sharing.svg, "html": sharing.html}[output](drawn, datetime.now(UTC))
        for line in made.splitlines():
            echo(line)
        return
    for line in tree(drawn, everything=output == "wide", width=columns()):
        echo(line)


def _row(each: Picture, *, wide: bool, several: bool) -> list[object]:
    at = next((group.title for group in each.groups if group.active), None) if each.state != COMPLETE else None
    counts = each.counts
    return [
        f"{each.kind}/{each.name}" if several else each.name,
        each.state,
        f"{counts.get(DONE, 0)}/{each.total}",
        counts.get(MOVING, 0) + counts.get(SOAKING, 0),
        counts.get(FAILED, 0) + counts.get(TIMED_OUT, 0),
        at,
        each.age,
        *([each.number or None, each.message] if wide else []),
    ]
