"""What a run says in the end: a table for people, or JSON for comparing runs."""

import json
import os
from collections.abc import Mapping, Sequence

from bench.figures import MEANINGS, ratio
from bench.phases import Spent
from bench.pipeline import Stage


def as_table(clusters: int, figures: Mapping[str, float], spent: Mapping[str, Spent], *, compare: bool) -> str:
    """Return the figures of a server, next to those of kube-apiserver, and what the phases took."""
    rows: list[tuple[str, ...]] = [("", "measured", "kube-apiserver", "times better", "aim")]
    rows += [_row(name, value, clusters) for name, value in figures.items()]
    if not compare:
        rows = [row[:2] for row in rows]
    times = [("phase", "seconds", "server CPU s", "client CPU s")]
    times += [
        (name, f"{took.seconds:.2f}", f"{took.server_cpu:.2f}", f"{took.client_cpu:.2f}")
        for name, took in spent.items()
    ]
    cores = len(os.sched_getaffinity(0))
    return f"{clusters:,} ManagedClusters, {cores} cores\n\n{aligned(rows)}\n\n{aligned(times)}"


def _row(name: str, value: float, clusters: int) -> tuple[str, ...]:
    meaning, times = MEANINGS[name], ratio(name, value, clusters)
    known = f"{_number(meaning.kubernetes)} {meaning.unit}" if meaning.kubernetes is not None and times else ""
    return (
        meaning.title,
        f"{_number(value)} {meaning.unit}",
        known,
        f"{times:.1f}" if times else "",
        f"{meaning.aim:.1f}" if meaning.aim and times else "",
    )


def pipeline_table(stages: Sequence[Stage]) -> str:
    """Return the stages of a create, with the share that each has in the whole."""
    whole = sum(stage.microseconds for stage in stages)
    rows = [("a create inside the hub", "µs", "share")]
    rows += [(stage.name, f"{stage.microseconds:.1f}", f"{stage.microseconds / whole:.0%}") for stage in stages]
    return aligned([*rows, ("together", f"{whole:.1f}", "")])


def as_json(
    clusters: int,
    figures: Mapping[str, float],
    spent: Mapping[str, Spent],
    stages: Sequence[Stage],
    parts: Mapping[str, Mapping[str, float]],
) -> str:
    """Return everything, unrounded."""
    document = {
        "clusters": clusters,
        "cores": len(os.sched_getaffinity(0)),
        "figures": {
            name: {"value": value, "unit": MEANINGS[name].unit, "timesBetter": ratio(name, value, clusters)}
            for name, value in figures.items()
        },
        "phases": {
            name: {"seconds": took.seconds, "serverCPU": took.server_cpu, "clientCPU": took.client_cpu}
            for name, took in spent.items()
        },
        "pipeline": {stage.name: stage.microseconds for stage in stages},
        **{name: dict(part) for name, part in parts.items()},
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Align columns: the first to the left, numbers to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = (
        "  ".join(cell.ljust(width) if not column else cell.rjust(width) for column, (cell, width) in enumerate(pairs))
        for pairs in (zip(row, widths, strict=True) for row in rows)
    )
    return "\n".join(line.rstrip() for line in lines)
