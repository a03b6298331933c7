"""What a logical cluster serves: the built-in kinds, and those of the CRDs in its store."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from echelon.api.base import JSONObject
from echelon.hub.catalogue.resources import Resource, builtin_resources, custom_resources
from echelon.kube.errors import NotFound


@dataclass
class Catalogue:
    """The resources of one logical cluster; follows the CRDs in its store."""

    _custom: dict[str, tuple[Resource, ...]] = field(default_factory=dict)
    # Made when they are asked for: a new cluster gets many CRDs at once, and controllers ask at every change.
    _served: dict[tuple[str, str, str], Resource] | None = None
    _kinds: dict[tuple[str, str, str], Resource] | None = None
    _stored: dict[str, Resource] | None = None
    generation: int = 1  # changes with every CRD, so that documents made from the catalogue can be cached

    def serve(self, crd: JSONObject) -> None:
        """Start, or go on, to serve what an established CRD defines."""
        self._custom[crd["metadata"]["name"]] = custom_resources(crd)
        self._changed()

    def withdraw(self, name: str) -> None:
        """Stop serving what a CRD defined."""
        if self._custom.pop(name, None) is not None:
            self._changed()

    def _changed(self) -> None:
        self._served = self._kinds = self._stored = None
        self.generation += 1

    def _by_plural(self) -> Mapping[tuple[str, str, str], Resource]:
        if self._served is None:
            self._served = {(r.kind.group, r.kind.version, r.kind.plural): r for r in self}
        return self._served

    def __iter__(self) -> Iterator[Resource]:
        yield from builtin_resources()
        for name in sorted(self._custom):
            yield from self._custom[name]

    def find(self, group: str, version: str, plural: str) -> Resource:
        """Return a served resource."""
        found = (self._served or self._by_plural()).get((group, version, plural))
        if found is None:
            raise NotFound("the server could not find the requested resource")
        return found

    def serves(self, group: str, version: str, plural: str) -> bool:
        """Whether a resource is served."""
        return (group, version, plural) in self._by_plural()

    def of_kind(self, group: str, version: str, kind: str) -> Resource | None:
        """Return the resource of a kind; None when it is not served."""
        if self._kinds is None:
            self._kinds = {(r.kind.group, r.kind.version, r.kind.kind): r for r in self}
        return self._kinds.get((group, version, kind))

    def stored(self) -> Mapping[str, Resource]:
        """Return one resource for each name in the store: the one in the storage version."""
        if self._stored is not None:
            return self._stored
        found: dict[str, Resource] = {}
        for resource in self:
            if resource.persistent and (
                resource.stored_as not in found or resource.kind.version == resource.storage_version
            ):
                if resource.storage and resource.stored_as in found:
                    continue
                found[resource.stored_as] = resource
        self._stored = found
        return found

    def names_taken(self, besides: str) -> Iterable[tuple[str, str]]:
        """Return (group, name) of every plural, singular, short name and kind that other CRDs and built-ins use."""
        for owner, resources in self._custom.items():
            if owner != besides:
                for resource in resources:
                    kind = resource.kind
                    for name in (kind.plural, kind.singular, *kind.short_names, kind.kind, kind.list_kind):
                        yield kind.group, name
