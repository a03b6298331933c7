"""`echelon placement`: look at placements, ask why a cluster was or was not chosen, have groups cut again."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.keys import Key
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION, Placement, PlacementDecision
from echelon.api.printing import human_duration
from echelon.cli import placement_views as views
from echelon.cli.change_files import recursive_option
from echelon.cli.columns import print_columns
from echelon.cli.connection import Connection, connected
from echelon.cli.output import is_document, listed, output_option, print_document
from echelon.cli.plan import fleet_option
from echelon.cli.plan_explaining import explained
from echelon.cli.plan_views import membership
from echelon.cli.terminal import echo
from echelon.engine.forecast.membership import MembershipChange
from echelon.engine.placement.desired import REGROUP_ANNOTATION
from echelon.engine.placement.explain import Explanation, explain
from echelon.kube.client import MergePatch
from echelon.rollouts.placements import read_scheduler

namespace_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "-n", "--namespace", default="", help="Namespace; that of the context if not given."
)


@click.group()
def placement() -> None:
    """Look at placements, and ask why."""


@placement.command("list")
@connected
@namespace_option
@click.option("-A", "--all-namespaces", is_flag=True, help="Placements of all namespaces.")
@output_option
def list_(*, connection: Connection, namespace: str, all_namespaces: bool, output: str) -> None:
    """List placements, with what they selected."""
    where = "" if all_namespaces else namespace or connection.load().namespace
    objects = asyncio.run(_placements(connection, where))
    if is_document(output):
        print_document(listed(objects), output)
        return
    if not objects:
        echo(f"No placements found in {f'namespace {where}' if where else 'any namespace'}.", err=True)
        return
    wide, now = output == "wide", datetime.now(UTC)
    found = [msgspec.convert(obj, Placement) for obj in objects]
    headers = [
        "Name",
        "Succeeded",
        "Reason",
        "SelectedClusters",
        *(["Groups", "Decisions", "Update", "Age"] if wide else []),
    ]
    rows = [[*([each.metadata.namespace] if all_namespaces else []), *_row(each, now, wide=wide)] for each in found]
    print_columns([*(["Namespace"] if all_namespaces else []), *headers], rows)


@placement.command()
@click.argument("name")
@connected
@namespace_option
@output_option
def show(*, name: str, connection: Connection, namespace: str, output: str) -> None:
    """Show the groups, decisions and clusters of a placement. With -o wide all clusters are listed."""
    where = namespace or connection.load().namespace
    found, decisions = asyncio.run(_one(connection, name, where))
    if is_document(output):
        print_document(listed([found, *decisions]), output)
        return
    typed = [msgspec.convert(each, PlacementDecision) for each in decisions]
    for line in views.tree(msgspec.convert(found, Placement), typed, everything=output == "wide"):
        echo(line)


@placement.command("explain")
@click.argument("name", required=False)
@connected
@namespace_option
@click.option(
    "-f",
    "--filename",
    "sources",
    multiple=True,
    help="Explain with these files applied, which change nothing; repeatable.",
)
@recursive_option
@fleet_option
@click.option("--cluster", "clusters", multiple=True, metavar="NAME", help="Only this cluster; repeatable.")
@output_option
def explain_(
    *,
    name: str | None,
    connection: Connection,
    namespace: str,
    sources: Sequence[str],
    recursive: bool,
    fleet: Path | None,
    clusters: Sequence[str],
    output: str,
) -> None:
    """Tell for every cluster whether a placement selects it, and why not, or with which score.

    This is computed now, from what the hub has, and does not depend on a controller that runs. With files, the same as
    echelon plan takes, it tells what would come of the placement in them, or of the named one when something around it
    changes, and who would come, go and move.
    """
    if name is None and not sources:
        raise click.UsageError("name a placement, or give a file with one")
    if fleet is not None and not sources:
        raise click.UsageError("--fleet is for files: give some with -f")
    change: MembershipChange | None = None
    if sources:
        found, change = explained(
            connection, fleet, sources, namespace=namespace, name=name, clusters=clusters, recursive=recursive
        )
    else:
        where = namespace or connection.load().namespace
        found = asyncio.run(_explain(connection, name or "", where, clusters))
    if is_document(output):
        print_document([views.document(each) for each in found], output)
    elif clusters and output == "table":
        for each in found:
            for line in views.details(each):
                echo(line)
    else:
        wide = output == "wide"
        print_columns(views.headers(wide=wide), views.rows(found, wide=wide))
    if change is not None and not is_document(output):
        for line in [*membership(change, everything=output == "wide")] or ["    the same clusters in the same groups"]:
            echo(line)


@placement.command()
@click.argument("name")
@connected
@namespace_option
def regroup(*, name: str, connection: Connection, namespace: str) -> None:
    """Have the decision groups of a placement cut again from scratch, once."""
    where = namespace or connection.load().namespace
    asyncio.run(_regroup(connection, name, where))
    echo(f"placement {where}/{name} will be regrouped")


def _row(each: Placement, now: datetime, *, wide: bool) -> list[object]:
    satisfied = next((one for one in each.status.conditions if one.type == "PlacementSatisfied"), None)
    row: list[object] = [
        each.metadata.name,
        satisfied.status if satisfied else None,
        satisfied.reason if satisfied else None,
        each.status.number_of_selected_clusters,
    ]
    if wide:
        groups = each.status.decision_groups
        made = datetime.fromisoformat(each.metadata.creation_timestamp) if each.metadata.creation_timestamp else now
        row += [len(groups), sum(len(group.decisions) for group in groups)]
        row += [each.spec.decision_strategy.update_strategy.type, human_duration(int((now - made).total_seconds()))]
    return row


async def _placements(connection: Connection, namespace: str) -> list[JSONObject]:
    async with connection.open() as client:
        return list((await client.list(PLACEMENT.untyped(), namespace)).items)


async def _one(connection: Connection, name: str, namespace: str) -> tuple[JSONObject, list[JSONObject]]:
    """Return a placement and the decisions that it owns, by name."""
    async with connection.open() as client:
        found = await client.get(PLACEMENT.untyped(), name, namespace)
        decisions = (await client.list(PLACEMENT_DECISION.untyped(), namespace)).items
    uid = found["metadata"]["uid"]
    return found, [
        each for each in decisions if any(owner["uid"] == uid for owner in each["metadata"].get("ownerReferences", []))
    ]


async def _explain(connection: Connection, name: str, namespace: str, clusters: Sequence[str]) -> list[Explanation]:
    async with connection.open() as client:
        scheduler = await read_scheduler(client)
        placement = await client.get(PLACEMENT, name, namespace)
    scheduler.placement(placement)
    key = Key(placement.metadata.namespace, placement.metadata.name)
    if unknown := [each for each in clusters if scheduler.fleet.find(each) is None]:
        raise click.ClickException(f"{MANAGED_CLUSTER.resource} {', '.join(unknown)} not found")
    schedule = scheduler.schedule(key, datetime.now(UTC))
    return [] if schedule is None else explain(schedule, scheduler.fleet, clusters or None)


async def _regroup(connection: Connection, name: str, namespace: str) -> None:
    request = datetime.now(UTC).isoformat(timespec="microseconds")
    async with connection.open() as client:
        body = {"metadata": {"annotations": {REGROUP_ANNOTATION: request}}}
        await client.patch(PLACEMENT, name, MergePatch(body), namespace)
