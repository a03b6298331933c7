"""A small stage for stories about who owns what.

A story is a row of writes to one object, each by somebody; configurations are YAML without the head that every object
has. The schema has one place for each way in which fields can be owned.
"""

from typing import Any

import pytest
import yaml

from echelon.api.base import JSON, JSONObject
from echelon.hub import apply as ssa
from echelon.kube.errors import ApiError

STRING: JSONObject = {"type": "string"}
NUMBER: JSONObject = {"type": "integer"}


def record(**fields: JSONObject) -> JSONObject:
    return {"type": "object", "properties": fields}


def keyed(*keys: str, **fields: JSONObject) -> JSONObject:
    return {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": list(keys),
        "items": record(**fields),
    }


PORTS = keyed("port", "protocol", port=NUMBER, protocol={"type": "string", "default": "TCP"}, name=STRING)
CONTAINERS = keyed("name", name=STRING, image=STRING, args={"type": "array", "items": STRING}, ports=PORTS)
SPEC = record(
    replicas=NUMBER,
    paused={"type": "boolean"},
    maxSurge={"x-kubernetes-int-or-string": True},
    selector={"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": STRING},
    strategy=record(type=STRING, rolling=record(unavailable=NUMBER, surge=NUMBER)),
    containers=CONTAINERS,
    zones={"type": "array", "x-kubernetes-list-type": "set", "items": STRING},
    sizes={"type": "array", "x-kubernetes-list-type": "set", "items": NUMBER},
    args={"type": "array", "items": STRING},
    regions={"type": "object", "additionalProperties": record(weight=NUMBER, tier=STRING)},
    raw={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    manifest={
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
)
STATUS = record(phase=STRING, conditions=keyed("type", type=STRING, status=STRING))
SCHEMA = record(metadata={"type": "object"}, spec=SPEC, status=STATUS)

HEAD: JSONObject = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}


class Story:
    """One object and the writes to it. Every write is a second after the one before."""

    def __init__(self) -> None:
        self.object: JSONObject | None = None
        self.second = 0

    def applies(self, manager: str, text: str, **how: Any) -> JSON:
        """Apply a configuration; return what became of the object, without its head."""
        self.object = ssa.apply(self.object, self.config(text), SCHEMA, **self._how(manager, {"force": False, **how}))
        return self.content

    def refused(self, manager: str, text: str, **how: Any) -> ApiError:
        """Apply a configuration that is refused; nothing changes."""
        before = self.object
        with pytest.raises(ApiError) as refusal:
            self.applies(manager, text, **how)
        assert self.object is before
        return refusal.value

    def updates(self, manager: str, text: str, **how: Any) -> JSON:
        """Replace the object, or create it."""
        new = self.config(text)
        entries = ssa.track_update(self.object, new, SCHEMA, **self._how(manager, how))
        self.object = {**new, "metadata": {**new["metadata"], "managedFields": entries}}
        return self.content

    def owned(self, manager: str, operation: str = "Apply", subresource: str = "") -> list[str]:
        """Return what somebody owns, as people read it."""
        return sorted(ssa.FieldSet.from_fields_v1(self.entry(manager, operation, subresource)["fieldsV1"]))

    def entry(self, manager: str, operation: str = "Apply", subresource: str = "") -> JSONObject:
        """Return somebody's entry; empty fields if there is none."""
        for entry in self.entries:
            if (entry["manager"], entry["operation"], entry.get("subresource", "")) == (
                manager,
                operation,
                subresource,
            ):
                return entry
        return {"fieldsV1": {}}

    @property
    def entries(self) -> list[JSONObject]:
        """All owners."""
        found: list[JSONObject] = (self.object or HEAD)["metadata"].get("managedFields", [])
        return found

    @property
    def content(self) -> JSON:
        """The object without what every object has."""
        whole = self.object or {}
        about = {k: v for k, v in whole["metadata"].items() if k not in ("name", "managedFields")}
        rest = {k: v for k, v in whole.items() if k not in ("apiVersion", "kind", "metadata")}
        return {**rest, **({"metadata": about} if about else {})}

    @staticmethod
    def config(text: str) -> JSONObject:
        """Put the head on a configuration."""
        body: JSONObject = yaml.safe_load(text) or {}
        return {**HEAD, **body, "metadata": {**HEAD["metadata"], **body.get("metadata", {})}}

    def _how(self, manager: str, how: JSONObject) -> JSONObject:
        self.second += 1
        now = f"2026-01-01T00:00:{self.second:02}Z"
        return {"manager": manager, "api_version": "apps/v1", "subresource": "", "now": now, **how}


@pytest.fixture
def story() -> Story:
    return Story()


@pytest.fixture(scope="session")
def schema() -> JSONObject:
    return SCHEMA
