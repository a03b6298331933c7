"""`echelon crds`: what has to be applied to a Kubernetes cluster before Echelon can work on it."""

import json
from typing import Any

import click
import yaml

from echelon.api import multicluster, registry
from echelon.api.base import JSONObject

# The C library is several times faster, and not everywhere.
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", help="Format to print.")
@click.option(
    "--multicluster",
    "foreign",
    is_flag=True,
    help="Those of SIG Multicluster that `echelon run --publish-multicluster` needs, instead of Echelon's own.",
)
def crds(names: tuple[str, ...], output: str, *, foreign: bool) -> None:
    """Print the CustomResourceDefinitions, for `kubectl apply --server-side -f -`.

    A NAME is that of a CRD or its first part: placements.cluster.open-cluster-management.io or placements.
    """
    everything = registry.collect(multicluster.KINDS) if foreign else registry.registry()
    chosen = _chosen(everything.crds(), names)
    if output == "json":
        listed = {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": chosen}
        click.echo(json.dumps(listed, indent=2))
        return
    for crd in chosen:
        click.echo("---")
        # Parts that CRDs share would become anchors, which nobody can read or cut apart; a copy shares nothing.
        apart = json.loads(json.dumps(crd))
        click.echo(yaml.dump(apart, Dumper=_DUMPER, sort_keys=False, width=120, allow_unicode=True), nl=False)


def _chosen(everything: list[JSONObject], names: tuple[str, ...]) -> list[JSONObject]:
    if not names:
        return everything
    known = {name: crd for crd in everything for name in (crd["metadata"]["name"], crd["spec"]["names"]["plural"])}
    if unknown := [name for name in names if name not in known]:
        existing = "\n".join(f"  {crd['metadata']['name']}" for crd in everything)
        raise click.ClickException(f"no CRD named {', '.join(unknown)}. There are:\n{existing}")
    wanted = {known[name]["metadata"]["name"] for name in names}
    return [crd for crd in everything if crd["metadata"]["name"] in wanted]
