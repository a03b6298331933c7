"""Which cluster to talk to, as whom, and by which way: everything that has to be known before the first request.

The answer is the one that kubectl would give for the same files and environment, and in a pod without a kubeconfig it
is the pod's own cluster. It is a value: it can be compared, printed (without secrets) and made by hand in tests.
"""

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from echelon.api.base import JSONObject
from echelon.kube import kubeconfig, proxy, tls
from echelon.kube.credentials import CredentialsUnavailable, User, read_credential
from echelon.kube.exec_plugin import API_VERSIONS, INTERACTIVE_MODES, ExecPlugin
from echelon.kube.kubeconfig import (
    ClusterFields,
    ConfigError,
    ContextFields,
    Entry,
    ExecCommand,
    FileNotReadable,
    InvalidField,
    Kubeconfig,
    UserFields,
)

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

_EXEC_EXTENSION = "client.authentication.k8s.io/exec"


class NoConfiguration(ConfigError):
    """There is no kubeconfig and this is no pod."""


class NoCurrentContext(ConfigError):
    """The kubeconfig does not say which context is meant."""


class UnknownEntry(ConfigError):
    """A context, cluster or user is named and nowhere described."""


class AuthProviderRemoved(ConfigError):
    """The user authenticates in a way that Kubernetes clients no longer have."""


@dataclass(frozen=True)
class Impersonation:
    """Who to act as, for those who may."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class ClusterConfig:
    """A server, how to recognise it, how to reach it and who to be. Without an authority the system's count.

    `host` is the server as the file spells it, slash and all: clients in Go pass that on, and derive names from it.
    """

    server: str
    host: str = ""
    authority: bytes = field(default=b"", repr=False)
    insecure: bool = False
    tls_server_name: str = ""
    proxy_url: str = field(default="", repr=False)  # may have a password in it
    compression: bool = True
    user: User = field(default_factory=User)
    impersonation: Impersonation = field(default_factory=Impersonation)
    namespace: str = "default"


def load(
    path: Path | None = None,
    context: str | None = None,
    environ: Mapping[str, str] = os.environ,
    *,
    service_account: Path = SERVICE_ACCOUNT,
) -> ClusterConfig:
    """Find the configuration: the file that is named, else those of the environment, else the pod's cluster."""
    if path is not None and not path.exists():
        raise FileNotReadable(path, "No such file or directory")
    paths = kubeconfig.candidates(environ) if path is None else (path.absolute(),)
    merged = kubeconfig.read(paths)
    if merged.contexts or merged.clusters or merged.current_context or path is not None or context:
        return from_kubeconfig(merged, context, environ)
    if environ.get("KUBERNETES_SERVICE_HOST") and environ.get("KUBERNETES_SERVICE_PORT"):
        return in_cluster(environ, service_account)
    looked = ", ".join(map(str, paths))
    raise NoConfiguration(f"no configuration has been provided: no context in {looked}, and not in a cluster")


def in_cluster(environ: Mapping[str, str] = os.environ, service_account: Path = SERVICE_ACCOUNT) -> ClusterConfig:
    """Return the cluster that this pod runs in, as its service account."""
    host = environ["KUBERNETES_SERVICE_HOST"]
    host = f"[{host}]" if ":" in host else host
    server = f"https://{host}:{environ['KUBERNETES_SERVICE_PORT']}"
    kubeconfig.read_file(service_account / "token", "in-cluster configuration")
    authority, namespace = service_account / "ca.crt", service_account / "namespace"
    return ClusterConfig(
        server=server,
        host=server,
        authority=authority.read_bytes() if authority.exists() else b"",
        proxy_url=_environment_proxy(server, environ),
        user=User(token_file=service_account / "token"),
        namespace=(namespace.read_text().strip() if namespace.exists() else "") or "default",
    )


