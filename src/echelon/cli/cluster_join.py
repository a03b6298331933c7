"""`echelon cluster join` and `accept`: how a cluster comes into the fleet, and who says that it may.

`join` makes a bootstrap token that is good for an hour and for one cluster, and prints the one command that its side
needs. `accept` is a person's word: it approves what asked under that name, and only if it is what an agent asks for.
"""

import asyncio
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from urllib.parse import urlsplit

import click

from echelon.api.base import JSONObject
from echelon.api.certificates import CERTIFICATE_SIGNING_REQUEST, CertificateSigningRequest
from echelon.api.cluster import MANAGED_CLUSTER, ManagedCluster
from echelon.api.core import SECRET
from echelon.api.times import format_time, parse_time
from echelon.cli.cluster_names import cluster_of
from echelon.cli.connection import Connection
from echelon.cli.exit_codes import Ended, ExitCode
from echelon.cli.terminal import echo
from echelon.controllers.cluster.certificate_requests import asked_of, decided
from echelon.controllers.cluster.joining_rights import joining_rights
from echelon.controllers.cluster.leaving import is_leaving
from echelon.engine.joining import CLUSTER_NAME_LABEL, bootstrap_groups, faults, is_cluster_name
from echelon.engine.rollout import durations
from echelon.kube.client import ApplyPatch, Client, MergePatch, WriteOptions
from echelon.kube.config import ClusterConfig, User
from echelon.kube.errors import AlreadyExists, ApiError, Unauthorized
from echelon.kube.http import HttpClient
from echelon.kube.write import write

_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"
_SYSTEM, _MANAGER = "kube-system", "echelon-cluster"
_TOKEN_TYPE = "bootstrap.kubernetes.io/token"  # noqa: S105 - the type of one
_TRIES_SECONDS = 10.0


def join(connection: Connection, name: str, server: str, ttl: str, *, accepted: bool) -> None:
    """Invite a cluster."""
    if name and not is_cluster_name(name):
        rule = "at most 63 lower-case letters, digits and '-', with a letter or digit at both ends"
        raise click.BadParameter(f"{name!r} cannot be the name of a cluster: {rule}", param_hint="NAME")
    if accepted and not name:
        raise click.UsageError("--accept needs a NAME: nobody accepts whoever may come")
    try:
        life = durations.parse(ttl)
    except durations.NotADuration as error:
        raise click.BadParameter(str(error), param_hint="--ttl") from error
    if not timedelta(minutes=1) <= life <= timedelta(days=7):
        raise click.BadParameter(f"{ttl} is not between 1m and 168h", param_hint="--ttl")
    asyncio.run(_join(connection, name, server, life, accepted=accepted))


def accept(connection: Connection, name: str, request: str) -> None:
    """Accept a cluster."""
    asyncio.run(_accept(connection, name, request))


async def _join(connection: Connection, name: str, server: str, life: timedelta, *, accepted: bool) -> None:
    from echelon.agent.joining import Invitation  # which takes its time

    config = connection.load()
    async with HttpClient(config, field_manager=_MANAGER, timeout_seconds=connection.patience_seconds) as client:
        if name:
            await _invite(client, name, accepted=accepted)
        await _give_rights(client)
        token, until = await _make_token(client, name, life)
    address = server or config.host
    await _check(config, token)
    invitation = Invitation(address, token, config.authority, name)
    _warn(address, config)
    who = f"cluster {name}" if name else "a cluster of any name"
    echo(f"until {until:%H:%M} UTC this makes {who} ask to join; run it where its kubectl works:", err=True)
    echo(err=True)
    named = "" if name else " --cluster NAME"
    echo(f"echelon agent{named} --join {invitation}")
    if not accepted:
        echo(err=True)
        echo(f"and when it has asked: echelon cluster accept {name or 'NAME'}", err=True)


async def _invite(client: Client, name: str, *, accepted: bool) -> None:
    """Make the cluster's object, so that the bearer of the token needs no right to."""
    body: JSONObject = {
        **MANAGED_CLUSTER.type_meta,
        "metadata": {"name": name},
        "spec": {"hubAcceptsClient": accepted, "leaseDurationSeconds": 60},
    }
    try:
        await client.create(MANAGED_CLUSTER, body)
    except AlreadyExists:
        seen = await client.get(MANAGED_CLUSTER, name)
        if is_leaving(seen):
            raise click.ClickException(
                f"cluster {name} is leaving the fleet; invite it again when it is gone"
            ) from None
        if accepted:
            await _let_in(client, seen)


async def _give_rights(client: Client) -> None:
    for kind, body in joining_rights():
        meta = body["metadata"]
        await client.patch(kind, meta["name"], ApplyPatch(body, _MANAGER, force=True), meta.get("namespace", ""))


