"""`echelon demo`: a staged rollout on a simulated fleet, from nothing, in a minute and one process."""

import asyncio
import logging
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote

import click
import yaml

from echelon.api import registry
from echelon.api.base import JSONObject
from echelon.cli.examples import example
from echelon.cli.hub import write_kubeconfig
from echelon.cli.process import run, stop_on_signals
from echelon.cli.rollout_tree import Screen, tree
from echelon.cli.terminal import echo
from echelon.cli.up import program, say, started
from echelon.fleet.local import Local, Settings
from echelon.kube.client import ApplyPatch, Client
from echelon.kube.errors import NotFound
from echelon.rollouts.kinds import find
from echelon.rollouts.picture import COMPLETE, FINISHED, Picture

_EXAMPLE = "canary-then-regions.yaml"
_NAME, _NAMESPACE = "storefront", "shop"
_FLEET = (
    "24 clusters; regions eu/us/ap; environments staging/production; versions v1.36.1/v1.35.4; canary label on 2; "
    "image *storefront:2.0 fails on 1"
)
_LONGEST_SECONDS = 180.0


@click.command()
@click.option("--keep", is_flag=True, default=None, help="Stay until Ctrl-C. The default on a terminal.")
@click.option("--seed", type=int, default=0, show_default=True, help="Draws which cluster fails.")
def demo(*, keep: bool | None, seed: int) -> None:
    """Start a hub and a simulated fleet, roll a Deployment out in stages, and show how it goes."""
    logging.basicConfig(level=logging.ERROR, format="%(asctime)s %(levelname)s %(message)s")
    stay = sys.stdin.isatty() and sys.stdout.isatty() if keep is None else keep
    ended: list[Picture] = []
    file = example(_EXAMPLE)
    with suppress(KeyboardInterrupt):
        run(_demo(seed, file, list(yaml.safe_load_all(file.read_text())), ended, stay=stay))
    if not ended or ended[-1].state not in (COMPLETE, FINISHED):
        raise SystemExit(1)


async def _demo(seed: int, file: Path, documents: list[JSONObject], ended: list[Picture], *, stay: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="echelon-demo-") as directory:
        kubeconfig = Path(directory) / "kubeconfig"
        local = await started(Settings(_FLEET, seed))
        stopping = stop_on_signals()
        try:
            write_kubeconfig(local.hub, kubeconfig)
            say(f"A hub at {local.hub.url()}, with {len(local.fleet)} simulated clusters in three regions.")
            say(f"kubectl apply -f {file}")
            echo("    Two canaries first, then eu, us and ap. Each group is watched for 5 s before the next.")
            echo("    One cluster cannot pull the image; one failure a region is tolerated.")
            client = local.hub.client(field_manager="kubectl")
            await apply(client, documents)
            working = asyncio.create_task(_follow(client), name="rollout")
            asked = asyncio.create_task(stopping.wait(), name="stop")
            await asyncio.wait([working, asked], return_when=asyncio.FIRST_COMPLETED, timeout=_LONGEST_SECONDS)
            if working.done():
                ended.append(working.result())
                await _tell(local, kubeconfig, ended[-1], stay=stay)
                if stay:
                    await asked
            for task in (working, asked):
                task.cancel()
        finally:
            await local.stop()


async def _follow(client: Client) -> Picture:
    screen = Screen()
    while True:
        with suppress(NotFound):
            _, found = await find(client, _NAME, _NAMESPACE)
            picture = found.picture(datetime.now(UTC))
            screen.show(picture)
            if picture.over and picture.total:
                return picture
        await asyncio.sleep(0.5)


async def _tell(local: Local, kubeconfig: Path, picture: Picture, *, stay: bool) -> None:
    if not sys.stdout.isatty():
        for line in tree(picture):
            echo(line)
    say("The rollout has ended." if picture.state in (COMPLETE, FINISHED) else "The rollout has stopped.")
    member = next(iter(local.fleet.members))
    if stay:
        say("Look around, then press Ctrl-C:")
        begin = [f"export KUBECONFIG={quote(str(kubeconfig))}"]
    else:
        say("To look around, start the same again and wait until it says so:")
        begin = [
            f"{program()} up --clusters {len(local.fleet)} &",
            "export KUBECONFIG=./echelon.kubeconfig",
            f"kubectl apply -f {quote(str(example(_EXAMPLE)))}",
        ]
    for line in (
        *begin,
        "kubectl get managedclusters -L region,environment,canary",
        f"kubectl get manifestworkreplicasets,placementdecisions -n {_NAMESPACE}",
        f"kubectl --context echelon-{member} get deployments,replicasets,pods,events -n {_NAMESPACE}",
        f"{program()} rollout status {_NAME} -n {_NAMESPACE} -o wide",
    ):
        echo(f"  {line}")


async def apply(client: Client, documents: Iterable[JSONObject]) -> None:
    """Apply objects, as kubectl does."""
    for body in documents:
        group, _, version = body["apiVersion"].rpartition("/")
        kind = registry.by_gvk(group, version, body["kind"])
        if kind is None:
            raise LookupError(f"{body['kind']} of {body['apiVersion']} is not a known kind")
        meta = body["metadata"]
        patch = ApplyPatch(body, manager="kubectl")
        await client.patch(kind.untyped(), meta["name"], patch, meta.get("namespace", ""))
