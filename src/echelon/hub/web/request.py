"""What an HTTP request asks for, read off its method and address."""

from collections.abc import Mapping
from dataclasses import dataclass

from echelon.api.labels import SelectorError, parse_fields

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_CLUSTERS = "clusters"


@dataclass(frozen=True)
class RequestInfo:
    """The same facts that Kubernetes authorises by."""

    cluster: str  # logical cluster; empty is the hub itself
    path: str  # without the logical cluster
    verb: str
    is_resource: bool = False
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    lasting: bool = False  # whether its answer goes on for as long as somebody reads it


def parse(method: str, path: str, query: Mapping[str, str]) -> RequestInfo:
    """Read a request line. Addresses that name no resource keep the HTTP method as their verb."""
    cluster, path = _split_cluster(path)
    parts = path.strip("/").split("/")
    if "" in parts:
        return RequestInfo(cluster, path, method.lower())  # an empty part names nothing
    if len(parts) >= 3 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return RequestInfo(cluster, path, method.lower())
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces" and (group or rest[2] not in ("status", "finalize")):
        namespace, rest = rest[1], rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    if len(rest) > 3:
        return RequestInfo(cluster, path, method.lower())
    if not group and resource == "namespaces":
        namespace = name
    selected = name or _name_selected(query.get("fieldSelector", ""))
    verb = _verb(method, name, query)
    return RequestInfo(
        cluster,
        path,
        verb,
        True,
        group,
        version,
        resource,
        subresource,
        namespace,
        selected if verb in ("list", "watch", "deletecollection") else name,
        verb == "watch" or (subresource == "log" and truth(query.get("follow"))),
    )


def _split_cluster(path: str) -> tuple[str, str]:
    parts = path.split("/", 3)
    if len(parts) >= 3 and parts[1] == _CLUSTERS:
        return parts[2], "/" + (parts[3] if len(parts) > 3 else "")
    return "", path


def _verb(method: str, name: str, query: Mapping[str, str]) -> str:
    if method in ("GET", "HEAD"):
        if name:
            return "get"
        return "watch" if method == "GET" and truth(query.get("watch")) else "list"
    if method == "DELETE" and not name:
        return "deletecollection"
    return _VERBS.get(method, method.lower())


def truth(text: str | None) -> bool:
    """Read a boolean query parameter as Kubernetes does: present and not false."""
    return text is not None and text.lower() not in ("false", "0")


def _name_selected(fields: str) -> str:
    """Return the one name that a field selector allows, so that permissions by name cover lists and watches."""
    if not fields:
        return ""
    try:
        terms = parse_fields(fields).terms
    except SelectorError:
        return ""
    names = [term.value for term in terms if term.field == "metadata.name" and not term.negated]
    return names[0] if len(names) == 1 else ""
