"""What the commands of `echelon placement` do: read placements from a hub, and tell what they select and why."""

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
from echelon.cli.connection import Connection
from echelon.cli.output import is_document, listed, print_document
from echelon.cli.terminal import echo
from echelon.engine.placement.desired import REGROUP_ANNOTATION
from echelon.engine.placement.explain import Explanation
from echelon.kube.client import MergePatch
from echelon.rollouts.placements import explain_placement, explanation_document


def print_list(connection: Connection, where: str, output: str, *, headers: bool) -> None:
    """Print placements, one a line."""
    objects = asyncio.run(_placements(connection, where))
    if is_document(output):
        print_document(listed(objects), output)
        return
    if not objects:
        echo(f"No placements found in {f'namespace {where}' if where else 'any namespace'}.", err=True)
        return
    wide, now = output == "wide", datetime.now(UTC)
    found = [msgspec.convert(obj, Placement) for obj in objects]
    more = ["Groups", "Decisions", "Update", "Age"] if wide else []
    titles = ["Name", "Succeeded", "Reason", "SelectedClusters", *more]
    rows = [[*([] if where else [each.metadata.namespace]), *_row(each, now, wide=wide)] for each in found]
    print_columns([*([] if where else ["Namespace"]), *titles], rows, headers=headers)


def show(connection: Connection, name: str, namespace: str, output: str) -> None:
    """Print a placement."""
    found, decisions = asyncio.run(_one(connection, name, namespace))
    if is_document(output):
        print_document(listed([found, *decisions]), output)
        return
    typed = [msgspec.convert(each, PlacementDecision) for each in decisions]
    for line in views.tree(msgspec.convert(found, Placement), typed, everything=output == "wide"):
        echo(line)


def print_explanation(
    connection: Connection, wanted: str | TextIO, namespace: str, clusters: Sequence[str], output: str
) -> None:
    """Tell why a placement, of a name or in a file, selects whom it selects."""
    found = wanted if isinstance(wanted, str) else _read(wanted, namespace)
    told = asyncio.run(_explain(connection, found, namespace, clusters))
    if is_document(output):
        print_document([explanation_document(each) for each in told], output)
    elif clusters and output == "table":
        for each in told:
            for line in views.details(each):
                echo(line)
    else:
        wide = output == "wide"
        print_columns(views.headers(wide=wide), views.rows(told, wide=wide))


def regroup(connection: Connection, name: str, namespace: str) -> None:
    """Have groups cut again."""
    asyncio.run(_regroup(connection, name, namespace))
    echo(f"placement {namespace}/{name} will be regrouped")


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
