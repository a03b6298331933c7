"""What the hub did not take of the writes for a cluster, between one plan and the next.

A right that the controller does not have itself, a quota, a webhook: the server tells only the one who asks. So that
one takes notes, and the next plan tells of those that it still wants to make.
"""

from collections.abc import Iterable
from typing import NamedTuple

from echelon.api.keys import Key
from echelon.engine.plan import Action, Emit, InOrder, Together, Write
from echelon.kube.act import Failed, Written
from echelon.kube.errors import AlreadyExists, Conflict


class _Object(NamedTuple):
    resource: str
    namespace: str
    name: str


class RefusedWrites:
    """Takes notes for all clusters."""

    def __init__(self) -> None:
        self._words: dict[Key, dict[_Object, str]] = {}

    def failed(self, key: Key, failed: Failed) -> bool:
        """Take a note, unless somebody was only faster. False: the plan has failed, and is made again later."""
        if not isinstance(failed.error, Conflict | AlreadyExists):
            self._words.setdefault(key, {})[_object(failed.write)] = str(failed.error) or repr(failed.error)
        return False

    def written(self, key: Key, written: Written) -> bool:
        """Let go of what was made after all; return whether it was refused before, and other things are to be told."""
        what = _Object(written.kind.resource, written.namespace, written.name)
        return self._words.get(key, {}).pop(what, None) is not None

    def forget(self, key: Key) -> None:
        """Forget a cluster."""
        self._words.pop(key, None)

    def among(self, key: Key, actions: Iterable[Action]) -> str:
        """Return what the hub said of the first of some writes that it did not take; empty if there is none."""
        words = self._words.get(key, {})
        for each in actions if words else ():
            if not isinstance(each, Emit | InOrder | Together) and (said := words.get(_object(each))):
                return f"{each.kind.kind} {each.name}: {said}"
        return ""


def _object(write: Write) -> _Object:
    return _Object(write.kind.resource, write.namespace, write.name)
