"""All kinds that Echelon knows, by the names under which a request or an object mentions them.

A kind is defined once, beside its type. Everything that needs to go from a name to a kind asks here, so two kinds that
claim one name are a mistake that must not wait for the first request: it is raised when the registry is built.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, TypeAlias

from echelon.api import (
    admissionregistration,
    apiextensions,
    apps,
    authentication,
    authorization,
    autoscaling,
    batch,
    certificates,
    cluster,
    configuration_policy,
    coordination,
    core,
    disruption,
    events,
    grove,
    karmada,
    kruise,
    networking,
    placement,
    placement_rule,
    policy,
    policy_binding,
    priorities,
    propagation,
    rbac,
    rollout_ledger,
    storage,
    work,
    work_set,
)
from echelon.api.base import JSONObject
from echelon.api.crd import crd
from echelon.api.kinds import Kind

AnyKind: TypeAlias = Kind[Any]
_Name: TypeAlias = tuple[str, str, str]

_MODULES = (
    # served through CRDs
    cluster,
    placement,
    work,
    work_set,
    policy,
    policy_binding,
    placement_rule,
    configuration_policy,
    karmada,
    rollout_ledger,
    propagation,
    grove,
    kruise,
    # served by Kubernetes itself
    core,
    events,
    apps,
    batch,
    autoscaling,
    networking,
    disruption,
    storage,
    priorities,
    coordination,
    rbac,
    authentication,
    authorization,
    certificates,
    apiextensions,
    admissionregistration,
)


class DuplicateNameError(ValueError):
    """Two kinds that claim the same name."""

    def __init__(self, name: str, first: AnyKind, second: AnyKind) -> None:
        claims = f"{first.resource}/{first.version} and {second.resource}/{second.version}"
        super().__init__(f"{name} is claimed by {claims}")


@dataclass(frozen=True)
class Registry:
    """Kinds that have been checked against each other."""

    kinds: tuple[AnyKind, ...]
    _by_gvk: Mapping[_Name, AnyKind]

    def by_gvk(self, group: str, version: str, kind: str) -> AnyKind | None:
        """Return the kind of an object, which names its group, version and kind."""
        return self._by_gvk.get((group, version, kind))

    def custom_kinds(self) -> tuple[AnyKind, ...]:
        """Return the kinds that exist in a Kubernetes cluster only after their CRD was applied."""
        return tuple(kind for kind in self.kinds if not kind.builtin)

    def crds(self) -> list[JSONObject]:
        """Return the CRDs of all custom kinds, by name; versions of a resource share one."""
        versions: dict[str, list[AnyKind]] = {}
        for kind in self.custom_kinds():
            versions.setdefault(kind.resource, []).append(kind)
        return [crd(*versions[name]) for name in sorted(versions)]


def collect(kinds: Iterable[AnyKind]) -> Registry:
    """Check kinds against each other and index them; raises `DuplicateNameError`."""
    kept = tuple(kinds)
    by_resource: dict[_Name, AnyKind] = {}
    by_gvk: dict[_Name, AnyKind] = {}
    short: dict[str, AnyKind] = {}
    for kind in kept:
        _claim(by_resource, (kind.group, kind.version, kind.plural), kind)
        _claim(by_gvk, (kind.group, kind.version, kind.kind), kind)
        for name in () if kind.builtin else kind.short_names:
            other = short.setdefault(name, kind)
            if other.resource != kind.resource:
                raise DuplicateNameError(f"short name {name}", other, kind)
    return Registry(kept, MappingProxyType(by_gvk))


def _claim(index: dict[_Name, AnyKind], name: _Name, kind: AnyKind) -> None:
    if name in index:
        raise DuplicateNameError("/".join(filter(None, name)), index[name], kind)
    index[name] = kind


@cache
def registry() -> Registry:
    """Return the registry of everything that Echelon comes with."""
    return collect(kind for module in _MODULES for kind in module.KINDS)


def by_gvk(group: str, version: str, kind: str) -> AnyKind | None:
    """Return the kind of an object, or None if Echelon doesn't come with it."""
    return registry().by_gvk(group, version, kind)


def crds() -> list[JSONObject]:
    """Return the CRDs that Echelon comes with, by name."""
    return registry().crds()
