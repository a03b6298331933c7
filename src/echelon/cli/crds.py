"""`echelon crds`: what has to be applied to a Kubernetes cluster before Echelon can work on it."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import yaml

from echelon.api import guards, multicluster, registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.cluster import CLUSTER_CLAIM
from echelon.api.configuration_policy import CONFIGURATION_POLICY
from echelon.api.crd import PART, is_ours
from echelon.api.policy import POLICY
from echelon.api.work import APPLIED_MANIFEST_WORK
from echelon.cli.connection import Connection, errors_said
from echelon.controllers.running import NAMES, UnknownController, custom_kinds_of
from echelon.kube.errors import NotFound

# The C library is several times faster, and not everywhere.
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_ON_MEMBERS = frozenset(kind.resource for kind in (APPLIED_MANIFEST_WORK, CLUSTER_CLAIM, POLICY, CONFIGURATION_POLICY))


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", help="Format to print.")
@click.option("--controllers", metavar="NAME,...", help="For these controllers of `echelon run`, not for the usual.")
@click.option("--all", "everything", is_flag=True, help="All kinds that Echelon knows.")
@click.option("--member", is_flag=True, help="For a member cluster; its agent makes them, if it may.")
@click.option(
    "--multicluster",
    "foreign",
    is_flag=True,
    help="Those of SIG Multicluster that `echelon run --publish-multicluster` needs, instead of Echelon's own.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Leave out what the hub of this kubeconfig has from somebody else.",
)
@click.option("--context", help="Context in the kubeconfig.")
def crds(
    *,
    names: tuple[str, ...],
    output: str,
    controllers: str | None,
    everything: bool,
    member: bool,
    foreign: bool,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Print the CustomResourceDefinitions that a hub needs, and the admission policies that guard them.

    They are for `kubectl apply --server-side -f -`, which says so when a field of a definition is somebody else's.
    Without options they are those for `echelon run` without options.

    A NAME is that of a CRD or its first part: placements.cluster.open-cluster-management.io or placements; or that of
    an admission policy.
    """
    ways = [bool(names), controllers is not None, everything, member, foreign]
    if sum(ways) > 1:
        raise click.UsageError("give names, or one of --controllers, --all, --member and --multicluster")
    if names:
        chosen = _named(names)
    elif foreign:
        chosen = registry.collect(multicluster.KINDS).crds()
    elif member:
        chosen = [crd for crd in registry.crds() if _name(crd) in _ON_MEMBERS]
    elif everything:
        chosen = _guarded(registry.crds())
    else:
        chosen = _guarded(_needed(NAMES if controllers is None else _listed(controllers)))
    if kubeconfig is not None or context is not None:
        with errors_said():
            chosen = asyncio.run(_without_foreign(Connection(kubeconfig, context), chosen))
    print_documents(chosen, output)


def _name(document: JSONObject) -> str:
    return str(document["metadata"]["name"])


def _listed(controllers: str) -> tuple[str, ...]:
    return tuple(filter(None, (name.strip() for name in controllers.split(","))))


def _needed(controllers: Sequence[str]) -> list[JSONObject]:
    try:
        needed = {kind.resource for kind in custom_kinds_of(controllers)}
    except UnknownController as error:
        raise click.BadParameter(str(error), param_hint="--controllers") from error
    known = [*registry.crds(), *registry.collect(multicluster.KINDS).crds()]
    return [crd for crd in known if _name(crd) in needed]


def _guarded(definitions: list[JSONObject]) -> list[JSONObject]:
    """Add the policies about these kinds: who installs the one without the other would let everybody do everything."""
    return definitions + guards.guards(*map(_name, definitions))


def _named(names: tuple[str, ...]) -> list[JSONObject]:
    definitions, policies = registry.crds(), guards.guards(*guards.GUARDED)
    known = {name: crd for crd in definitions for name in (_name(crd), crd["spec"]["names"]["plural"])}
    if unknown := [name for name in names if name not in known and name not in guards.NAMES]:
        existing = "\n".join(f"  {name}" for name in (*map(_name, definitions), *guards.NAMES))
        raise click.ClickException(f"no CRD named {', '.join(unknown)}. There are:\n{existing}")
    wanted = {_name(known[name]) for name in names if name in known} | set(names)
    return [document for document in (*definitions, *policies) if _name(document) in wanted]


async def _without_foreign(connection: Connection, chosen: list[JSONObject]) -> list[JSONObject]:
    """Leave out the definitions that a hub has and that are not Echelon's."""
    kept = []
    async with connection.open() as client:
        for document in chosen:
            if document["kind"] == CUSTOM_RESOURCE_DEFINITION.kind:
                try:
                    there = await client.get(CUSTOM_RESOURCE_DEFINITION, _name(document))
                except NotFound:
                    pass
                else:
                    if not is_ours(there.metadata.labels):
                        _say_foreign(_name(document))
                        continue
            kept.append(document)
    return kept


def _say_foreign(name: str) -> None:
    label, value = PART
    click.echo(
        f"{name} is left out: it is there and not labelled as Echelon's.\n"
        f"  If it is: kubectl label crd {name} {label}={value}",
        err=True,
    )


def print_documents(documents: list[JSONObject], output: str) -> None:
    """Print objects in a form that kubectl takes."""
    if output == "json":
        listed = {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": documents}
        click.echo(json.dumps(listed, indent=2))
        return
    for document in documents:
        click.echo("---")
        # Parts that documents share would become anchors, which nobody can read or cut apart; a copy shares nothing.
        apart = json.loads(json.dumps(document))
        click.echo(yaml.dump(apart, Dumper=_DUMPER, sort_keys=False, width=120, allow_unicode=True), nl=False)
