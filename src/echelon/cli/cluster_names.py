"""Clusters by the names that people type."""

import difflib

import click

from echelon.api.cluster import MANAGED_CLUSTER, ManagedCluster
from echelon.kube.client import Client
from echelon.kube.errors import NotFound


async def cluster_of(client: Client, name: str) -> ManagedCluster:
    """Return a cluster; say so if there is none of that name, and which one may be meant."""
    try:
        return await client.get(MANAGED_CLUSTER, name)
    except NotFound:
        raise click.ClickException(await unknown(client, name)) from None


async def unknown(client: Client, name: str) -> str:
    """Say that there is no such cluster, and which one may be meant."""
    known = [each.metadata.name for each in (await client.list(MANAGED_CLUSTER)).items]
    close = difflib.get_close_matches(name, known, n=3)
    hint = f"; did you mean {' or '.join(close)}?" if close else f"; it has {len(known)} clusters"
    return f'the hub has no cluster "{name}"{hint}'