async def _make_token(client: Client, name: str, life: timedelta) -> tuple[str, datetime]:
    word, secret = (("".join(secrets.choice(_ALPHABET) for _ in range(length))) for length in (6, 16))
    until = datetime.now(UTC) + life
    body: JSONObject = {
        **SECRET.type_meta,
        "metadata": {"name": f"bootstrap-token-{word}"},
        "type": _TOKEN_TYPE,
        "stringData": {
            "token-id": word,
            "token-secret": secret,
            "expiration": format_time(until),
            "usage-bootstrap-authentication": "true",
            "auth-extra-groups": ",".join(bootstrap_groups(name)),
            "description": f"lets {name or 'a cluster'} join the fleet",
        },
    }
    await client.create(SECRET.untyped(), body, _SYSTEM)
    return f"{word}.{secret}", until


async def _check(config: ClusterConfig, token: str) -> None:
    """Find out whether the hub takes bootstrap tokens before somebody on the other side has to."""
    bearer = ClusterConfig(
        config.server, config.host, config.authority, insecure=config.insecure, user=User(token=token)
    )
    end = asyncio.get_running_loop().time() + _TRIES_SECONDS
    async with HttpClient(bearer) as client:
        while True:
            try:
                await client.document("/version")
                return
            except Unauthorized:
                if asyncio.get_running_loop().time() > end:  # a server reads new Secrets a moment after they were made
                    break
                await asyncio.sleep(0.5)
            except ApiError:
                return  # it knows who asks
    raise click.ClickException(
        "the hub does not take bootstrap tokens: its kube-apiserver needs --enable-bootstrap-token-auth=true"
    )


def _warn(address: str, config: ClusterConfig) -> None:
    host = urlsplit(address).hostname or ""
    try:
        here = ip_address(host).is_loopback
    except ValueError:
        here = host == "localhost"
    if here:
        echo(f"warning: {address} is this machine only; --server names another address", err=True)
    if config.insecure or not config.authority:
        echo("warning: the invitation names no authority, so the member trusts those of its machine", err=True)


async def _accept(connection: Connection, name: str, wanted: str) -> None:
    async with connection.open() as client:
        seen = await cluster_of(client, name)
        if is_leaving(seen):
            raise click.ClickException(f"cluster {name} is leaving the fleet")
        request = _chosen(name, await _pending(client, name), wanted)
        if request is not None:
            why = "accepted by a person with echelon cluster accept"
            patch = decided(request, approved=True, reason="Accepted", why=why, now=datetime.now(UTC))
            await write(patch, client, WriteOptions())
            echo(f"request {request.metadata.name} of {request.spec.username} approved")
        changed = await _let_in(client, seen)
        echo(f"cluster {name} {'accepted' if changed else 'is accepted already'}")
        if request is None:
            echo(f"nothing asks under its name at the moment; echelon cluster join {name} invites it", err=True)


async def _pending(client: Client, name: str) -> list[CertificateSigningRequest]:
    found = (await client.list(CERTIFICATE_SIGNING_REQUEST, labels=f"{CLUSTER_NAME_LABEL}={name}")).items
    pending = [each for each in found if each.is_pending]
    return sorted(pending, key=lambda each: parse_time(each.metadata.creation_timestamp) or datetime.now(UTC))


def _chosen(name: str, pending: Sequence[CertificateSigningRequest], wanted: str) -> CertificateSigningRequest | None:
    """Return the request that a person means; say what is wrong with one that nobody may mean."""
    if wanted:
        pending = [each for each in pending if each.metadata.name == wanted]
        if not pending:
            raise Ended(f"cluster {name} has no request {wanted} that waits", ExitCode.NOT_FOUND)
    wrong = {each.metadata.name: _wrong(name, each) for each in pending}
    good = [each for each in pending if not wrong[each.metadata.name]]
    for each in pending:
        if found := wrong[each.metadata.name]:
            echo(f"request {each.metadata.name} of {each.spec.username} is not an agent's: {found}", err=True)
    if pending and not good:
        raise click.ClickException(f"cluster {name} is not accepted: nothing that asks under its name is its agent")
    if len({each.spec.username for each in good}) > 1 and not wanted:
        listed = "; ".join(f"{each.metadata.name} of {each.spec.username}" for each in good)
        raise click.ClickException(f"several ask to be {name}: {listed}; say which one is meant with --request")
    return good[-1] if good else None


def _wrong(name: str, request: CertificateSigningRequest) -> str:
    asked = asked_of(request)
    about = [] if asked.cluster == name else [f"it is about {asked.cluster or 'no cluster'}"]
    return "; ".join([*about, *faults(asked)])


async def _let_in(client: Client, seen: ManagedCluster) -> bool:
    if seen.spec.hub_accepts_client:
        return False
    body = {"metadata": {"uid": seen.metadata.uid}, "spec": {"hubAcceptsClient": True}}
    await client.patch(MANAGED_CLUSTER, seen.metadata.name, MergePatch(body))
    return True
