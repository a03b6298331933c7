"""Where objects live below a server's URL.

An empty name would turn the deletion of one object into the deletion of all, and a name with a slash would be
somebody else's path. So names are checked here, before they become part of a URL.
"""

from typing import Any
from urllib.parse import quote

from echelon.api.kinds import Kind
from echelon.kube.errors import BadRequest


def collection(kind: Kind[Any], namespace: str = "") -> str:
    """Return the path of all objects of a kind, in one namespace or in all."""
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    inside = f"/namespaces/{_segment('namespace', namespace)}" if kind.namespaced and namespace else ""
    return f"{root}{inside}/{kind.plural}"


def creation(kind: Kind[Any], namespace: str = "") -> str:
    """Return the path to create an object at."""
    if kind.namespaced and not namespace:
        raise BadRequest("an empty namespace may not be set during creation")
    return collection(kind, namespace)


def item(kind: Kind[Any], name: str, namespace: str = "", subresource: str = "") -> str:
    """Return the path of one object, or of a part of it."""
    if not name:
        raise BadRequest("resource name may not be empty")
    if kind.namespaced and not namespace:
        raise BadRequest("an empty namespace may not be set when a resource name is provided")
    part = f"/{_segment('subresource', subresource)}" if subresource else ""
    return f"{collection(kind, namespace)}/{_segment('resource', name)}{part}"


def _segment(what: str, name: str) -> str:
    if name in (".", ".."):
        raise BadRequest(f"invalid {what} name \"{name}\": [may not be '{name}']")
    for letter in "/%":
        if letter in name:
            raise BadRequest(f"invalid {what} name \"{name}\": [may not contain '{letter}']")
    return quote(name, safe=":@!$&'()*+,;=~")
