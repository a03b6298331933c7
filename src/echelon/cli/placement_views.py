"""How placements and explanations look on a terminal of eighty columns."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from echelon.api.placement import DecisionGroupStatus, Placement, PlacementDecision
from echelon.engine.placement.explain import Explanation
from echelon.engine.placement.slices import read_slice

WIDTH = 80


def tree(placement: Placement, decisions: Sequence[PlacementDecision], *, everything: bool = False) -> Iterator[str]:
    """Walk the lines that show a placement, its groups, their decisions and clusters."""
    meta, told = placement.metadata, placement.status
    groups, how = told.decision_groups, placement.spec.decision_strategy.update_strategy.type
    counts = f"{_count(told.number_of_selected_clusters, 'cluster')} in {_count(len(groups), 'group')}"
    yield f"Placement {meta.namespace}/{meta.name}: {counts}, {how}"
    for condition in told.conditions:
        said = (
            f"{condition.type.removeprefix('Placement')}: {condition.status}, {condition.message or condition.reason}"
        )
        yield from textwrap.wrap(said, WIDTH, initial_indent="  ", subsequent_indent="    ")
    if told.conditions and any(each.observed_generation < meta.generation for each in told.conditions):
        yield "  (the last change of the placement has not been looked at yet)"
    contents = {decision.metadata.name: read_slice(decision).clusters for decision in decisions}
    for number, group in enumerate(groups, start=1):
        last = number == len(groups)
        yield f"{'└─' if last else '├─'} {_group(group)}"
        for line in _decisions(group, contents, everything=everything):
            yield f"{'   ' if last else '│  '}{line}"


def _group(group: DecisionGroupStatus) -> str:
    name = f" {group.decision_group_name}" if group.decision_group_name else ""
    return f"group {group.decision_group_index}{name}: {_count(group.cluster_count, 'cluster')}"


def _decisions(group: DecisionGroupStatus, contents: dict[str, tuple[str, ...]], *, everything: bool) -> Iterator[str]:
    for number, name in enumerate(group.decisions, start=1):
        last = number == len(group.decisions)
        branch, below = ("└─ ", "   ") if last else ("├─ ", "│  ")
        if name not in contents:
            yield f"{branch}{name}: missing"
            continue
        clusters = contents[name]
        text = f"{name} ({len(clusters)})" + (f": {', '.join(clusters)}" if clusters else "")
        lines = textwrap.wrap(
            text, WIDTH - 3, initial_indent=branch, subsequent_indent=f"{below}  ", break_on_hyphens=False
        )
        if len(lines) > 2 and not everything:
            lines = [lines[0], textwrap.shorten(lines[1], WIDTH - 8, placeholder="") + " ..."]
        yield from lines


def rows(explanations: Iterable[Explanation], *, wide: bool) -> list[list[object]]:
    """Return explanations as rows of a table."""
    return [
        [
            each.cluster,
            "yes" if each.selected else "no",
            each.total,
            each.reason,
            *([each.rank, _parts(each), each.message] if wide else [_short(each)]),
        ]
        for each in explanations
    ]


def headers(*, wide: bool) -> list[str]:
    """Return the headers of those rows."""
    return ["Cluster", "In", "Score", "Reason", *(["Rank", "Scores", "Message"] if wide else ["Message"])]


def details(each: Explanation) -> Iterator[str]:
    """Walk the lines that explain one cluster."""
    yield f"{each.cluster} {'is selected' if each.selected else 'is not selected'}: {each.reason}"
    yield from textwrap.wrap(each.message, WIDTH, initial_indent="  ", subsequent_indent="    ")
    if each.until is not None:
        yield f"  tolerated until {each.until:%Y-%m-%dT%H:%M:%SZ}"
    if each.total is not None:
        yield f"  score {each.total}, number {each.rank} of those that passed all filters"
    for part in each.parts:
        yield f"    {part.prioritizer}: {part.score} x {part.weight} = {part.score * part.weight}"


def _parts(each: Explanation) -> str | None:
    return ",".join(f"{part.prioritizer}={part.score * part.weight}" for part in each.parts) or None


def _short(each: Explanation) -> str:
    return textwrap.shorten(each.message, 48, placeholder=" ...")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
