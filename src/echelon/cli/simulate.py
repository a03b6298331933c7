"""`echelon simulate`: try a change on a copy of the fleet, many times, with what may go wrong."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from echelon.cli.change_options import files_option, fleet_option, recursive_option
from echelon.cli.connection import Connection, connected
from echelon.cli.controller_options import removals_told, settings_of
from echelon.cli.output import is_document, output_option
from echelon.cli.terminal import echo
from echelon.fleet.rehearsal.hazards import KINDS

if TYPE_CHECKING:
    from echelon.engine.rollout.thresholds import Threshold

VIOLATED = 11
_MOST_SEEDS = 10_000


@click.command()
@files_option
@recursive_option
@fleet_option
@click.option("--from-hub", is_flag=True, help="Capture the fleet of the hub now, and try the change on a copy of it.")
@connected
@click.option("-n", "--namespace", default="", help="Namespace of objects that name none; default if not given.")
@click.option(
    "--failures",
    multiple=True,
    metavar="WORDS",
    help=f'What goes wrong, such as "crash on 30% after 10m"; {", ".join(KINDS)}; repeatable.',
)
@click.option("--seeds", type=click.IntRange(1, _MOST_SEEDS), default=20, show_default=True, help="How many lives.")
@click.option("--first-seed", type=click.IntRange(min=0), default=0, show_default=True, help="To see one life again.")
@click.option("--processes", type=click.IntRange(min=1), default=None, help="At a time; as many as there are cores.")
@click.option("--days", type=click.FloatRange(min=0.01), default=7.0, show_default=True, help="Longest life.")
@click.option("--report", type=click.Path(path_type=Path, dir_okay=False), help="HTML page to write.")
@removals_told
@output_option
def simulate(
    *,
    sources: Sequence[str],
    recursive: bool,
    fleet: Path | None,
    from_hub: bool,
    connection: Connection,
    namespace: str,
    failures: Sequence[str],
    seeds: int,
    first_seed: int,
    processes: int | None,
    days: float,
    report: Path | None,
    trust_decisions: bool,
    max_removals: "Threshold",
    removal_grace: float,
    output: str,
) -> None:
    """Try a change on a copy of the fleet: real controllers and agents, simulated clusters, virtual time.

    It tells how long the change takes, how far it gets when it is bad, whether a budget was broken, and which setting
    makes it slow. Nothing is written to the hub, which is only read. The exit code is 0 if every life kept its
    budgets, 11 if one did not or failed, 1 if an object is refused, and otherwise that of echelon plan.
    """
    if (fleet is None) == (not from_hub):
        raise click.UsageError("say which fleet: --fleet FILE, or --from-hub")

    from echelon.api.cluster import MANAGED_CLUSTER
    from echelon.cli import simulate_trial as trials
    from echelon.cli.change_files import read_files
    from echelon.cli.fleet_capturing import captured_now
    from echelon.cli.plan_asking import REFUSED, captured_fleet, failures_told
    from echelon.cli.simulate_views import Simulation, document_of, lines_of
    from echelon.cli.up_process import Progress
    from echelon.fleet.rehearsal.seeds import simulate as live_all

    hazards = trials.hazards(failures)
    told = settings_of(trust_decisions=trust_decisions, max_removals=max_removals, removal_grace=removal_grace)
    with failures_told():
        captured = captured_fleet(fleet) if fleet is not None else captured_now(connection)
        documents = read_files(sources, namespace or "default", recursive=recursive)
        plan = trials.planned(captured, documents, told)
    for each in plan.refused:
        echo(f"{each.document.title} is refused: {each.refusal}", err=True)
    if plan.refused:
        raise SystemExit(REFUSED)
    trial = trials.trial(plan, hazards, days, told)
    progress = Progress()
    try:
        lives = live_all(
            captured,
            trial,
            range(first_seed, first_seed + seeds),
            processes=processes or os.cpu_count() or 1,
            heard=progress.show,
        )
    finally:
        progress.end()
    found = Simulation(tuple(lives), trial, tuple(failures), trials.limits(plan), len(captured.of(MANAGED_CLUSTER)))
    if report is not None:
        from echelon.cli.simulate_report import report_of

        report.write_text(report_of(found), encoding="utf-8")
    if is_document(output):
        from echelon.cli.output import print_document

        print_document(document_of(found), output)
    else:
        for line in lines_of(found):
            echo(line)
    if found.broken:
        raise SystemExit(VIOLATED)
