"""Files as they are looked at: objects of the kinds that are understood here, and what is found in them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.cluster import GROUP as CLUSTER_GROUP
from echelon.api.policy import GROUP as POLICY_GROUP
from echelon.api.work import GROUP as WORK_GROUP

ERROR, WARNING = "error", "warning"
PLACEMENT, WORK_SET = "Placement", "ManifestWorkReplicaSet"
POLICY, POLICY_SET, BINDING = "Policy", "PolicySet", "PlacementBinding"
_KINDS = {
    (CLUSTER_GROUP, PLACEMENT),
    (WORK_GROUP, WORK_SET),
    (POLICY_GROUP, POLICY),
    (POLICY_GROUP, POLICY_SET),
    (POLICY_GROUP, BINDING),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem of one field of one object."""

    file: str
    kind: str
    name: str
    field: str
    problem: str
    severity: str = ERROR


@dataclass(frozen=True, slots=True)
class Document:
    """An object in a file, of one of the kinds that are looked at."""

    file: str
    kind: str
    name: str
    namespace: str
    content: JSONObject

    @property
    def spec(self) -> JSONObject:
        """Its spec, whatever that is."""
        return mapping(self.content.get("spec"))

    @property
    def annotations(self) -> dict[str, str]:
        """Its annotations, as text."""
        annotations = mapping(mapping(self.content.get("metadata")).get("annotations"))
        return {str(key): str(value) for key, value in annotations.items()}

    @property
    def labels(self) -> JSONObject:
        """Its labels."""
        return mapping(mapping(self.content.get("metadata")).get("labels"))

    def finds(self, field: str, problem: str, severity: str = ERROR) -> Finding:
        """Return a problem of one of its fields."""
        return Finding(self.file, self.kind, self.name, field, problem, severity)

    def is_now(self, field: str, modern: str) -> Finding:
        """Return that a field has another name by now."""
        return self.finds(field, f"this is an older spelling, which no server takes; it is called {modern} now")


@dataclass(frozen=True)
class Documents:
    """All that are looked at together."""

    documents: tuple[Document, ...]
    beside: tuple[Document, ...] = ()  # on the hub already: what is looked at may refer to them

    def get(self, kind: str, namespace: str, name: str) -> Document | None:
        """Return an object, if it is in one of the files."""
        here = (each for each in (*self.documents, *self.beside) if (each.kind, each.namespace) == (kind, namespace))
        return next((each for each in here if each.name == name), None)

    def of(self, kind: str, namespace: str) -> Iterator[Document]:
        """Return the objects of a kind in a namespace."""
        return (each for each in self.documents if (each.kind, each.namespace) == (kind, namespace))


def documents_in(file: str, document: Any) -> Iterator[Document]:
    """Return what is to be looked at of a document, which may be a list of others."""
    content = mapping(document)
    if str(content.get("kind", "")).endswith("List"):
        for item in sequence(content.get("items")):
            yield from documents_in(file, item)
        return
    group, kind = str(content.get("apiVersion", "")).partition("/")[0], str(content.get("kind", ""))
    if (group, kind) in _KINDS:
        meta = mapping(content.get("metadata"))
        yield Document(file, kind, str(meta.get("name", "")), str(meta.get("namespace", "")), content)


def mapping(value: Any) -> JSONObject:
    """Return a value if it is a mapping; an empty one otherwise."""
    return value if isinstance(value, dict) else {}


def sequence(value: Any) -> Sequence[Any]:
    """Return a value if it is a list; an empty one otherwise."""
    return value if isinstance(value, list) else ()
