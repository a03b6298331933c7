"""What an agent is about to apply, written down before it begins.

Objects are recorded after they were applied, with their uid. An agent that dies in between has made something that
nobody knows of, and if the work changes before the next life of the agent, nobody ever would. So the record of a work
also says, from the moment of its creation, what is going to be applied. A list that is too long to be written is
left out: then the old risk is the smaller evil.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from echelon.engine.work.order import is_readable

ANNOTATION = "echelon.dev/applying"
LONGEST = 100_000  # of the 262,144 that all annotations of an object may have


class IntendedObject(NamedTuple):
    """An object as its manifest names it."""

    api_version: str
    kind: str
    namespace: str
    name: str


def intended(manifests: Iterable[Any]) -> frozenset[IntendedObject]:
    """Return the objects that manifests are about."""
    return frozenset(
        IntendedObject(
            each["apiVersion"], each["kind"], each["metadata"].get("namespace") or "", each["metadata"]["name"]
        )
        for each in manifests
        if is_readable(each)
    )


def written(objects: Iterable[IntendedObject]) -> str:
    """Return objects as the annotation has them; nothing if they are too many."""
    text = msgspec.json.encode(sorted(objects)).decode()
    return text if len(text) <= LONGEST else ""


def read(annotations: Mapping[str, str]) -> frozenset[IntendedObject]:
    """Return the objects that an annotation names; none if it is not one of ours."""
    try:
        return frozenset(msgspec.json.decode(annotations.get(ANNOTATION, ""), type=list[IntendedObject]))
    except msgspec.DecodeError:
        return frozenset()
