"""What the commands of `echelon policy` do: read policies from a hub, and print what is known of them."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from echelon.api.base import JSONObject
from echelon.api.policy import POLICY
from echelon.cli import policy_diff, policy_views
from echelon.cli.columns import print_columns
from echelon.cli.connection import Connection
from echelon.cli.exit_codes import Ended, ExitCode
from echelon.cli.output import is_document, print_document
from echelon.cli.policy_changes import Preview, preview_of
from echelon.cli.rollout_tree import columns
from echelon.cli.terminal import echo
from echelon.engine.policy.names import ROOTS
from echelon.engine.policy.raw_policy import RawPolicy
from echelon.kube.client import Reader
from echelon.rollouts.kinds import find_document, readable
from echelon.rollouts.policies import found_policy
from echelon.rollouts.policy_reading import PolicyReading, read_policy, read_replicas
from echelon.rollouts.policy_state import clusters_of, ways_of_policy
from echelon.rollouts.refusals import Refused


def print_list(connection: Connection, where: str, output: str, *, headers: bool) -> None:
    """Print policies, one a line."""
    documents = asyncio.run(_policies(connection, where))
    found = []
    for document in documents:
        try:
            with readable(POLICY, document):
                found.append(msgspec.convert(document, RawPolicy))
        except Refused as error:  # which says nothing against the others
            echo(error.message, err=True)
    listed = [policy_views.list_document(each) for each in found]
    if is_document(output):
        print_document(listed, output)
        return
    if not found:
        echo(f"No policies found in {f'namespace {where}' if where else 'any namespace'}.", err=True)
        return
    wide, now = output == "wide", datetime.now(UTC)
    rows = [policy_views.row(said, each, now, wide=wide) for said, each in zip(listed, found, strict=True)]
    titles = [*policy_views.HEADERS, *(["Age"] if wide else [])]
    if not where:
        titles = ["Namespace", *titles]
        rows = [[each.metadata.namespace, *row] for each, row in zip(found, rows, strict=True)]
    print_columns(titles, rows, headers=headers)


def show(connection: Connection, name: str, namespace: str, output: str) -> None:
    """Print a policy."""
    reading = asyncio.run(_reading(connection, name, namespace))
    picture = found_policy(reading, datetime.now(UTC)).picture(datetime.now(UTC))
    ways, clusters = ways_of_policy(reading.view), clusters_of(reading)
    if is_document(output):
        print_document(policy_views.document(reading.view.policy, picture, ways, clusters), output)
        return
    everything = output == "wide"
    for line in policy_views.show(reading.view.policy, picture, ways, clusters, everything=everything, width=columns()):
        echo(line)


def diff(connection: Connection, name: str, namespace: str, clusters: Sequence[str], output: str) -> int:
    """Print what enforcing a policy would change; return the exit code."""
    reading = asyncio.run(_reading(connection, name, namespace, clusters))
    preview = preview_of(reading, clusters)
    if is_document(output):
        print_document(policy_diff.document(preview), output)
    else:
        for line in policy_diff.lines(preview, everything=output == "wide", width=columns()):
            echo(line)
        if not any((preview.alike, preview.unchanged, preview.unknown)):
            echo(_nobody_waits(reading, preview), err=True)
    return policy_diff.exit_code(preview)


def _nobody_waits(reading: PolicyReading, preview: Preview) -> str:
    view = reading.view
    title = f"{view.key.namespace}/{view.key.name}"
    if view.policy.spec.get("disabled"):
        return f"{title} is disabled: no cluster has it."
    if not view.content.enforceable:
        return f"{title} only informs: nothing of it is ever enforced."
    return f"{title} is held nowhere." if preview.enforced else f"{title} is on no cluster."


async def _policies(connection: Connection, namespace: str) -> list[JSONObject]:
    async with connection.open() as client:
        return list((await client.list(POLICY.untyped(), namespace, labels=ROOTS)).items)


async def _reading(
    connection: Connection, name: str, namespace: str, clusters: Sequence[str] | None = None
) -> PolicyReading:
    """Read a policy; with `clusters`, also what the replicas there say, or all of them if none is named."""
    async with connection.open() as client:
        _, document = await find_document(client, f"{POLICY.resource}/{name}", namespace)
        with readable(POLICY, document):
            reading = await read_policy(client, document, datetime.now(UTC))
        return reading if clusters is None else await _with_reports(client, reading, clusters)


async def _with_reports(client: Reader, reading: PolicyReading, clusters: Sequence[str]) -> PolicyReading:
    view = reading.view
    if reading.unseen and clusters:
        reading = await read_replicas(client, reading, clusters)
    elif reading.unseen:
        raise Ended(
            "the replicas in the namespaces of clusters, which say what would change, may not be listed;"
            " --cluster names one whose namespace you may look into",
            ExitCode.FORBIDDEN,
        )
    if missing := [each for each in clusters if each not in reading.reports]:
        there = "is" if len(missing) == 1 else "are"
        raise Ended(
            f"{', '.join(missing)} {there} no cluster with a replica of policy {view.key.namespace}/{view.key.name}",
            ExitCode.NOT_FOUND,
        )
    return reading
