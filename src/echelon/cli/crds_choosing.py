"""Which definitions and policies `echelon crds` prints."""

import asyncio
from collections.abc import Sequence

import click

from echelon.api import guards, multicluster, registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.cluster import CLUSTER_CLAIM
from echelon.api.configuration_policy import CONFIGURATION_POLICY
from echelon.api.crd import PART, is_ours
from echelon.api.policy import POLICY
from echelon.api.work import APPLIED_MANIFEST_WORK
from echelon.cli.connection import Connection
from echelon.controllers.running import NAMES, UnknownController, custom_kinds_of
from echelon.kube.errors import NotFound

_ON_MEMBERS = frozenset(kind.resource for kind in (APPLIED_MANIFEST_WORK, CLUSTER_CLAIM, POLICY, CONFIGURATION_POLICY))


def _name(document: JSONObject) -> str:
    return str(document["metadata"]["name"])


def _listed(controllers: str) -> tuple[str, ...]:
    return tuple(filter(None, (name.strip() for name in controllers.split(","))))


def needed(controllers: str | None) -> list[JSONObject]:
    """Return what controllers need, or the usual ones if none are named."""
    return _guarded(_needed(NAMES if controllers is None else _listed(controllers)))


def foreign() -> list[JSONObject]:
    """Return what is SIG Multicluster's."""
    return registry.collect(multicluster.KINDS).crds()


def on_members() -> list[JSONObject]:
    """Return what a member cluster needs."""
    return [crd for crd in registry.crds() if _name(crd) in _ON_MEMBERS]


def everything() -> list[JSONObject]:
    """Return all definitions."""
    return _guarded(registry.crds())


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


def named(names: tuple[str, ...]) -> list[JSONObject]:
    """Return what was asked for by name."""
    definitions, policies = registry.crds(), guards.guards(*guards.GUARDED)
    known = {name: crd for crd in definitions for name in (_name(crd), crd["spec"]["names"]["plural"])}
    if unknown := [name for name in names if name not in known and name not in guards.NAMES]:
        existing = "\n".join(f"  {name}" for name in (*map(_name, definitions), *guards.NAMES))
        raise click.ClickException(f"no CRD named {', '.join(unknown)}. There are:\n{existing}")
    wanted = {_name(known[name]) for name in names if name in known} | set(names)
    return [document for document in (*definitions, *policies) if _name(document) in wanted]


def without_foreign(connection: Connection, chosen: list[JSONObject]) -> list[JSONObject]:
    """Leave out the definitions that a hub has and that are not Echelon's."""
    return asyncio.run(_without_foreign(connection, chosen))


async def _without_foreign(connection: Connection, chosen: list[JSONObject]) -> list[JSONObject]:
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
