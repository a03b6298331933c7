"""What a shell offers when somebody presses Tab: names of rollouts, clusters and namespaces, as the hub has them.

Who presses Tab waits, and looks at half a command. So each answer of the hub gets five seconds, and whatever goes wrong
offers nothing and says nothing: the command itself will tell.
"""

import os
import re
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import click

if TYPE_CHECKING:
    from echelon.kube.client import Reader

_PATIENCE_SECONDS = 5.0
_MOST = 500  # names; nobody looks at more
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]*")

_Names: TypeAlias = Callable[["Reader", str], Coroutine[Any, Any, list[str]]]


def contexts(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Offer the contexts of the kubeconfig."""
    from echelon.kube import kubeconfig

    path = ctx.params.get("kubeconfig")
    try:
        found = kubeconfig.read((path.absolute(),) if path is not None else kubeconfig.candidates(os.environ))
    except (kubeconfig.ConfigError, OSError):
        return []
    return _beginning(incomplete, found.contexts)


def namespaces(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Offer the namespaces of the hub."""

    async def names(client: "Reader", _: str) -> list[str]:
        from echelon.api.namespaces import NAMESPACE

        return [each.metadata.name for each in (await client.list(NAMESPACE, limit=_MOST)).items]

    return _beginning(incomplete, _asked(ctx, names))


def rollouts(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Offer the rollouts of the namespace; with their kind, once that is typed."""

    async def names(client: "Reader", namespace: str) -> list[str]:
        from echelon.rollouts.kinds import kinds_called
        from echelon.rollouts.names import names_of

        of, typed, _ = incomplete.rpartition("/")
        found = await names_of(client, kinds_called(of), namespace)
        return [f"{of}/{name}" if typed else name for _, name in found]

    return _beginning(incomplete, _asked(ctx, names))


def clusters(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Offer the clusters of the fleet."""

    async def names(client: "Reader", _: str) -> list[str]:
        from echelon.api.cluster import MANAGED_CLUSTER

        return [each.metadata.name for each in (await client.list(MANAGED_CLUSTER, limit=_MOST)).items]

    return _beginning(incomplete, _asked(ctx, names))


def placements(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Offer the placements of the namespace."""

    async def names(client: "Reader", namespace: str) -> list[str]:
        from echelon.api.placement import PLACEMENT

        return [each.metadata.name for each in (await client.list(PLACEMENT, namespace, limit=_MOST)).items]

    return _beginning(incomplete, _asked(ctx, names))


def policies(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Offer the policies of the namespace."""

    async def names(client: "Reader", namespace: str) -> list[str]:
        from echelon.api.policy import POLICY
        from echelon.engine.policy.names import ROOTS

        found = await client.list(POLICY.untyped(), namespace, labels=ROOTS, limit=_MOST)
        return [str(each["metadata"]["name"]) for each in found.items]

    return _beginning(incomplete, _asked(ctx, names))


def _asked(ctx: click.Context, names: _Names) -> list[str]:
    import asyncio

    from echelon.cli.connection import Connection
    from echelon.cli.exit_codes import ended_by

    # A shell hands over what is typed so far, so that callbacks have not looked at the options.
    given = ctx.params
    connection = Connection(given.get("kubeconfig"), given.get("context"), _PATIENCE_SECONDS)

    async def ask() -> list[str]:
        where = given.get("namespace") or connection.load().namespace
        async with connection.open() as client:
            return await names(client, where)

    try:
        return asyncio.run(ask())
    except Exception as error:
        if ended_by(error) is None:
            raise
        return []


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    # Shells split and expand what they are offered, and a hub may say anything.
    return sorted({each for each in names if each.startswith(incomplete) and _PLAIN.fullmatch(each)})
