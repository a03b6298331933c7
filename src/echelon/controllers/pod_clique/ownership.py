"""Whose an object is: what its controller reference says, and nothing that somebody could edit by mistake.

Labels tell which set to look at when an object changes. That an object belongs to a set is said by uids only: a set
that was deleted and made again under its name is another one, and has none of the children of the first.
"""

from collections.abc import Iterator
from typing import NamedTuple

from echelon.api.base import JSONObject
from echelon.api.grove import POD_CLIQUE_SET
from echelon.api.keys import Key
from echelon.engine.pod_clique.names import PART_OF


class Owner(NamedTuple):
    """The object that controls another one."""

    kind: str
    name: str
    uid: str


def owner_of(obj: JSONObject) -> Owner | None:
    """Return who controls an object; None if nobody does, or if what it says makes no sense."""
    references = obj["metadata"].get("ownerReferences")
    for each in references if isinstance(references, list) else ():
        if isinstance(each, dict) and each.get("controller") is True:
            return Owner(str(each.get("kind", "")), str(each.get("name", "")), str(each.get("uid", "")))
    return None


def owner_uid(obj: JSONObject) -> Iterator[str]:
    """Return the uid of who controls an object, for an index."""
    owner = owner_of(obj)
    if owner is not None and owner.uid:
        yield owner.uid


def sets_of(obj: JSONObject) -> list[Key]:
    """Return the sets to look at when a child changes: the one that it names, and the one that controls it."""
    metadata = obj["metadata"]
    namespace, found = metadata.get("namespace", ""), []
    labels, owner = metadata.get("labels"), owner_of(obj)
    if isinstance(labels, dict) and (named := labels.get(PART_OF)):
        found.append(Key(namespace, named))
    if owner is not None and owner.kind == POD_CLIQUE_SET.kind:
        found.append(Key(namespace, owner.name))
    return list(dict.fromkeys(found))


def uid_of(obj: JSONObject) -> str:
    """Return the uid of an object."""
    uid: str = obj["metadata"].get("uid", "")
    return uid


def version_of(obj: JSONObject) -> str:
    """Return the resource version of an object."""
    version: str = obj["metadata"].get("resourceVersion", "")
    return version
