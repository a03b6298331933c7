"""What `echelon demo` shows: a rollout on a fleet of its own, and where to look afterwards."""

import asyncio
import sys
import tempfile
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote

import yaml

from echelon.cli.demo import apply
from echelon.cli.examples import example
from echelon.cli.hub import write_kubeconfig
from echelon.cli.process import stop_on_signals
from echelon.cli.rollout_tree import Screen, tree
from echelon.cli.terminal import echo
from echelon.cli.up_process import program, say, started
from echelon.fleet.local import Local, Settings
from echelon.kube.client import Client
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


async def show(seed: int, ended: list[bool], *, stay: bool) -> None:
    """Show a rollout; `ended` hears whether it went well, if it comes to its end."""
    file = example(_EXAMPLE)
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
            await apply(client, yaml.safe_load_all(file.read_text()))
            working = asyncio.create_task(_follow(client), name="rollout")
            asked = asyncio.create_task(stopping.wait(), name="stop")
            await asyncio.wait([working, asked], return_when=asyncio.FIRST_COMPLETED, timeout=_LONGEST_SECONDS)
            if working.done():
                picture = working.result()
                ended.append(picture.state in (COMPLETE, FINISHED))
                await _tell(local, kubeconfig, picture, stay=stay)
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
