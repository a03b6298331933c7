"""`echelon demo`: a staged rollout on a simulated fleet, from nothing, in a minute and one process."""

import logging
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterable

    from echelon.api.base import JSONObject
    from echelon.kube.client import Client


@click.command()
@click.option("--keep", is_flag=True, default=None, help="Stay until Ctrl-C. The default on a terminal.")
@click.option("--seed", type=int, default=0, show_default=True, help="Draws which cluster fails.")
def demo(*, keep: bool | None, seed: int) -> None:
    """Start a hub and a simulated fleet, roll a Deployment out in stages, and show how it goes."""
    logging.basicConfig(level=logging.ERROR, format="%(asctime)s %(levelname)s %(message)s")

    from echelon.cli.demo_rollout import show
    from echelon.cli.process import run

    stay = sys.stdin.isatty() and sys.stdout.isatty() if keep is None else keep
    ended: list[bool] = []
    with suppress(KeyboardInterrupt):
        run(show(seed, ended, stay=stay))
    if not all(ended) or not ended:
        raise SystemExit(1)


async def apply(client: "Client", documents: "Iterable[JSONObject]") -> None:
    """Apply objects, as kubectl does."""
    from echelon.api import registry
    from echelon.kube.client import ApplyPatch

    for body in documents:
        group, _, version = body["apiVersion"].rpartition("/")
        kind = registry.by_gvk(group, version, body["kind"])
        if kind is None:
            raise LookupError(f"{body['kind']} of {body['apiVersion']} is not a known kind")
        meta = body["metadata"]
        patch = ApplyPatch(body, manager="kubectl")
        await client.patch(kind.untyped(), meta["name"], patch, meta.get("namespace", ""))
