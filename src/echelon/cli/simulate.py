"""`echelon simulate`: try a change on a copy of the fleet, many times, with what may go wrong."""

import asyncio
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from echelon.api.cluster import MANAGED_CLUSTER
from echelon.cli.change_admission import OfflineAdmission
from echelon.cli.change_files import Document, read_files
from echelon.cli.change_options import files_option, fleet_option, recursive_option
from echelon.cli.connection import Connection, connected
from echelon.cli.fleet import capture_fleet
from echelon.cli.output import is_document, output_option, print_document
from echelon.cli.plan import REFUSED, captured_fleet, failures_told
from echelon.cli.plan_making import ChangePlan, make_plan
from echelon.cli.simulate_report import report_of
from echelon.cli.simulate_views import Simulation, document_of, lines_of
from echelon.cli.terminal import echo
from echelon.cli.up import Progress
from echelon.engine.forecast.limits import SpeedLimit, most_in_flight, speed_limits
from echelon.fleet.capture import Capture
from echelon.fleet.rehearsal.chronicle import RolloutName
from echelon.fleet.rehearsal.hazards import KINDS, BadHazard, Hazard, read_hazard
from echelon.fleet.rehearsal.lives import Trial, new_images
from echelon.fleet.rehearsal.seeds import simulate as live_all
from echelon.fleet.rehearsal.world import Write

VIOLATED = 11
_TAKES = timedelta(minutes=1)  # that a cluster needs, where settings are compared
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
    output: str,
) -> None:
    """Try a change on a copy of the fleet: real controllers and agents, simulated clusters, virtual time.

    It tells how long the change takes, how far it gets when it is bad, whether a budget was broken, and which setting
    makes it slow. Nothing is written to the hub, which is only read. The exit code is 0 if every life kept its
    budgets, 11 if one did not or failed, 1 if an object is refused, and otherwise that of echelon plan.
    """
    if (fleet is None) == (not from_hub):
        raise click.UsageError("say which fleet: --fleet FILE, or --from-hub")
    hazards = _hazards(failures)
    with failures_told():
        captured = captured_fleet(fleet) if fleet is not None else asyncio.run(_captured(connection))
        documents = read_files(sources, namespace or "default", recursive=recursive)
        plan = _planned(captured, documents)
    for each in plan.refused:
        echo(f"{each.document.title} is refused: {each.refusal}", err=True)
    if plan.refused:
        raise SystemExit(REFUSED)
    trial = _trial(plan, hazards, days)
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
    found = Simulation(tuple(lives), trial, tuple(failures), _limits(plan), len(captured.of(MANAGED_CLUSTER)))
    if report is not None:
        report.write_text(report_of(found), encoding="utf-8")
    if is_document(output):
        print_document(document_of(found), output)
    else:
        for line in lines_of(found):
            echo(line)
    if found.broken:
        raise SystemExit(VIOLATED)


def _hazards(failures: Sequence[str]) -> tuple[Hazard, ...]:
    try:
        return tuple(map(read_hazard, failures))
    except BadHazard as error:
        raise click.BadParameter(str(error), param_hint="--failures") from error


async def _captured(connection: Connection) -> Capture:
    async with connection.open() as client:
        return await capture_fleet(client, datetime.now(UTC))


def _planned(captured: Capture, documents: Sequence[Document]) -> ChangePlan:
    found: list[ChangePlan] = []

    async def run() -> None:
        found.append(await make_plan(captured.snapshot(), OfflineAdmission(), documents, captured.taken))

    asyncio.run(run())
    return found[0]


def _trial(plan: ChangePlan, hazards: tuple[Hazard, ...], days: float) -> Trial:
    writes = tuple(
        Write(each.kind, each.before, each.after) for each in plan.changed if each.after is not None and each.differs
    )
    rollouts = tuple(
        RolloutName(each.after.kind.resource, each.namespace, each.after.metadata.name)
        for each in plan.rollouts
        if each.differs
    )
    captured_at = plan.fleet.now if plan.fleet is not None else datetime.now(UTC)
    if not rollouts:
        raise click.UsageError("nothing is rolled out by this change; echelon plan tells what it does")
    if any(each.kind in ("crash", "image") for each in hazards) and not new_images(writes):
        raise click.UsageError("--failures: no image in the files is new, so no pod could fail by it; try offline")
    slots = {
        RolloutName(each.after.kind.resource, each.namespace, each.after.metadata.name): most_in_flight(
            each.after, captured_at
        )
        for each in plan.rollouts
        if each.differs
    }
    return Trial(writes, rollouts, hazards, days * 24 * 3600, slots)


def _limits(plan: ChangePlan) -> dict[RolloutName, tuple[SpeedLimit, ...]]:
    now = plan.fleet.now if plan.fleet is not None else datetime.now(UTC)
    return {
        RolloutName(each.after.kind.resource, each.namespace, each.after.metadata.name): speed_limits(
            each.after, now, _TAKES
        )
        for each in plan.rollouts
        if each.differs
    }
