"""`echelon placement`: look at placements, ask why a cluster was or was not chosen, have groups cut again."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TextIO

import click
import msgspec
import yaml

from echelon.api.base import JSONObject
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION, Placement, PlacementDecision
from echelon.api.printing import human_duration
from echelon.cli import placement_views as views
from echelon.cli.columns import print_columns
from echelon.cli.connection import Connection, connected, namespace_option
from echelon.cli.output import is_document, listed, output_option, print_document
from echelon.cli.program import Group
from echelon.cli.terminal import echo
from echelon.engine.placement.desired import REGROUP_ANNOTATION
from echelon.engine.placement.explain import Explanation
from echelon.kube.client import MergePatch
from echelon.rollouts.placements import explain_placement, explanation_document


@click.group(cls=Group)
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
    "-f", "--filename", type=click.File(), help="Explain the placement in this file instead, which need not be stored."
)
@click.option("--cluster", "clusters", multiple=True, metavar="NAME", help="Only this cluster; repeatable.")
@output_option
def explain_(
    *,
    name: str | None,
    connection: Connection,
    namespace: str,
    filename: TextIO | None,
    clusters: Sequence[str],
    output: str,
) -> None:
    """Tell for every cluster whether a placement selects it, and why not, or with which score.

    This is computed now, from what the hub has, and does not depend on a controller that runs. With a file it tells
    what would come of a placement, or of a change to one, before it is applied.
    """
    where = namespace or connection.load().namespace
    if (name is None) == (filename is None):
        raise click.UsageError("name a placement, or give a file with one")
    wanted = name or ""
    found = asyncio.run(_explain(connection, _read(filename, where) if filename else wanted, where, clusters))
    if is_document(output):
        print_document([explanation_document(each) for each in found], output)
    elif clusters and output == "table":
        for each in found:
            for line in views.details(each):
                echo(line)
    else:
        wide = output == "wide"
        print_columns(views.headers(wide=wide), views.rows(found, wide=wide))


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


def _read(file: TextIO, namespace: str) -> Placement:
    """Read a placement, as strictly as a hub would read its form."""
    try:
        document = yaml.safe_load(file)
        found = msgspec.convert(document, Placement)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise click.ClickException(f"{file.name} has no placement: {error}") from error
    if (found.api_version, found.kind) != (PLACEMENT.api_version, PLACEMENT.kind) or not found.metadata.name:
        raise click.ClickException(f"{file.name} has no {PLACEMENT.kind} of {PLACEMENT.api_version} with a name")
    where = found.metadata.namespace or namespace
    return msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, namespace=where))


async def _explain(
    connection: Connection, wanted: str | Placement, namespace: str, clusters: Sequence[str]
) -> list[Explanation]:
    async with connection.open() as client:
        placement = await client.get(PLACEMENT, wanted, namespace) if isinstance(wanted, str) else wanted
        return await explain_placement(client, placement, clusters)


async def _regroup(connection: Connection, name: str, namespace: str) -> None:
    request = datetime.now(UTC).isoformat(timespec="microseconds")
    async with connection.open() as client:
        body = {"metadata": {"annotations": {REGROUP_ANNOTATION: request}}}
        await client.patch(PLACEMENT, name, MergePatch(body), namespace)
