"""`python -m tests.engine.align.fuzz --runs 30000 --seed 0`: many whole lives, and how often a budget was broken.

A table by family: lives, those in which a controller did what the budgets forbid (counted strictly, and with what
nobody could have known in time excused), those in which a Deployment went below its own limit by itself or clusters
mended themselves as the last resort, and those that were stuck. A life that only a lower partition can end, and says
so, is counted apart. Every failure is printed with the seed that repeats it: `--family scale --seed 17 --runs 1`.
"""

import argparse
import gc
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from tests.engine.align.lives import live
from tests.engine.align.shapes import FAMILIES, KINDS, Outcome

COLUMNS = ("lives", "strict", "excused", "races", "repairs", "partition", "stuck", "deaths", "pushes", "rounds")


def lives(families: Sequence[str], first: int, runs: int, kind: str) -> Iterator[Outcome]:
    """Live so many lives, the families in turn; each family has seeds of its own."""
    for number in range(runs):
        yield live(families[number % len(families)], first + number // len(families), kind=kind)


def counted(outcome: Outcome) -> Counter[str]:
    return Counter(
        lives=1,
        strict=bool(outcome.strict),
        excused=bool(outcome.excused),
        races=bool(outcome.races),
        repairs=bool(outcome.repairs),
        partition=outcome.waited_for_partition,
        stuck=bool(outcome.stuck),
        deaths=bool(outcome.deaths),
        pushes=outcome.pushes,
        rounds=outcome.rounds,
    )


def failures(outcome: Outcome) -> list[str]:
    """Return what must not happen: a violation without an excuse, or without a death to excuse it; being stuck."""
    name = f"{outcome.family} {outcome.seed} ({outcome.kind})"
    found = [f"{name} excused: {text}" for text in outcome.excused[:1]]
    if outcome.strict and not outcome.deaths and not outcome.excused:
        found.append(f"{name} strict, and nobody died: {outcome.strict[0]}")
    return found + ([outcome.stuck] if outcome.stuck else [])


def table(sums: dict[str, Counter[str]]) -> str:
    total = Counter[str]()
    for each in sums.values():
        total.update(each)
    rows: list[tuple[str, ...]] = [("", *COLUMNS)]
    rows += [(name, *(f"{each[column]:,}" for column in COLUMNS)) for name, each in [*sums.items(), ("sum", total)]]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.engine.align.fuzz", description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed of each family")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="live no more lives after this time")
    parser.add_argument("--family", choices=FAMILIES, help="only this one")
    parser.add_argument("--kind", choices=list(KINDS), default="", help="instead of one that each life draws")
    options = parser.parse_args()
    families = [options.family] if options.family else FAMILIES
    sums = {name: Counter[str]() for name in families}
    failed = 0
    began = time.monotonic()
    gc.disable()  # lives are short, and leave nothing behind that has to be found while they last
    done = 0
    for outcome in lives(families, options.seed, options.runs, options.kind):
        done += 1
        sums[outcome.family].update(counted(outcome))
        for text in failures(outcome):
            failed += 1
            print(text, flush=True)
        if done % 200 == 0:
            gc.collect()
        if time.monotonic() - began > options.seconds:
            break
    print(f"{done:,} lives from seed {options.seed}, {time.monotonic() - began:,.0f} s\n\n{table(sums)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
