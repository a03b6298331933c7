"""What is known about a kind besides its fields.

One `Kind` value holds everything that discovery, CRDs, OpenAPI, clients and tables need, so that none of them
keeps a list of its own. The instances live beside their types; `echelon.api.registry` collects them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

from echelon.api.base import JSON, JSONObject

T = TypeVar("T")


@dataclass(frozen=True)
class Column:
    """A column of `kubectl get`.

    `path` is a JSONPath as CRDs have it (`.status.phase`). Kinds that Kubernetes itself serves may compute a cell
    instead (`READY 1/3`); such columns never reach a CRD. Cells of type `date` show as an age.
    """

    name: str
    path: str = ""
    type: str = "string"
    description: str = ""
    priority: int = 0
    format: str = ""
    cell: Callable[[JSONObject], JSON] | None = None


@dataclass(frozen=True)
class Scale:
    """Where the scale subresource finds its numbers."""

    spec_replicas: str = ".spec.replicas"
    status_replicas: str = ".status.replicas"
    selector: str = ""


@dataclass(frozen=True)
class Kind(Generic[T]):
    """A kind of object in one version, as a server serves it."""

    group: str
    version: str
    kind: str
    plural: str
    type: type[T]
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    status: bool = False
    scale: Scale | None = None
    columns: tuple[Column, ...] = ()
    builtin: bool = False  # served by Kubernetes itself, so never the subject of a CRD
    crd_labels: tuple[tuple[str, str], ...] = ()  # on its CRD, for others who look for such
    selectable_fields: tuple[str, ...] = ()  # dotted paths for field selectors besides name and namespace

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Kinds are keys of many tables, and few of them have these three in common.
        return hash((self.group, self.version, self.plural))

    @cached_property
    def api_version(self) -> str:
        """`group/version`, or the bare version in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def type_meta(self) -> JSONObject:
        """The two fields by which an object says what it is."""
        return {"apiVersion": self.api_version, "kind": self.kind}

    @property
    def singular(self) -> str:
        """The name that kubectl shows for one of them."""
        return self.kind.lower()

    @property
    def list_kind(self) -> str:
        """Kind of a list of them."""
        return f"{self.kind}List"

    @cached_property
    def resource(self) -> str:
        """`plural.group`: the name of a CRD, and of a resource in errors and permissions."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def owner_reference(self, name: str, uid: str) -> JSONObject:
        """Return the reference by which an object belongs to one of them."""
        return {**self.type_meta, "name": name, "uid": uid}

    def untyped(self) -> "Kind[dict[str, Any]]":
        """Return the same kind, read as plain dicts."""
        return self._untyped

    @cached_property
    def _untyped(self) -> "Kind[dict[str, Any]]":
        return replace(self, type=dict[str, Any])  # type: ignore[arg-type,return-value]
