"""OpenAPI v3: what `kubectl explain`, client-side validation and client generators read.

A document describes one group version. The index names each with a hash of its content, which clients put into the
address, so that they can keep a document for ever. Every kubectl asks for the index, so a hash is computed once for a
set of resources, no matter how many logical clusters serve it. Documents are large and asked for rarely: none is kept.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterable

import msgspec

from echelon.api.base import JSONObject
from echelon.hub.catalogue.catalogue import Catalogue
from echelon.hub.catalogue.resources import Resource
from echelon.hub.web import discovery
from echelon.hub.web.openapi_paths import paths
from echelon.hub.web.openapi_schemas import SCALE, gvk, schema_name, schemas, whole_object
from echelon.hub.web.version import version as server_version

_KEPT = 1024
_digests: OrderedDict[tuple[int, ...], tuple[list[Resource], str]] = OrderedDict()


def index(catalogue: Catalogue) -> JSONObject:
    """Answer `/openapi/v3`."""
    listed = [("api/v1", "", "v1")]
    for group in discovery.groups(catalogue)["groups"]:
        listed += [(f"apis/{v['groupVersion']}", group["name"], v["version"]) for v in group["versions"]]
    # Addresses as they are at the root; who serves a logical cluster knows what stands before them.
    return {
        "paths": {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest(catalogue, group, version)}"}
            for path, group, version in sorted(listed)
        }
    }


def document(catalogue: Catalogue, group: str, version: str) -> JSONObject:
    """Answer `/openapi/v3/api/v1` and `/openapi/v3/apis/<group>/<version>`."""
    entries = discovery.resources(catalogue, group, version)["resources"]
    served = _served(catalogue, group, version)
    kubernetes = server_version()
    return {
        "openapi": "3.0.0",
        "info": {"title": "Echelon", "version": f"v{kubernetes['major']}.{kubernetes['minor']}"},
        "paths": paths(group, version, entries, builtin={r.kind.kind for r in served if r.kind.builtin}),
        "components": {"schemas": schemas(served) | _borrowed(catalogue, group, version, entries)},
    }


def digest(catalogue: Catalogue, group: str, version: str) -> str:
    """Return the hash of a document's content, which is also its ETag."""
    served = _served(catalogue, group, version)
    # Compiled resources are shared by the clusters that serve them, so they are known by identity. The cache holds on
    # to them: an id that is in use cannot come to mean another resource.
    key = tuple(id(resource) for resource in served)
    if key not in _digests:
        content = msgspec.json.encode(document(catalogue, group, version))
        _digests[key] = served, hashlib.sha512(content).hexdigest().upper()
    _digests.move_to_end(key)
    while len(_digests) > _KEPT:
        _digests.popitem(last=False)
    return _digests[key][1]


def _served(catalogue: Catalogue, group: str, version: str) -> list[Resource]:
    return [r for r in catalogue if (r.kind.group, r.kind.version) == (group, version)]


def _borrowed(catalogue: Catalogue, group: str, version: str, entries: Iterable[JSONObject]) -> JSONObject:
    """Return the schemas of kinds that subresources take from elsewhere, such as the eviction of a pod."""
    found: JSONObject = {}
    for entry in entries:
        named = entry.get("group", group), entry.get("version", version), entry["kind"]
        name = schema_name(*named, builtin=True)
        if "/" not in entry["name"] or name == SCALE:
            continue
        resource = catalogue.of_kind(*named)
        if resource is None:
            found[name] = whole_object({}, gvk(*named), builtin=True)
        elif (resource.kind.group, resource.kind.version) != (group, version):
            found |= schemas([resource])
    return found
