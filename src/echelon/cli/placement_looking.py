"""What the commands of `echelon placement` do: read placements from a hub, and tell what they select and why."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from echelon.api.base import JSONObject
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION, Placement, PlacementDecision
from echelon.api.printing import human_duration
from echelon.api.times import format_micro_time, parse_time
from echelon.cli import placement_views as views
from echelon.cli.columns import print_columns
from echelon.cli.connection import Connection
from echelon.cli.output import is_document, listed, print_document
from echelon.cli.plan_views import membership
from echelon.cli.terminal import echo
from echelon.engine.forecast.membership import MembershipChange
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


def explained(connection: Connection, name: str, namespace: str, clusters: Sequence[str]) -> list[Explanation]:
    """Tell why a placement selects whom it selects."""
    return asyncio.run(_explain(connection, name, namespace, clusters))


def print_explanation(told: Sequence[Explanation], output: str, *, details: bool) -> None:
    """Print why clusters are selected or not, at length if that is wanted."""
    if is_document(output):
        print_document([explanation_document(each) for each in told], output)
    elif details and output == "table":
        for each in told:
            for line in views.details(each):
                echo(line)
    else:
        wide = output == "wide"
        print_columns(views.headers(wide=wide), views.rows(told, wide=wide))


def print_membership(change: MembershipChange, output: str) -> None:
    """Print who would come, go and move."""
    if is_document(output):
        return
    for line in [*membership(change, everything=output == "wide")] or ["    the same clusters in the same groups"]:
        echo(line)


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
        made = parse_time(each.metadata.creation_timestamp) or now
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
        return await explain_placement(client, await client.get(PLACEMENT, name, namespace), clusters)


async def _regroup(connection: Connection, name: str, namespace: str) -> None:
    request = format_micro_time(datetime.now(UTC))
    async with connection.open() as client:
        body = {"metadata": {"annotations": {REGROUP_ANNOTATION: request}}}
        await client.patch(PLACEMENT, name, MergePatch(body), namespace)
