"""How a cluster comes to its place on a hub: from what it kept, or else with a bootstrap token, by asking.

What is going to be used is kept before it is used. An agent that is killed at any moment goes on where it was, with the
same name and the same request, and nothing has to be tidied up on the hub.
"""

import base64
import binascii
import json
import logging
import zlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from random import Random

from echelon.agent.certificate import CertificateRefused, Wanted, obtain
from echelon.agent.membership import Membership, MembershipSecret
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.engine.joining import is_cluster_name
from echelon.kube import certificate_requests
from echelon.kube.client import Client
from echelon.kube.config import ClusterConfig
from echelon.kube.credentials import User
from echelon.kube.errors import AlreadyExists, ApiError, Forbidden

_log = logging.getLogger(__name__)
_LARGEST = 256 * 1024
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # as in names that Kubernetes makes


class NotAnInvitation(ValueError):
    """What was given to join with is not what `echelon cluster join` prints."""


class CannotJoin(Exception):
    """There is no way to a place on the hub; the text says what to do."""


@dataclass(frozen=True)
class Invitation:
    """What `echelon cluster join` prints: where the hub is, how to recognise it, and a token. Without a name, any."""

    server: str
    token: str = field(repr=False)
    authority: bytes = field(default=b"", repr=False)
    cluster: str = ""

    def __str__(self) -> str:
        """Return it as one word."""
        said = {"s": self.server, "t": self.token, "c": self.cluster, "a": self.authority.decode()}
        packed = zlib.compress(json.dumps({name: value for name, value in said.items() if value}).encode(), 9)
        return base64.urlsafe_b64encode(packed).decode().rstrip("=")

    @classmethod
    def read(cls, text: str) -> "Invitation":
        """Read what `str` wrote; raise `NotAnInvitation` for anything else."""
        word = "".join(text.split())
        try:
            packed = base64.urlsafe_b64decode(word + "=" * (-len(word) % 4))
            said = json.loads(zlib.decompressobj().decompress(packed, _LARGEST))
            made = cls(said["s"], said["t"], str(said.get("a", "")).encode(), said.get("c", ""))
        except (binascii.Error, ValueError, zlib.error, KeyError, TypeError, AttributeError):
            rule = "give it all of the text that `echelon cluster join` printed, or - to read it from standard input"
            raise NotAnInvitation(f"this is no invitation to join a hub: {rule}") from None
        return made

    @property
    def config(self) -> ClusterConfig:
        """The way to the hub, as the bearer of the token."""
        user = User(token=self.token)
        return ClusterConfig(server=self.server.rstrip("/"), host=self.server, authority=self.authority, user=user)


@dataclass(frozen=True)
class Joining:
    """How to join: what was kept, an invitation if there is one, and by which name if that does not say."""

    kept: MembershipSecret
    open_hub: Callable[[ClusterConfig], AbstractAsyncContextManager[Client]]
    random: Random
    invitation: Invitation | None = None
    cluster: str = ""
    seconds: int | None = None  # that certificates are asked for

    async def membership(self, now: datetime) -> Membership:
        """Return the cluster's place on the hub, with a certificate that is good."""
        held = await self.kept.read()
        if held is not None and held.is_good(now):
            self._check_same(held)
            return held
        if self.invitation is None:
            raise CannotJoin(self._without_invitation(held))
        wanted = self._begun(self.invitation, held)
        if wanted != held:
            await self.kept.write(wanted)
        return await self._asked(self.invitation, wanted)

    def _check_same(self, held: Membership) -> None:
        """A member of one fleet does not become one of another by a mistyped command."""
        invited, name = self.invitation, self._name(default=held.cluster)
        if name != held.cluster or (invited is not None and invited.server != held.server):
            raise CannotJoin(
                f"{self.kept.title} says that this cluster is {held.cluster} of {held.server}; detach it there and "
                "delete the Secret, or name another Secret with --hub-secret to be a member of two hubs"
            )

    def _without_invitation(self, held: Membership | None) -> str:
        if held is None:
            where = f"{self.kept.title} has no identity for a hub"
            return f"{where}: join with what `echelon cluster join` prints, or say where the hub is (--hub-kubeconfig)"
        ended = f"the certificate of {held.cluster} ended at {held.life[1]:%Y-%m-%d %H:%M} UTC" if held.life else ""
        why = ended or f"{held.cluster} has asked for a certificate and never got it"
        return f"{why}; ask for a new invitation: echelon cluster join {held.cluster}"

    def _name(self, default: str = "") -> str:
        invited = self.invitation.cluster if self.invitation is not None else ""
        if self.cluster and invited and self.cluster != invited:
            raise CannotJoin(f"the invitation is for {invited} and not for {self.cluster}")
        return self.cluster or invited or default

    def _begun(self, invited: Invitation, held: Membership | None) -> Membership:
        """Return who to be: the same as in an attempt that was interrupted, or in a life that ended."""
        name = self._name()
        if not is_cluster_name(name):
            rule = "lower-case letters, digits and '-', at most 63"
            raise CannotJoin(f"{name!r} cannot be the name of a cluster ({rule}); name it with --cluster")
        same = held is not None and (held.cluster, held.server) == (name, invited.server)
        agent = held.agent if held is not None and same else "".join(self.random.choices(_ALPHABET, k=10))
        key = held.next_key if held is not None and same else b""
        if certificate_requests.read_key(key) is None:
            key = certificate_requests.key_pem(certificate_requests.new_key())
        return Membership(name, agent, invited.server, invited.authority, next_key=key)

    async def _asked(self, invited: Invitation, wanted: Membership) -> Membership:
        key = certificate_requests.read_key(wanted.next_key)
        if key is None:
            raise CannotJoin(f"{self.kept.title} cannot keep a key")
        async with self.open_hub(invited.config) as hub:
            if not invited.cluster:
                await _register(hub, wanted.cluster)
            request = Wanted(wanted.cluster, wanted.agent, key, self.seconds)
            try:
                person = f"the hub's administrator (echelon cluster accept {wanted.cluster})"
                certificate = await obtain(hub, request, self.random, person, lambda why: _expired(wanted.cluster, why))
            except CertificateRefused as error:
                await self.kept.write(replace(wanted, next_key=b""))  # with another key it is another request
                raise CannotJoin(str(error)) from error
        joined = replace(wanted, certificate=certificate, key=wanted.next_key, next_key=b"")
        await self.kept.write(joined)
        _log.info("%s has its certificate, and keeps it in %s", joined.cluster, self.kept.title)
        return joined


def _expired(cluster: str, why: str) -> str:
    return f"the hub does not take the invitation ({why}); ask for a new one: echelon cluster join {cluster}"


async def _register(hub: Client, cluster: str) -> None:
    """Ask for a place under a name that the invitation leaves open."""
    body = {**MANAGED_CLUSTER.type_meta, "metadata": {"name": cluster}, "spec": {"hubAcceptsClient": False}}
    try:
        await hub.create(MANAGED_CLUSTER.untyped(), body)
    except AlreadyExists:
        return
    except Forbidden as error:
        raise CannotJoin(_expired(cluster, str(error))) from error
    except ApiError as error:
        raise CannotJoin(f"{cluster} cannot be registered: {error}") from error
