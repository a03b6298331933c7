"""What a logical cluster serves: the built-in kinds, and whatever CRDs say.

A server of thousands of logical clusters must not compile the same schemas thousands of times, so compiled resources
are shared: built-in ones by all clusters, custom ones by all that have the same CRD.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import msgspec

from echelon.api import registry
from echelon.api.base import JSONObject
from echelon.api.kinds import Column, Kind, Scale
from echelon.api.schema import schema_of
from echelon.hub.kinds import events
from echelon.hub.schema.cel import Rules
from echelon.hub.schema.structural import Structural
from echelon.hub.schema.validation import Validator
from echelon.hub.web.table import Printer
from echelon.kube.errors import NotFound

Convert = Callable[[JSONObject], JSONObject]


@dataclass(frozen=True)
class Resource:
    """A resource in one served version, with everything that was compiled for it."""

    kind: Kind[Any]
    schema: JSONObject
    storage_version: str
    to_storage: Convert | None = None
    from_storage: Convert | None = None
    storage: str = ""  # the store's name for it; differs from `plural.group` only for aliases

    @cached_property
    def stored_as(self) -> str:
        """Name of the resource in the store."""
        return self.storage or self.kind.resource

    @cached_property
    def structural(self) -> Structural:
        """Compile the schema."""
        return Structural(self.schema, builtin=self.kind.builtin)

    @cached_property
    def validator(self) -> Validator:
        """Compile the validation."""
        return Validator(self.schema)

    @cached_property
    def rules(self) -> Rules:
        """Compile the CEL rules."""
        return Rules.compile(self.schema)

    @cached_property
    def printer(self) -> Printer:
        """Compile the table columns."""
        return Printer(self.kind)

    @property
    def persistent(self) -> bool:
        """Whether objects are stored at all; reviews are only answered."""
        return self.kind.kind not in _ANSWERED_ONLY

    @property
    def verbs(self) -> Sequence[str]:
        """What can be done with it; namespaces are deleted one by one."""
        if not self.persistent:
            return ("create",)
        return [verb for verb in _VERBS if verb != "deletecollection" or self.kind.resource != "namespaces"]

    def outgoing(self, stored: JSONObject) -> JSONObject:
        """Return a stored object as this version shows it."""
        return self.from_storage(stored) if self.from_storage else stored

    def incoming(self, shown: JSONObject) -> JSONObject:
        """Return an object of this version as it is stored."""
        return self.to_storage(shown) if self.to_storage else shown


_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_ANSWERED_ONLY = frozenset({
    "TokenReview", "SelfSubjectReview", "TokenRequest", "SubjectAccessReview",
    "SelfSubjectAccessReview", "LocalSubjectAccessReview", "SelfSubjectRulesReview", "Scale",
})  # fmt: skip


@lru_cache(maxsize=1)
def builtin_resources() -> tuple[Resource, ...]:
    """Return what every cluster serves without any CRD."""
    return tuple(_builtin(kind) for kind in registry.registry().kinds if kind.builtin)


def _builtin(kind: Kind[Any]) -> Resource:
    schema = schema_of(kind.type, metadata="full")
    if kind.group == "events.k8s.io":
        # Two groups show the same events; they are stored as the core group has them.
        return Resource(
            kind, schema, kind.version, storage="events", to_storage=events.to_core, from_storage=events.from_core
        )
    return Resource(kind, schema, kind.version)


def custom_resources(crd: JSONObject) -> tuple[Resource, ...]:
    """Return the versions that a CRD serves."""
    return _custom_resources(msgspec.json.encode(crd["spec"], order="sorted"))


@lru_cache(maxsize=512)
def _custom_resources(spec_json: bytes) -> tuple[Resource, ...]:
    spec = msgspec.json.decode(spec_json)
    storage = next(version["name"] for version in spec["versions"] if version["storage"])
    return tuple(_custom(spec, version, storage) for version in spec["versions"] if version["served"])


def _custom(spec: JSONObject, version: JSONObject, storage: str) -> Resource:
    names, subresources = spec["names"], version.get("subresources") or {}
    scale = subresources.get("scale")
    kind = Kind[Any](
        group=spec["group"],
        version=version["name"],
        kind=names["kind"],
        plural=names["plural"],
        type=dict,
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames", ())),
        categories=tuple(names.get("categories", ())),
        status="status" in subresources,
        scale=scale
        and Scale(scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath", "")),
        columns=tuple(_column(column) for column in version.get("additionalPrinterColumns", ())) or _AGE,
        selectable_fields=tuple(f["jsonPath"].lstrip(".") for f in version.get("selectableFields", ())),
    )
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"}
    convert = _version_setter(kind.api_version)
    back = _version_setter(f"{kind.group}/{storage}")
    other = version["name"] != storage
    return Resource(
        kind,
        schema,
        storage,
        to_storage=back if other else None,
        from_storage=convert if other else None,
    )


def _column(column: JSONObject) -> Column:
    return Column(
        name=column["name"],
        path=column["jsonPath"],
        type=column["type"],
        description=column.get("description", ""),
        priority=column.get("priority", 0),
        format=column.get("format", ""),
    )


_AGE = (Column("Age", ".metadata.creationTimestamp", "date"),)


def _version_setter(api_version: str) -> Convert:
    return lambda obj: {**obj, "apiVersion": api_version}


@dataclass
class Catalogue:
    """The resources of one logical cluster; follows the CRDs in its store."""

    _custom: dict[str, tuple[Resource, ...]] = field(default_factory=dict)
    _served: dict[tuple[str, str, str], Resource] = field(default_factory=dict)
    _kinds: dict[tuple[str, str, str], Resource] = field(default_factory=dict)
    _stored: dict[str, Resource] | None = None  # made when it is asked for: keepers ask at every change
    generation: int = 0  # changes with every CRD, so that documents made from the catalogue can be cached

    def __post_init__(self) -> None:
        self._rebuild()

    def serve(self, crd: JSONObject) -> None:
        """Start, or go on, to serve what an established CRD defines."""
        self._custom[crd["metadata"]["name"]] = custom_resources(crd)
        self._rebuild()

    def withdraw(self, name: str) -> None:
        """Stop serving what a CRD defined."""
        if self._custom.pop(name, None) is not None:
            self._rebuild()

    def _rebuild(self) -> None:
        self._stored = None
        self._served = {(r.kind.group, r.kind.version, r.kind.plural): r for r in self}
        self._kinds = {(r.kind.group, r.kind.version, r.kind.kind): r for r in self}
        self.generation += 1

    def __iter__(self) -> Iterator[Resource]:
        yield from builtin_resources()
        for name in sorted(self._custom):
            yield from self._custom[name]

    def find(self, group: str, version: str, plural: str) -> Resource:
        """Return a served resource."""
        found = self._served.get((group, version, plural))
        if found is None:
            raise NotFound("the server could not find the requested resource")
        return found

    def of_kind(self, group: str, version: str, kind: str) -> Resource | None:
        """Return the resource of a kind; None when it is not served."""
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
