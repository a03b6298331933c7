"""What `echelon rollout outdated` does: list the pods that OnDelete left, or delete some while the set serves on."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import click

from echelon.api.base import JSONObject
from echelon.api.core import POD
from echelon.api.grove import POD_CLIQUE_SET
from echelon.api.times import parse_time
from echelon.cli.columns import print_columns
from echelon.cli.connection import Connection
from echelon.cli.output import is_document, print_document
from echelon.cli.terminal import echo
from echelon.engine.pod_clique.outdated import Choice, OutdatedPod, choose, outdated_pods
from echelon.engine.rollout.durations import elapsed
from echelon.engine.rollout.thresholds import NotAThreshold, Threshold
from echelon.kube.client import Client, DeleteOptions, Preconditions
from echelon.kube.errors import Conflict, NotFound
from echelon.rollouts.clique_sets import CliqueSet, read_set_view

_KINDS = (POD_CLIQUE_SET.singular, POD_CLIQUE_SET.plural, *POD_CLIQUE_SET.short_names, POD_CLIQUE_SET.resource)


def read_limit(value: str) -> Threshold:
    """Read how many pods may be deleted, or which share of them."""
    try:
        found = Threshold.read(value.strip())
    except NotAThreshold as mistake:
        raise click.BadParameter(
            f'it is "{value}": it must be a number from 1 or a percentage', param_hint="--max"
        ) from mistake
    if found.is_zero or (found.percent or 0) > 100:
        raise click.BadParameter(
            f'it is "{value}": it must be a number from 1, or a percentage from 1% to 100%', param_hint="--max"
        )
    return found


def show(connection: Connection, name: str, namespace: str, output: str) -> None:
    """List the outdated pods of a set."""
    _print(asyncio.run(_look(connection, name, namespace)), output)


def take(connection: Connection, name: str, namespace: str, most: Threshold, output: str, *, dry_run: bool) -> None:
    """Delete some of the outdated pods of a set."""
    choice, gone = asyncio.run(_take(connection, name, namespace, most, dry_run=dry_run))
    _tell(choice, gone, output, dry_run=dry_run)


async def _look(connection: Connection, name: str, namespace: str) -> CliqueSet:
    async with connection.open() as client:
        return await _read(client, name, namespace)


async def _take(
    connection: Connection, name: str, namespace: str, most: Threshold, *, dry_run: bool
) -> tuple[Choice, list[str]]:
    """Choose pods and delete them; return what was chosen, and which of them were deleted."""
    async with connection.open() as client:
        standing = (await _read(client, name, namespace)).standing
        pods = outdated_pods(standing)
        choice = choose(standing, pods, most.of(len(pods), 1))
        return choice, [] if dry_run else await _delete(client, choice.goes, namespace)


async def _read(client: Client, name: str, namespace: str) -> CliqueSet:
    kind, _, plain = name.rpartition("/")
    if kind and kind.lower() not in _KINDS:
        raise click.ClickException(f"{kind} has no outdated pods to list: only a {POD_CLIQUE_SET.singular} has")
    found = await read_set_view(client, await client.get(POD_CLIQUE_SET.untyped(), plain, namespace))
    if found.note:
        raise click.ClickException(found.note)
    return found


async def _delete(client: Client, pods: Sequence[OutdatedPod], namespace: str) -> list[str]:
    """Delete pods that are still what they were when they were chosen; return which were."""
    gone = []
    for each in pods:
        expected = Preconditions(uid=each.pod.uid, resource_version=each.pod.version)
        try:
            await client.delete(POD, each.pod.name, namespace, options=DeleteOptions(expected))
        except (Conflict, NotFound) as error:
            echo(f"{each.pod.name} has changed meanwhile and stays: {error}", err=True)
        else:
            gone.append(each.pod.name)
    return gone


def _print(found: CliqueSet, output: str) -> None:
    pods = outdated_pods(found.standing)
    if is_document(output):
        print_document([_document(each) for each in pods], output)
        return
    meta = found.view.set.metadata
    if not pods:
        echo(f"No pod of {meta.namespace}/{meta.name} is outdated.", err=True)
        return
    now = datetime.now(UTC)
    rows = [
        [each.pod.name, each.clique, each.pod.node, _number(each), _age(each, now), "yes" if each.pod.ready else "no"]
        for each in pods
    ]
    print_columns(["Name", "Clique", "Node", "Revision", "Since", "Ready"], rows)


def _tell(choice: Choice, gone: Sequence[str], output: str, *, dry_run: bool) -> None:
    chosen = [each.pod.name for each in choice.goes]
    stays = {each.pod.name: why for each, why in choice.stays}
    if is_document(output):
        print_document({"deleted": list(gone), "chosen": chosen, "stays": stays}, output)
        return
    for each in chosen if dry_run else gone:
        echo(f"pod {each} {'would be' if dry_run else 'is'} deleted")
    reasons: dict[str, list[str]] = {}
    for pod, why in stays.items():
        reasons.setdefault(why, []).append(pod)
    for why, pods in reasons.items():
        named = ", ".join(pods[:3]) + (f" and {len(pods) - 3} more" if len(pods) > 3 else "")
        echo(f"{len(pods)} stay: {why} ({named})")
    if not chosen and not stays:
        echo("no pod is outdated")


def _document(each: OutdatedPod) -> JSONObject:
    return {
        "name": each.pod.name,
        "clique": each.clique,
        "replica": each.key.replica,
        "group": each.key.group or None,
        "node": each.pod.node or None,
        "revision": each.revision if each.revision > 0 else None,
        "hash": each.pod.hash,
        "since": each.since or None,
        "ready": each.pod.ready,
    }


def _number(each: OutdatedPod) -> int | str:
    return each.revision if each.revision > 0 else "not stored"


def _age(each: OutdatedPod, now: datetime) -> str:
    since = parse_time(each.since)
    return elapsed(now - since) if since is not None else ""