def from_kubeconfig(
    merged: Kubeconfig, context: str | None = None, environ: Mapping[str, str] = os.environ
) -> ClusterConfig:
    """Return what a context stands for; without a name, the current one."""
    name = context or merged.current_context
    files = ", ".join(map(str, merged.files)) or "any kubeconfig"
    if not name:
        known = ", ".join(sorted(merged.contexts)) or "none"
        raise NoCurrentContext(f"{files}: current-context: is not set; contexts that exist: {known}")
    if name not in merged.contexts:
        raise UnknownEntry(f'{files}: context "{name}" does not exist')
    chosen = merged.contexts[name]
    cluster = merged.clusters.get(chosen.value.cluster)
    if cluster is None:
        raise _dangling(chosen, "cluster", chosen.value.cluster)
    user = merged.users.get(chosen.value.user)
    if user is None and chosen.value.user:
        raise _dangling(chosen, "user", chosen.value.user)
    authority, server = _authority(cluster), _server(cluster, user)
    return ClusterConfig(
        server=server,
        host=_host(cluster.value.server),
        authority=authority,
        insecure=cluster.value.insecure_skip_tls_verify,
        tls_server_name=cluster.value.tls_server_name,
        proxy_url=_proxy(cluster, server, environ),
        compression=not cluster.value.disable_compression,
        user=_user(user, cluster, authority) if user else User(),
        impersonation=_impersonation(user) if user else Impersonation(),
        namespace=chosen.value.namespace or "default",
    )


def _dangling(context: Entry[ContextFields], what: str, name: str) -> UnknownEntry:
    return UnknownEntry(f'{context.file}: {context.where}.{what}: {what} "{name}" does not exist')


def _server(cluster: Entry[ClusterFields], user: Entry[UserFields] | None) -> str:
    said = cluster.value.server.strip()
    if not said:
        raise cluster.invalid("server", "must not be empty")
    if "://" not in said:
        fields = cluster.value
        secure = fields.insecure_skip_tls_verify or fields.certificate_authority or fields.certificate_authority_data
        certified = user is not None and (user.value.client_certificate or user.value.client_certificate_data)
        said = f"https://{said}" if secure or certified else f"http://{said}"
    try:
        parts = urlsplit(said)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise cluster.invalid("server", "must be an http or https URL")
    if parts.username or parts.query or parts.fragment:
        raise cluster.invalid("server", "must not have a user, a query or a fragment")
    return said.rstrip("/")


def _host(said: str) -> str:
    """Return a server as client-go hands it on: nothing is added or taken away, but schemes are in small letters."""
    scheme, colon, rest = said.partition("://")
    return f"{scheme.lower()}{colon}{rest}" if colon else said


def _authority(cluster: Entry[ClusterFields]) -> bytes:
    found = _data_or_file(
        cluster, "certificate-authority", cluster.value.certificate_authority, cluster.value.certificate_authority_data
    )
    if not found:
        return b""
    if cluster.value.insecure_skip_tls_verify:
        raise cluster.invalid("insecure-skip-tls-verify", "must not be set together with a certificate authority")
    content = found if isinstance(found, bytes) else kubeconfig.read_file(found)
    try:
        tls.context(content)
    except tls.BadCertificate as error:
        raise cluster.invalid("certificate-authority", str(error)) from None
    return content


def _proxy(cluster: Entry[ClusterFields], server: str, environ: Mapping[str, str]) -> str:
    if not cluster.value.proxy_url:
        return _environment_proxy(server, environ)
    try:
        return proxy.checked(cluster.value.proxy_url)
    except proxy.BadProxy as error:
        raise cluster.invalid("proxy-url", str(error)) from None


def _environment_proxy(server: str, environ: Mapping[str, str]) -> str:
    try:
        return proxy.from_environment(server, environ)
    except proxy.BadProxy as error:
        raise ConfigError(f"environment: {error}") from None


