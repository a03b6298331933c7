"""Discovery: how a client learns what a server serves, in the plain and in the aggregated form."""

from collections.abc import Iterable

from echelon.api.base import JSONObject
from echelon.hub.catalogue.catalogue import Catalogue
from echelon.hub.catalogue.resources import Resource
from echelon.hub.kinds.builtin import strategy_of
from echelon.hub.verbs.subresources import SUBRESOURCES
from echelon.kube.errors import NotFound

_STATUS_VERBS = ["get", "patch", "update"]


def core_versions(address: str) -> JSONObject:
    """Answer `/api`."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def groups(catalogue: Catalogue) -> JSONObject:
    """Answer `/apis`."""
    listed = [_group(name, versions) for name, versions in _by_group(catalogue).items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}


def group(catalogue: Catalogue, name: str) -> JSONObject:
    """Answer `/apis/<group>`."""
    versions = _by_group(catalogue).get(name)
    if not name or not versions:
        raise NotFound("the server could not find the requested resource")
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}


def resources(catalogue: Catalogue, name: str, version: str) -> JSONObject:
    """Answer `/api/v1` and `/apis/<group>/<version>`."""
    served = _by_group(catalogue).get(name, {}).get(version)
    if not served:
        raise NotFound("the server could not find the requested resource")
    listed = [entry for resource in served for entry in _plain(resource)]
    listed.sort(key=lambda entry: str(entry["name"]))
    group_version = f"{name}/{version}" if name else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": listed}


def aggregated(catalogue: Catalogue, *, core: bool, version: str = "v2") -> JSONObject:
    """Answer `/api` (core) or `/apis` in one document."""
    items = []
    for name, versions in _by_group(catalogue).items():
        if (name == "") == core:
            listed = [
                {"version": v, "freshness": "Current", "resources": [_aggregated(r) for r in served]}
                for v, served in versions.items()
            ]
            items.append({"metadata": {"name": name} if name else {}, "versions": listed})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": items,
    }


def _by_group(catalogue: Catalogue) -> dict[str, dict[str, list[Resource]]]:
    found: dict[str, dict[str, list[Resource]]] = {}
    for resource in catalogue:
        if resource.kind.kind not in ("Scale", "TokenRequest"):  # only ever subresources
            versions = found.setdefault(resource.kind.group, {})
            versions.setdefault(resource.kind.version, []).append(resource)
    return {name: dict(sorted(versions.items(), key=_preference)) for name, versions in found.items()}


def _preference(item: tuple[str, object]) -> tuple[int, tuple[int, ...], str]:
    """Sort versions as Kubernetes prefers them: stable, beta, alpha; each newest first."""
    name = item[0]
    for rank, word in ((1, "beta"), (2, "alpha")):
        major, found, minor = name[1:].partition(word)
        if found and name[0] == "v" and major.isdigit() and minor.isdigit():
            return rank, (-int(major), -int(minor)), ""
    if name[:1] == "v" and name[1:].isdigit():
        return 0, (-int(name[1:]),), ""
    return 3, (), name


def _group(name: str, versions: Iterable[str]) -> JSONObject:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _subresources(resource: Resource) -> Iterable[tuple[str, str, str, str, list[str]]]:
    """Yield (name, group, version, kind, verbs)."""
    kind = resource.kind
    if kind.status:
        for name in strategy_of(resource).status_endpoints:
            yield name, kind.group, kind.version, kind.kind, _STATUS_VERBS
    if kind.scale:
        yield "scale", "autoscaling", "v1", "Scale", _STATUS_VERBS
    if kind.resource == "pods":
        yield "log", kind.group, kind.version, kind.kind, ["get"]
    if kind.builtin:
        for (stored, name), sub in SUBRESOURCES.items():
            if stored == kind.resource:
                yield name, sub.group, sub.version, sub.kind, [sub.verb]


def _plain(resource: Resource) -> Iterable[JSONObject]:
    kind = resource.kind
    entry: JSONObject = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(resource.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    yield entry
    for name, group_, version, sub_kind, verbs in _subresources(resource):
        sub = {"name": f"{kind.plural}/{name}", "singularName": "", "namespaced": kind.namespaced, "kind": sub_kind}
        if (group_, version) != (kind.group, kind.version):
            sub |= {"group": group_, "version": version}
        yield {**sub, "verbs": verbs}


def _aggregated(resource: Resource) -> JSONObject:
    kind = resource.kind
    entry: JSONObject = {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(resource.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    subresources = [
        {"subresource": name, "responseKind": {"group": g, "version": v, "kind": k}, "verbs": verbs}
        for name, g, v, k, verbs in _subresources(resource)
    ]
    if subresources:
        entry["subresources"] = subresources
    return entry
