"""Whom a placement would choose if files were applied, and why: what `echelon placement explain -f` tells."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.keys import Key
from echelon.api.placement import PLACEMENT
from echelon.cli.change_admission import OfflineAdmission
from echelon.cli.change_files import Document, read_files
from echelon.cli.connection import Connection
from echelon.cli.plan_asking import captured_fleet
from echelon.cli.plan_making import ChangePlan, plan_placements
from echelon.engine.forecast.membership import MembershipChange, membership_change
from echelon.engine.placement.decisions import DecisionGroups
from echelon.engine.placement.explain import Explanation


def explained(
    connection: Connection,
    fleet: Path | None,
    sources: Sequence[str],
    *,
    namespace: str,
    name: str | None,
    clusters: Sequence[str],
    recursive: bool,
) -> tuple[list[Explanation], MembershipChange]:
    """Return for every cluster, or some, why it would be chosen or not, and who would come, go and move.

    It takes no more than the right to read: files are judged by the schemas that Echelon comes with.
    """
    where = namespace or ("default" if fleet is not None else connection.load().namespace)
    documents = read_files(sources, where, recursive=recursive)
    key = _meant(documents, name, where)
    plan = asyncio.run(_planned(connection, fleet, documents))
    if plan.fleet is None or plan.fleet.unseen:
        raise click.ClickException(f"not all of the fleet can be seen: {plan.fleet.unseen if plan.fleet else ''}")
    for each in plan.refused:
        raise click.ClickException(f"{each.document.file}: {each.document.title} is refused: {each.refusal}")
    if key not in plan.fleet.placements:
        raise click.ClickException(f'{PLACEMENT.resource} "{key.name}" not found in namespace {key.namespace}')
    if unknown := [each for each in clusters if plan.fleet.scheduler.fleet.find(each) is None]:
        raise click.ClickException(f"{MANAGED_CLUSTER.resource} {', '.join(unknown)} not found")
    found = [
        each for each in plan.placements if (each.placement.metadata.namespace, each.placement.metadata.name) == key
    ]
    nothing = DecisionGroups({})
    return plan.fleet.explained(key, clusters), found[0].membership if found else membership_change(nothing, nothing)


async def _planned(connection: Connection, fleet: Path | None, documents: Sequence[Document]) -> ChangePlan:
    if fleet is not None:
        captured = captured_fleet(fleet)
        return await plan_placements(captured.snapshot(), OfflineAdmission(), documents, captured.taken)
    async with connection.open() as client:
        return await plan_placements(client, OfflineAdmission(), documents, datetime.now(UTC))


def _meant(documents: Sequence[Document], name: str | None, namespace: str) -> Key:
    """Return the placement that is asked about: the named one, else the one in the files."""
    if name is not None:
        return Key(namespace, name)
    there = [each.key for each in documents if each.kind == PLACEMENT]
    if len(there) == 1:
        return there[0]
    if not there:
        raise click.ClickException(f"the files have no {PLACEMENT.kind} of {PLACEMENT.api_version}: name a placement")
    raise click.ClickException(f"the files have {len(there)} placements: name the one that is meant")
