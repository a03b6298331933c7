"""Writing the kubeconfig that makes kubectl talk to the hub, into a file that may have somebody else's clusters too.

People's kubeconfig is often the only copy of the way into their clusters. So entries that are not ours stay as they
are, the file is replaced in one step, and a file that cannot be understood is left alone and reported. Reports never
quote the file: it has credentials in it.
"""

import base64
import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from echelon.api.base import JSONObject
from echelon.hub.access.private import DIRECTORY_MODE, write_private

_LARGEST = 4 * 1024 * 1024
_LISTS = ("clusters", "users", "contexts")


class KubeconfigError(Exception):
    """The file cannot be merged into; it was not touched."""


@dataclass(frozen=True)
class ClusterEntry:
    """A server and how to recognise it."""

    name: str
    server: str
    authority_pem: bytes


@dataclass(frozen=True)
class UserEntry:
    """Credentials: a token, or a certificate with its key."""

    name: str
    token: str = ""
    certificate_pem: bytes = b""
    key_pem: bytes = b""


@dataclass(frozen=True)
class ContextEntry:
    """A cluster as a user."""

    name: str
    cluster: str
    user: str
    namespace: str = ""


def merge_kubeconfig(
    path: Path,
    clusters: Sequence[ClusterEntry],
    users: Sequence[UserEntry],
    contexts: Sequence[ContextEntry],
    current: str = "",
) -> None:
    """Put the entries into the file, in place of those with the same names; `current` becomes the current context."""
    # Through links: replacing the link would leave the file that it points to as it was.
    target = path.expanduser().resolve()
    target.parent.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
    with _alone(target.parent):
        config = _read(target)
        config["clusters"] = _merged(config["clusters"], map(_cluster, clusters))
        config["users"] = _merged(config["users"], map(_user, users))
        config["contexts"] = _merged(config["contexts"], map(_context, contexts))
        if current:
            config["current-context"] = current
        write_private(target, yaml.safe_dump(config, sort_keys=False, allow_unicode=True).encode())


def _read(path: Path) -> JSONObject:
    base: JSONObject = {"apiVersion": "v1", "kind": "Config", "preferences": {}}
    lists: JSONObject = {name: [] for name in _LISTS}
    if not path.exists():
        return {**base, **lists, "current-context": ""}
    config = _parse(path)
    if config.get("kind", "Config") != "Config" or config.get("apiVersion", "v1") != "v1":
        raise KubeconfigError(f"{path} is not a kubeconfig: it should be of kind Config and apiVersion v1")
    for name in _LISTS:
        entries = config.get(name)
        if entries is None:
            config[name] = []
        elif not isinstance(entries, list) or not all(isinstance(e, dict) and "name" in e for e in entries):
            raise KubeconfigError(f"{path} is not a kubeconfig: {name} should be a list of entries with names")
    return {**base, **config}


def _parse(path: Path) -> JSONObject:
    if path.stat().st_size > _LARGEST:
        raise KubeconfigError(f"{path} is larger than a kubeconfig can be")
    try:
        config = yaml.safe_load(path.read_bytes())
    except yaml.MarkedYAMLError as error:
        where = f" at line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise KubeconfigError(f"{path} is not valid YAML{where}") from None
    except (yaml.YAMLError, RecursionError, ValueError):
        raise KubeconfigError(f"{path} is not valid YAML") from None
    if config is None:
        return {}
    if not isinstance(config, dict):
        raise KubeconfigError(f"{path} is not a kubeconfig: it should be a mapping")
    return config


def _merged(present: list[JSONObject], ours: Iterable[JSONObject]) -> list[JSONObject]:
    replacing = {entry["name"]: entry for entry in ours}
    kept = [replacing.pop(entry["name"], entry) for entry in present]
    return [*kept, *replacing.values()]


def _cluster(entry: ClusterEntry) -> JSONObject:
    data = {"server": entry.server, "certificate-authority-data": _data(entry.authority_pem)}
    return {"name": entry.name, "cluster": data}


def _user(entry: UserEntry) -> JSONObject:
    credentials: JSONObject = {}
    if entry.certificate_pem:
        credentials["client-certificate-data"] = _data(entry.certificate_pem)
        credentials["client-key-data"] = _data(entry.key_pem)
    if entry.token:
        credentials["token"] = entry.token
    return {"name": entry.name, "user": credentials}


def _context(entry: ContextEntry) -> JSONObject:
    context = {"cluster": entry.cluster, "user": entry.user}
    if entry.namespace:
        context["namespace"] = entry.namespace
    return {"name": entry.name, "context": context}


def _data(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Keep two hubs that merge into one file from losing each other's entries."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
