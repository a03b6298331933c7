"""Resources: the built-in kinds, and whatever CRDs define, each with what was compiled for it.

A server of thousands of logical clusters must not compile the same schemas thousands of times, so compiled resources
are shared: built-in ones by all clusters, custom ones by all that have the same CRD.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import msgspec

from echelon.api import registry
from echelon.api.base import JSONObject
from echelon.api.kinds import Column, Kind, Scale
from echelon.api.schema import schema_of
from echelon.hub.catalogue import events
from echelon.hub.catalogue.table import Printer
from echelon.hub.schema.cel import Rules
from echelon.hub.schema.known_parts import KnownParts
from echelon.hub.schema.structural import Structural
from echelon.hub.schema.validation import Validator

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

    @property
    def is_compiled(self) -> bool:
        """Whether nothing that takes long is left to do before an object is admitted."""
        return "rules" in self.__dict__

    def compile(self) -> None:
        """Compile everything that admission needs, beside the event loop: others may do the same at the same time."""
        _ = self.structural
        self.validator.check_schema()
        # Not as others ask for it: they would wait for each other, whatever resource they want compiled.
        self.__dict__.setdefault("rules", Rules.compile(self.schema))

    @cached_property
    def known_parts(self) -> KnownParts:
        """What was admitted before."""
        return KnownParts()

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
    spec = crd["spec"]
    known = _read.get(id(spec))
    if known is None or known[0] is not spec:
        if len(_read) >= _MOST_READ:
            _read.clear()
        known = _read[id(spec)] = spec, _custom_resources(msgspec.json.encode(spec, order="sorted"))
    return known[1]


# By identity: clusters that are copies of one share what their CRDs say, and to look at it would take most of a start.
_MOST_READ = 512
_read: dict[int, tuple[JSONObject, tuple[Resource, ...]]] = {}


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
