"""What makes a cluster a member of a fleet: its name, the hub's address and authority, and a certificate with its key.

It is kept in a Secret on the cluster itself. Processes and machines come and go; whoever runs the agent of this cluster
next, in a pod or from a laptop, finds it there. The fields are those of Open Cluster Management's Secret of this kind.
"""

import base64
import binascii
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import yaml
from cryptography import x509

from echelon.api.base import JSONObject
from echelon.api.core import SECRET, Secret
from echelon.api.namespaces import NAMESPACE
from echelon.kube.client import Client, MergePatch
from echelon.kube.config import ClusterConfig
from echelon.kube.credentials import Credential
from echelon.kube.errors import AlreadyExists, Conflict, NotFound
from echelon.kube.tls import KeyPair

_CLUSTER, _AGENT, _KUBECONFIG, _KEY, _CERTIFICATE = "cluster-name", "agent-name", "kubeconfig", "tls.key", "tls.crt"
_NEXT_KEY = "next.key"  # of a certificate that was asked for
_NAME = "hub"


@dataclass(frozen=True)
class Membership:
    """A cluster's place on a hub. Without a certificate it has been asked for; `next_key` is that of the next one."""

    cluster: str
    agent: str
    server: str
    authority: bytes = field(default=b"", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)
    next_key: bytes = field(default=b"", repr=False)

    @property
    def config(self) -> ClusterConfig:
        """The way to the hub, for whoever brings credentials."""
        return ClusterConfig(server=self.server.rstrip("/"), host=self.server, authority=self.authority)

    @property
    def life(self) -> tuple[datetime, datetime] | None:
        """From when until when the certificate is good; nothing without a usable one."""
        try:
            read = x509.load_pem_x509_certificate(self.certificate)
        except ValueError:
            return None
        return read.not_valid_before_utc.astimezone(UTC), read.not_valid_after_utc.astimezone(UTC)

    def is_good(self, now: datetime) -> bool:
        """Whether the hub takes its certificate."""
        return bool(self.key) and self.life is not None and now < self.life[1]


class MembershipSecret:
    """The Secret on the cluster in which it is kept."""

    def __init__(self, member: Client, namespace: str, name: str) -> None:
        self._member = member
        self._namespace = namespace
        self._name = name

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"the Secret {self._namespace}/{self._name}"

    async def read(self) -> Membership | None:
        """Return what was kept; nothing if there is nothing, or nothing that can be used."""
        try:
            return _read(await self._member.get(SECRET, self._name, self._namespace))
        except NotFound:
            return None

    async def write(self, kept: Membership) -> None:
        """Keep it: all of it in one write, so that a key is never without its certificate."""
        data = {name: base64.b64encode(value).decode() if value else None for name, value in _fields(kept).items()}
        try:
            await self._member.patch(SECRET, self._name, MergePatch({"data": data}), self._namespace)
            return
        except NotFound:
            pass
        try:
            namespace = {**NAMESPACE.type_meta, "metadata": {"name": self._namespace}}
            await self._member.create(NAMESPACE.untyped(), namespace)
        except (AlreadyExists, Conflict):
            pass
        body: JSONObject = {
            **SECRET.type_meta,
            "metadata": {"name": self._name},
            "data": {name: value for name, value in data.items() if value is not None},
        }
        await self._member.create(SECRET.untyped(), body, self._namespace)


class MembershipCredentials:
    """Shows the certificate that the cluster has at the moment."""

    def __init__(self, membership: Membership) -> None:
        self.membership = membership

    async def current(self) -> Credential:
        """Return what to show now."""
        held = self.membership
        return Credential(pair=KeyPair(held.certificate, held.key), authority=held.authority)

    async def renew(self, rejected: Credential) -> bool:
        """Say whether there is another certificate by now."""
        return await self.current() != rejected


def _fields(kept: Membership) -> dict[str, bytes]:
    return {
        _CLUSTER: kept.cluster.encode(),
        _AGENT: kept.agent.encode(),
        _KUBECONFIG: _kubeconfig(kept),
        _CERTIFICATE: kept.certificate,
        _KEY: kept.key,
        _NEXT_KEY: kept.next_key,
    }


def _kubeconfig(kept: Membership) -> bytes:
    """Return what leads kubectl, or another agent, to the hub when the fields are files beside each other."""
    cluster: JSONObject = {"server": kept.server}
    if kept.authority:
        cluster["certificate-authority-data"] = base64.b64encode(kept.authority).decode()
    config: JSONObject = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _NAME, "cluster": cluster}],
        "users": [{"name": _NAME, "user": {"client-certificate": _CERTIFICATE, "client-key": _KEY}}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME, "namespace": kept.cluster}}],
        "current-context": _NAME,
    }
    return json.dumps(config, indent=2).encode()


def _read(secret: Secret) -> Membership | None:
    try:
        data = {name: base64.b64decode(value, validate=True) for name, value in secret.data.items()}
        config: Any = yaml.safe_load(data.get(_KUBECONFIG, b"")) or {}
        hub = config["clusters"][0]["cluster"]
        authority = base64.b64decode(hub.get("certificate-authority-data") or "", validate=True)
        read = Membership(
            data[_CLUSTER].decode(),
            data[_AGENT].decode(),
            str(hub["server"]),
            authority,
            data.get(_CERTIFICATE, b""),
            data.get(_KEY, b""),
            data.get(_NEXT_KEY, b""),
        )
    except (binascii.Error, ValueError, KeyError, IndexError, TypeError, AttributeError, yaml.YAMLError):
        return None
    return read if read.cluster and read.agent and read.server else None
