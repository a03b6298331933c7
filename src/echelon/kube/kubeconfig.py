"""Reading kubeconfig files the way kubectl does.

People have several of them, list them in KUBECONFIG and expect the same answer from every tool: the first file that
has an entry of a name wins with the whole entry, files that are not there don't matter, and a path in a file is
relative to that file. Kubeconfigs hold credentials, so complaints name the file, the field and the rule, and never
quote what the field holds.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import yaml

from echelon.api.base import JSON

T = TypeVar("T")


class ConfigError(Exception):
    """There is no usable configuration; the text says where and why."""


class FileNotReadable(ConfigError):
    """A file that is needed is missing or may not be read."""

    def __init__(self, file: Path, why: str, needed_by: str = "") -> None:
        super().__init__(f"{needed_by}: {file}: {why}" if needed_by else f"{file}: {why}")


class NotYAML(ConfigError):
    """A kubeconfig cannot be parsed."""

    def __init__(self, file: Path, where: str) -> None:
        super().__init__(f"{file}: not a YAML document{where}")


class InvalidField(ConfigError):
    """A field breaks a rule."""

    def __init__(self, file: Path, field_path: str, rule: str) -> None:
        super().__init__(f"{file}: {field_path}: {rule}")


class ExecCommand(msgspec.Struct, frozen=True, rename="camel"):
    """`user.exec`: a program that makes credentials."""

    command: str = ""
    api_version: str = ""
    args: list[str] = []
    env: list[dict[str, str]] = []
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class NamedExtension(msgspec.Struct, frozen=True):
    """Data of a tool, under its name."""

    name: str = ""
    extension: JSON = None


class ClusterFields(msgspec.Struct, frozen=True, rename="kebab"):
    """`clusters[].cluster`."""

    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: list[NamedExtension] = []


class UserFields(msgspec.Struct, frozen=True, rename="kebab"):
    """`users[].user`."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    as_user: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: list[str] = []
    as_user_extra: dict[str, list[str]] = {}
    exec: ExecCommand | None = None
    auth_provider: dict[str, Any] | None = None


class ContextFields(msgspec.Struct, frozen=True):
    """`contexts[].context`."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(msgspec.Struct, frozen=True):
    name: str = ""
    cluster: ClusterFields = ClusterFields()


class _NamedUser(msgspec.Struct, frozen=True):
    name: str = ""
    user: UserFields = UserFields()


class _NamedContext(msgspec.Struct, frozen=True):
    name: str = ""
    context: ContextFields = ContextFields()


class _Document(msgspec.Struct, frozen=True, rename="kebab"):
    kind: str = ""
    current_context: str = ""
    clusters: list[_NamedCluster] = []
    users: list[_NamedUser] = []
    contexts: list[_NamedContext] = []


@dataclass(frozen=True)
class Entry(Generic[T]):
    """What a file says under a name. `where` is the path of its fields, for complaints."""

    value: T = field(repr=False)
    file: Path
    where: str

    def invalid(self, name: str, rule: str) -> InvalidField:
        """Say that one of its fields breaks a rule."""
        return InvalidField(self.file, f"{self.where}.{name}", rule)

    def path(self, said: str) -> Path:
        """Return a path that the entry names, seen from the file that it is in."""
        return self.file.parent / said


@dataclass(frozen=True)
class Kubeconfig:
    """All files as one."""

    files: tuple[Path, ...]  # those that exist
    current_context: str
    clusters: Mapping[str, Entry[ClusterFields]]
    users: Mapping[str, Entry[UserFields]]
    contexts: Mapping[str, Entry[ContextFields]]


def candidates(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the files that kubectl would look at, whether they exist or not."""
    listed = [part for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    if listed:
        return tuple(dict.fromkeys(Path(part).absolute() for part in listed))
    home = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
    return (home / ".kube" / "config",)


def read(paths: Iterable[Path]) -> Kubeconfig:
    """Read and merge the files that exist."""
    current, files = "", []
    clusters: dict[str, Entry[ClusterFields]] = {}
    users: dict[str, Entry[UserFields]] = {}
    contexts: dict[str, Entry[ContextFields]] = {}
    for path in paths:
        if not path.exists():
            continue
        files.append(path)
        document = _parse(path)
        current = current or document.current_context
        _merge(clusters, path, "clusters", "cluster", ((item.name, item.cluster) for item in document.clusters))
        _merge(users, path, "users", "user", ((item.name, item.user) for item in document.users))
        _merge(contexts, path, "contexts", "context", ((item.name, item.context) for item in document.contexts))
    return Kubeconfig(tuple(files), current, clusters, users, contexts)


def read_file(path: Path, needed_by: str = "") -> bytes:
    """Return the content of a file that must be there."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise FileNotReadable(path, error.strerror or type(error).__name__, needed_by) from None


def _parse(path: Path) -> _Document:
    content = read_file(path)
    try:
        document = yaml.safe_load(content)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f": line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        raise NotYAML(path, where) from None
    except (yaml.YAMLError, ValueError, RecursionError):  # not text, an impossible date, nesting without end
        raise NotYAML(path, "") from None
    if document is None:
        return _Document()
    if not isinstance(document, dict):
        raise InvalidField(path, "the document", "must be a mapping with clusters, users and contexts")
    try:
        parsed = msgspec.convert(_without_nulls(document), _Document)
    except msgspec.ValidationError as error:
        rule, _, where = str(error).replace("`", "").partition(" - at $")
        raise InvalidField(path, where.lstrip(".") or "the document", rule) from None
    if parsed.kind not in ("", "Config"):
        raise InvalidField(path, "kind", "must be Config")
    return parsed


def _without_nulls(value: JSON) -> JSON:
    """Drop nulls: to Kubernetes, null is the same as not there."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value if item is not None]
    return value


def _merge(into: dict[str, Entry[T]], path: Path, section: str, inner: str, entries: Iterable[tuple[str, T]]) -> None:
    seen: set[str] = set()
    for name, value in entries:
        if name in seen:
            raise InvalidField(path, f"{section}[{name}]", "the name must be unique in the file")
        seen.add(name)
        into.setdefault(name, Entry(value, path, f"{section}[{name}].{inner}"))
