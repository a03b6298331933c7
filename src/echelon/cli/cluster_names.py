"""Clusters by the names that people type."""

from echelon.api.cluster import MANAGED_CLUSTER, ManagedCluster
from echelon.cli.exit_codes import Ended, ExitCode
from echelon.kube.client import Client
from echelon.kube.errors import NotFound
from echelon.rollouts.similar import did_you_mean


async def cluster_of(client: Client, name: str) -> ManagedCluster:
    """Return a cluster; say so if there is none of that name, and which one may be meant."""
    try:
        return await client.get(MANAGED_CLUSTER, name)
    except NotFound:
        raise Ended(await unknown(client, name), ExitCode.NOT_FOUND) from None


async def unknown(client: Client, name: str) -> str:
    """Say that there is no such cluster, and which one may be meant."""
    known = [each.metadata.name for each in (await client.list(MANAGED_CLUSTER)).items]
    hint = did_you_mean(name, known) or f"; it has {len(known)} clusters"
    return f'the hub has no cluster "{name}"{hint}'
