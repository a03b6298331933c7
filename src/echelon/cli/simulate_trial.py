"""What `echelon simulate` tries: a change, as its plan has it, and what goes wrong meanwhile."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import click

from echelon.cli.change_admission import OfflineAdmission
from echelon.cli.change_files import Document
from echelon.cli.plan_making import ChangePlan, make_plan
from echelon.controllers.settings import ControllerSettings
from echelon.engine.forecast.limits import SpeedLimit, most_in_flight, speed_limits
from echelon.fleet.capture import Capture
from echelon.fleet.rehearsal.chronicle import RolloutName
from echelon.fleet.rehearsal.hazards import BadHazard, Hazard, read_hazard
from echelon.fleet.rehearsal.lives import Trial, new_images
from echelon.fleet.rehearsal.world import Write

_TAKES = timedelta(minutes=1)  # that a cluster needs, where settings are compared


def hazards(failures: Sequence[str]) -> tuple[Hazard, ...]:
    """Read what is to go wrong."""
    try:
        return tuple(map(read_hazard, failures))
    except BadHazard as error:
        raise click.BadParameter(str(error), param_hint="--failures") from error


def planned(captured: Capture, documents: Sequence[Document], told: ControllerSettings) -> ChangePlan:
    """Return what a change would do, where controllers were told this."""
    found: list[ChangePlan] = []

    async def run() -> None:
        plan = await make_plan(captured.snapshot(), OfflineAdmission(), documents, captured.taken, told=told)
        found.append(plan)

    asyncio.run(run())
    return found[0]


def trial(plan: ChangePlan, threats: tuple[Hazard, ...], days: float, told: ControllerSettings) -> Trial:
    """Return what is to be lived through: the writes of a plan, its rollouts, and what goes wrong."""
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
    if any(each.kind in ("crash", "image") for each in threats) and not new_images(writes):
        raise click.UsageError("--failures: no image in the files is new, so no pod could fail by it; try offline")
    slots = {
        RolloutName(each.after.kind.resource, each.namespace, each.after.metadata.name): most_in_flight(
            each.after, captured_at
        )
        for each in plan.rollouts
        if each.differs
    }
    return Trial(writes, rollouts, threats, days * 24 * 3600, slots, told)


def limits(plan: ChangePlan) -> dict[RolloutName, tuple[SpeedLimit, ...]]:
    """Return which settings make rollouts slow."""
    now = plan.fleet.now if plan.fleet is not None else datetime.now(UTC)
    return {
        RolloutName(each.after.kind.resource, each.namespace, each.after.metadata.name): speed_limits(
            each.after, now, _TAKES
        )
        for each in plan.rollouts
        if each.differs
    }
