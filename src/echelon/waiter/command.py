"""The command: what it is told by arguments and files, and how it ends.

Arguments and files are those of Grove's container, so that either program does in the other's place. The files may come
later than the program: the token of a set that was just made is written by somebody else.
"""

import asyncio
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import click

from echelon.engine.pod_clique.startup import GANG_FILE, INFO_PATH, NAMESPACE_FILE
from echelon.kube import config
from echelon.kube.http import HttpClient
from echelon.waiter.waiting import Waiting

FILE_SECONDS = 1.0  # between two looks for files that are not there yet
_CLIQUE = re.compile(r"([a-z0-9](?:[-a-z0-9]*[a-z0-9])?):([1-9][0-9]{0,8})")


def read_cliques(arguments: Sequence[str]) -> dict[str, int]:
    """Read `<name>:<pods>`, several in one argument separated by commas."""
    found: dict[str, int] = {}
    for argument in arguments:
        for each in argument.split(","):
            matched = _CLIQUE.fullmatch(each.strip())
            if matched is None:
                raise click.BadParameter(f"{each!r} is not <name of a PodClique>:<pods>", param_hint="--podcliques")
            found[matched[1]] = int(matched[2])
    return found


@click.command("echelon-wait-for-cliques")
@click.option("--podcliques", multiple=True, required=True, metavar="NAME:PODS", help="A PodClique to wait for.")
@click.option("--pod-info", type=click.Path(path_type=Path), default=Path(INFO_PATH), show_default=True)
@click.option("--service-account", type=click.Path(path_type=Path), default=config.SERVICE_ACCOUNT, show_default=True)
def main(podcliques: Sequence[str], pod_info: Path, service_account: Path) -> None:
    """Wait until every PodClique has its pods ready, all at the same time."""
    cliques = read_cliques(podcliques)
    if not os.environ.get("KUBERNETES_SERVICE_HOST") or not os.environ.get("KUBERNETES_SERVICE_PORT"):
        raise click.ClickException("this is no pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
    sys.exit(asyncio.run(_main(cliques, pod_info, service_account)))


async def _main(cliques: Mapping[str, int], pod_info: Path, service_account: Path) -> int:
    """Wait, or stop when asked to: as the first process of a container nobody else would see to that."""
    waiting = asyncio.create_task(_wait(cliques, pod_info, service_account))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, waiting.cancel)
    try:
        await waiting
    except asyncio.CancelledError:
        tell("asked to stop")
        return 128 + signal.SIGTERM
    return 0


async def _wait(cliques: Mapping[str, int], pod_info: Path, service_account: Path) -> None:
    await _until_there(
        pod_info / NAMESPACE_FILE, pod_info / GANG_FILE, service_account / "token", service_account / "ca.crt"
    )
    namespace, gang = ((pod_info / name).read_text().strip() for name in (NAMESPACE_FILE, GANG_FILE))
    async with HttpClient(config.in_cluster(service_account=service_account)) as client:
        random = Random()  # noqa: S311 - jitter is no secret
        await Waiting(client, namespace, gang, cliques, tell).until_up(random)


async def _until_there(*files: Path) -> None:
    """Return when all files have something in them."""
    told = False
    while missing := [file for file in files if not _has_content(file)]:
        if not told:
            tell(f"waiting for {', '.join(map(str, missing))}")
            told = True
        await asyncio.sleep(FILE_SECONDS)


def _has_content(file: Path) -> bool:
    try:
        return file.stat().st_size > 0
    except OSError:
        return False


def tell(line: str) -> None:
    """Tell whoever reads the log of the container."""
    click.echo(line)
    sys.stdout.flush()