def _user(user: Entry[UserFields], cluster: Entry[ClusterFields], authority: bytes) -> User:
    said = user.value
    if said.auth_provider is not None:
        name = said.auth_provider.get("name", "")
        rule = f'auth provider "{name}" has been removed from Kubernetes clients; use an exec credential plugin'
        raise AuthProviderRemoved(f"{user.file}: {user.where}.auth-provider: {rule}")
    if said.token and (said.username or said.password):
        raise user.invalid("token", "must not be set together with username and password")
    certificate = _data_or_file(user, "client-certificate", said.client_certificate, said.client_certificate_data)
    key = _data_or_file(user, "client-key", said.client_key, said.client_key_data)
    if certificate and not key:
        raise user.invalid("client-key", "must be set, or client-key-data, when there is a client certificate")
    if said.token_file and not said.token:
        kubeconfig.read_file(user.path(said.token_file), f"{user.file}: {user.where}.tokenFile")
    made = User(
        token=said.token,
        token_file=user.path(said.token_file) if said.token_file else None,
        username=said.username,
        password=said.password,
        certificate=certificate,
        key=key,
        plugin=_plugin(said.exec, user, cluster, authority) if said.exec is not None else None,
    )
    try:
        pair = read_credential(made).pair
        if pair is not None:
            tls.context(pair=pair, insecure=True)
    except CredentialsUnavailable as error:
        raise user.invalid("tokenFile" if said.token_file else "token", error.message) from None
    except tls.BadCertificate as error:
        raise user.invalid("client-key", str(error)) from None
    return made


def _plugin(said: ExecCommand, user: Entry[UserFields], cluster: Entry[ClusterFields], authority: bytes) -> ExecPlugin:
    if not said.command:
        raise user.invalid("exec.command", "must be set")
    if said.api_version not in API_VERSIONS:
        raise user.invalid("exec.apiVersion", f"must be {' or '.join(API_VERSIONS)}")
    if any(not item.get("name") for item in said.env):
        raise user.invalid("exec.env", "every variable must have a name")
    mode = said.interactive_mode or ("" if said.api_version == API_VERSIONS[0] else "IfAvailable")
    if mode not in INTERACTIVE_MODES:
        raise user.invalid("exec.interactiveMode", f"must be {', '.join(INTERACTIVE_MODES)}")
    return ExecPlugin(
        command=str(user.path(said.command)) if os.sep in said.command else said.command,
        api_version=said.api_version,
        args=tuple(said.args),
        env={item["name"]: item.get("value", "") for item in said.env},
        install_hint=said.install_hint.strip(),
        interactive_mode=mode,
        cluster=_cluster_info(cluster.value, authority) if said.provide_cluster_info else None,
    )


def _cluster_info(cluster: ClusterFields, authority: bytes) -> JSONObject:
    """Return what a plugin may know about the server."""
    extension = next((item.extension for item in cluster.extensions if item.name == _EXEC_EXTENSION), None)
    told = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": base64.b64encode(authority).decode(),
        "proxy-url": cluster.proxy_url,
        "disable-compression": cluster.disable_compression,
    }
    return {key: value for key, value in told.items() if value} | {"config": extension}


def _impersonation(user: Entry[UserFields]) -> Impersonation:
    said = user.value
    if (said.as_uid or said.as_groups or said.as_user_extra) and not said.as_user:
        raise user.invalid("as", "must be set when a uid, groups or extra fields are impersonated")
    extra = {key: tuple(values) for key, values in said.as_user_extra.items()}
    return Impersonation(said.as_user, said.as_uid, tuple(said.as_groups), extra)


def _data_or_file(entry: Entry[ClusterFields] | Entry[UserFields], name: str, file: str, data: str) -> bytes | Path:
    """Return what a field holds in base64, or the file that its sibling names; empty when neither is set."""
    if file and data:
        raise entry.invalid(name, f"must not be set together with {name}-data")
    if not data:
        if not file:
            return b""
        path = entry.path(file)
        kubeconfig.read_file(path, f"{entry.file}: {entry.where}.{name}")
        return path
    try:
        return base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError):
        raise entry.invalid(f"{name}-data", "must be base64") from None


__all__ = [
    "SERVICE_ACCOUNT",
    "AuthProviderRemoved",
    "ClusterConfig",
    "ConfigError",
    "FileNotReadable",
    "Impersonation",
    "InvalidField",
    "NoConfiguration",
    "NoCurrentContext",
    "UnknownEntry",
    "User",
    "from_kubeconfig",
    "in_cluster",
    "load",
]
