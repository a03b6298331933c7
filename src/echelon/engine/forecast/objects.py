"""Objects in a copy, to which plans are carried out as a server and a lone controller would do it.

Nobody else writes here, so nothing is refused: what a plan was made for is always what is there. Deleted is gone at
once, with all that it owns; what takes time in a cluster is for those to say who play the cluster.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.api.times import format_micro_time, format_time
from echelon.engine.merge_patch import merged
from echelon.engine.plan import Action, Apply, Create, Delete, Emit, InOrder, Patch, Plan, Together, Write

_Key = tuple[str, str, str]  # resource, namespace, name


class Objects:
    """Objects by their kind and name. Each version is another value, so who has read one need not read it again."""

    def __init__(self, objects: Iterable[tuple[Kind[Any], JSONObject]] = ()) -> None:
        self._found: dict[str, dict[_Key, JSONObject]] = {}
        self._versions = 0
        for kind, document in objects:
            self._put(_key(kind, document), document)

    def get(self, kind: Kind[Any], name: str, namespace: str = "") -> JSONObject | None:
        """Return an object, if it is there."""
        return self._found.get(kind.resource, {}).get((kind.resource, namespace, name))

    def of(self, kind: Kind[Any]) -> Iterable[JSONObject]:
        """Return the objects of a kind."""
        return self._found.get(kind.resource, {}).values()

    def carry_out(self, plan: Plan, now: datetime) -> list[Write]:
        """Do what a plan says; return the writes that have changed something."""
        wanted = [*_writes(plan.actions), *([plan.status] if plan.status is not None else [])]
        return [each for each in wanted if self._write(each, now)]

    def patch(self, kind: Kind[Any], name: str, namespace: str, body: JSONObject) -> bool:
        """Merge fields into an object that is there; return whether that changes anything."""
        before = self.get(kind, name, namespace)
        if before is None:
            return False
        after = merged(before, body)
        if after == before:
            return False
        meta = after["metadata"]
        changed = after.get("spec") != before.get("spec")
        after["metadata"] = {**meta, "generation": meta.get("generation", 0) + changed}
        self._put(_key(kind, after), after)
        return True

    def delete(self, kind: Kind[Any], name: str, namespace: str = "") -> bool:
        """Take an object away, with all that it owns; return whether it was there."""
        gone = self._found.get(kind.resource, {}).pop((kind.resource, namespace, name), None)
        if gone is None:
            return False
        lost = {gone["metadata"].get("uid")}
        while lost:
            owned = [(key, each) for of in self._found.values() for key, each in of.items() if _is_owned(each, lost)]
            for key, _ in owned:
                del self._found[key[0]][key]
            lost = {each["metadata"].get("uid") for _, each in owned}
        return True

    def _write(self, write: Write, now: datetime) -> bool:
        if isinstance(write, Create):
            return self._create(write, now)
        if isinstance(write, Patch):
            return self.patch(write.kind, write.name, write.namespace, write.body)
        if isinstance(write, Delete):
            return self.delete(write.kind, write.name, write.namespace)
        if self.get(write.kind, write.name, write.namespace) is not None:
            return self.patch(write.kind, write.name, write.namespace, write.body)
        return self._create(write, now)

    def _create(self, write: Create | Apply, now: datetime) -> bool:
        key = (write.kind.resource, write.namespace, write.name)
        if key in self._found.get(write.kind.resource, {}):
            return False
        made: JSONObject = {
            "namespace": write.namespace,
            "uid": f"planned-{write.kind.singular}-{write.name}-{self._versions}",
            "generation": 1,
            "creationTimestamp": format_time(now),
        }
        self._put(key, {**write.kind.type_meta, **write.body, "metadata": {**write.body["metadata"], **made}})
        return True

    def _put(self, key: _Key, document: JSONObject) -> None:
        self._versions += 1
        meta = {**document["metadata"], "resourceVersion": str(self._versions)}
        self._found.setdefault(key[0], {})[key] = {**document, "metadata": meta}


def condition(kind: str, status: str, now: datetime, generation: int = 0) -> JSONObject:
    """Return a condition as a cluster would write it."""
    return {
        "type": kind,
        "status": status,
        "reason": "Foreseen",
        "message": "",
        "observedGeneration": generation,
        "lastTransitionTime": format_micro_time(now),
    }


def _key(kind: Kind[Any], document: JSONObject) -> _Key:
    meta = document["metadata"]
    return kind.resource, meta.get("namespace") or "", meta["name"]


def _is_owned(document: JSONObject, owners: set[Any]) -> bool:
    return any(each.get("uid") in owners for each in document["metadata"].get("ownerReferences") or ())


def _writes(actions: Iterable[Action]) -> Iterator[Write]:
    for each in actions:
        if isinstance(each, InOrder | Together):
            yield from _writes(each.actions)
        elif not isinstance(each, Emit):
            yield each
