"""`echelon demo`: everything that there is so far, in half a minute and one process."""

import asyncio
import contextlib
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from echelon.api import registry
from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.kinds import Kind
from echelon.cli.columns import print_columns
from echelon.cli.hub import write_kubeconfig
from echelon.cli.process import run
from echelon.hub.server import Hub, Settings
from echelon.hub.web.table import Printer
from echelon.kube.client import ApplyPatch, MergePatch

# Name, region, environment, Kubernetes version, available.
_FLEET = (
    ("ams-1", "europe", "canary", "v1.36.1", True),
    ("ams-2", "europe", "prod", "v1.36.1", True),
    ("fra-1", "europe", "prod", "v1.35.4", True),
    ("iad-1", "america", "prod", "v1.36.1", True),
    ("sjc-1", "america", "prod", "v1.35.4", False),
    ("nrt-1", "asia", "prod", "v1.36.1", True),
)


@click.command()
@click.option("--keep", is_flag=True, help="Stay until Ctrl-C, to look around with kubectl.")
def demo(keep: bool) -> None:
    """Start a hub in memory, apply the CRDs, create a few clusters and show them."""
    with contextlib.suppress(KeyboardInterrupt):
        run(_demo(keep=keep))


async def _demo(*, keep: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="echelon-demo-") as directory:
        running = await Hub.start(Settings())
        try:
            kubeconfig = Path(directory) / "kubeconfig"
            write_kubeconfig(running, kubeconfig)
            _say(f"A hub is listening at {running.url()}.")
            await _apply_crds(running)
            await _create_fleet(running)
            await _show(running, MANAGED_CLUSTER, "The fleet, as kubectl shows it:")
            if keep:
                _say("Look around, then press Ctrl-C:")
                click.echo(f"  kubectl --kubeconfig {kubeconfig} get managedclusters -l region=europe")
                click.echo(f"  kubectl --kubeconfig {kubeconfig} explain placement.spec.decisionStrategy")
                await asyncio.Event().wait()
        finally:
            await running.stop()
    _say("The hub has stopped. `echelon hub --help` tells how to run one that stays.")


async def _apply_crds(running: Hub) -> None:
    client = running.client()
    crds = registry.crds()
    definition = registry.by_gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
    if definition is None:
        raise LookupError("CustomResourceDefinition is not a known kind")
    for crd in crds:
        await client.patch(definition.untyped(), crd["metadata"]["name"], ApplyPatch(crd, manager="echelon"))
    _say(f"It serves {len(crds)} custom resources.")


async def _create_fleet(running: Hub) -> None:
    client = running.client()
    for name, region, environment, version, available in _FLEET:
        await client.create(MANAGED_CLUSTER, _cluster(name, region, environment))
        status = _status(version, available=available)
        await client.patch(MANAGED_CLUSTER, name, MergePatch({"status": status}), subresource="status")
    _say(f"{len(_FLEET)} clusters have registered.")


def _cluster(name: str, region: str, environment: str) -> JSONObject:
    return {
        "apiVersion": MANAGED_CLUSTER.api_version,
        "kind": MANAGED_CLUSTER.kind,
        "metadata": {"name": name, "labels": {"region": region, "environment": environment}},
        "spec": {
            "hubAcceptsClient": True,
            "managedClusterClientConfigs": [{"url": f"https://{name}.example.com:6443"}],
        },
    }


def _status(version: str, *, available: bool) -> JSONObject:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    told = (
        ("HubAcceptedManagedCluster", "True", "HubClusterAdminAccepted"),
        ("ManagedClusterJoined", "True", "ManagedClusterJoined"),
        ("ManagedClusterConditionAvailable", "True" if available else "Unknown", "ManagedClusterAvailable"),
    )
    conditions = [
        {"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": now}
        for kind, status, reason in told
    ]
    return {"conditions": conditions, "version": {"kubernetes": version}}


async def _show(running: Hub, kind: Kind[Any], title: str) -> None:
    found = await running.client().list(kind.untyped())
    printer = Printer(kind)
    table = printer.table(list(found.items), {}, datetime.now(UTC), include="None")
    _say(title)
    print_columns([column["name"] for column in table["columnDefinitions"]], [row["cells"] for row in table["rows"]])


def _say(text: str) -> None:
    click.echo(click.style("==> ", fg="green", bold=True) + text)
