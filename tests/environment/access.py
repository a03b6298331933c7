"""The way into a running control plane, for whoever knows its directory."""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import msgspec

from echelon.hub.access import pki
from echelon.hub.access.kubeconfig import ClusterEntry, ContextEntry, UserEntry, merge_kubeconfig

ADMINISTRATORS = "system:masters"
_CONTEXT = "plane"


@dataclass(frozen=True)
class Access:
    """An address, and the directory with the keys of everybody."""

    url: str
    directory: Path

    @property
    def keys(self) -> Path:
        """Where the certificates are: `ca`, `serving` and the key of service accounts."""
        return self.directory / "keys"

    @property
    def kubeconfig(self) -> Path:
        """The way in for an administrator."""
        return self.directory / "kubeconfig"

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Write a kubeconfig for a user, whose rights are what RBAC gives to that name and those groups."""
        path = self.directory / f"kubeconfig-{user.replace(':', '-').replace('/', '-')}"
        self._write(path, user, groups)
        return path

    def write_admin(self) -> None:
        """Write the kubeconfig of the administrator."""
        self._write(self.kubeconfig, "admin", [ADMINISTRATORS])

    def _write(self, path: Path, user: str, groups: Sequence[str]) -> None:
        now = datetime.now(UTC)
        keys = pki.open_pki(self.keys, (), now)
        issued = keys.client_certificate(user, groups, now)
        path.unlink(missing_ok=True)
        merge_kubeconfig(
            path,
            [ClusterEntry(_CONTEXT, self.url, keys.authority.certificate_pem)],
            [UserEntry(user, certificate_pem=issued.certificate_pem, key_pem=issued.key_pem)],
            [ContextEntry(_CONTEXT, _CONTEXT, user)],
            _CONTEXT,
        )


@dataclass(frozen=True)
class Administrator:
    """Plain requests, for what a plane needs before any client of ours is trusted."""

    url: str
    tls: ssl.SSLContext

    @classmethod
    def of(cls, access: Access) -> "Administrator":
        """Make a certificate and be the administrator."""
        now = datetime.now(UTC)
        issued = pki.open_pki(access.keys, (), now).client_certificate("admin", [ADMINISTRATORS], now)
        chain = access.keys / "admin.pem"
        chain.write_bytes(issued.certificate_pem + issued.key_pem)
        tls = ssl.create_default_context(cafile=str(access.keys / "ca.crt"))
        tls.load_cert_chain(chain)
        return cls(access.url, tls)

    def request(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send one request; raises `OSError` when there is no good answer."""
        data = msgspec.json.encode(body) if body is not None else None
        headers = {"Content-Type": "application/merge-patch+json" if method == "PATCH" else "application/json"}
        asked = Request(f"{self.url}{path}", data, headers, method=method)  # noqa: S310 - always https
        with urlopen(asked, timeout=10, context=self.tls) as answer:  # noqa: S310
            text = answer.read()
        found: dict[str, Any] = msgspec.json.decode(text) if text[:1] == b"{" else {"text": text.decode()}
        return found
