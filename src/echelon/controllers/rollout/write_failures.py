"""What became of the writes for a rollout that failed, between one plan and the next.

A namespace may be missing or on its way out, a quota or a policy in the way, a webhook down. The server tells only the
one who asks, so that one takes notes, and the next plan has them as facts: it does without these writes, tells of them,
and stores on the object which clusters are concerned. The store is what a later process begins with; the notes here add
when to try again. That is one moment for all failed writes of an object, later each time, so that between two tries
there are plans without a failure, and a status.
"""

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.meta import ObjectMeta
from echelon.engine.plan import Create, Delete, Patch, Write
from echelon.engine.rollout.annotations import HELD_ANNOTATION, REVISION_ANNOTATION
from echelon.engine.rollout.failed_writes import FAILED_WRITES, FailedWrite, decode
from echelon.engine.rollout.subject import WriteOutcomes
from echelon.engine.rollout.write_retries import news, not_stored, wait_before
from echelon.kube.act import Failed, Written
from echelon.kube.clock import Clock
from echelon.kube.errors import ApiError, Conflict, NotFound

# Somebody was faster, and the cache will show it. If it never does, that is a failure like any other.
CONFLICTS_IN_A_ROW = 5
_UNANSWERED = frozenset((401, 408, 409, 429))  # and all of the server's own; other codes say no

_log = logging.getLogger(__name__)


@dataclass
class _Notes:
    """What failed for one object and is not stored on it, and when all that failed is tried again."""

    content: dict[str, FailedWrite] = field(default_factory=dict)  # by cluster
    other: dict[str, str] = field(default_factory=dict)  # by cluster, with the server's words
    own: dict[tuple[str, str], str] = field(default_factory=dict)  # by resource and name
    conflicts: Counter[tuple[str, str]] = field(default_factory=Counter)  # by namespace and name
    tries: int = 0
    tried: datetime | None = None
    next_try: datetime | None = None

    def is_due(self, now: datetime) -> bool:
        return self.next_try is None or now >= self.next_try

    def begin_round(self) -> None:
        """Forget what was tried again, or is not wanted any more: if it fails once more, that is noted once more."""
        self.other.clear()
        self.own.clear()


class WriteFailures:
    """Takes notes for all objects of a kind, of which clusters get content of another kind in their namespaces."""

    def __init__(
        self, clock: Clock, kind: Kind[Any], content: Kind[Any], cluster_of: Callable[[str], str] = str
    ) -> None:
        """`cluster_of` returns the cluster whose content a namespace holds."""
        self._clock = clock
        self._kind = kind
        self._content = content
        self._cluster_of = cluster_of
        self._notes: dict[Key, _Notes] = {}
        self._stored: dict[Key, tuple[str, dict[str, FailedWrite]]] = {}  # what an annotation says

    def outcomes(self, key: Key, meta: ObjectMeta, now: datetime) -> WriteOutcomes:
        """Return what is known of earlier writes."""
        stored = self._read(key, meta)
        notes = self._notes.get(key)
        if notes is None:
            return WriteOutcomes(stored)
        return WriteOutcomes(
            {**stored, **not_stored(notes.content, stored)} if notes.content else stored,
            dict(notes.other),
            next(iter(notes.own.values()), ""),
            notes.tried,
            None if notes.is_due(now) else notes.next_try,
        )

    def failed(self, key: Key, failed: Failed) -> bool:
        """Take a note of a failure. False if somebody was only faster, and for a status, of which no plan can tell."""
        write, error = failed.write, failed.error
        is_content = self._is_content(key, write.kind, write.namespace, write.name)
        if isinstance(write, Patch) and write.subresource and not is_content:
            return False
        notes, cluster = self._notes.setdefault(key, _Notes()), self._cluster_of(write.namespace)
        if isinstance(error, Conflict) or (isinstance(error, NotFound) and not isinstance(write, Create)):
            notes.conflicts[write.namespace, write.name] += 1
            if notes.conflicts[write.namespace, write.name] < CONFLICTS_IN_A_ROW:
                return False
        now, words = self._clock.now(), str(error) or repr(error)
        self._put_off(key, notes, now, error.retry_after if isinstance(error, ApiError) else 0)
        if not is_content:
            which = write.kind.resource, write.name
            known, notes.own[which] = which in notes.own, words
        elif revision := _revision(write):
            held = _noted(write, HELD_ANNOTATION) == "true"
            found = FailedWrite(revision, now, _is_refusal(error), words, held)
            known = self._note(key, notes, found, cluster)
        else:
            known, notes.other[cluster] = cluster in notes.other, words
        if not known:
            named = f"{write.namespace}/{write.name}"
            extra = {"key": str(key), "object": named}
            _log.warning("%s %s: %s %s: %s", self._kind.singular, key, write.kind.kind, named, words, extra=extra)
        return True

    def written(self, key: Key, written: Written) -> None:
        """Let go of what is no longer so."""
        notes = self._notes.get(key)
        if notes is None:
            return
        if self._is_content(key, written.kind, written.namespace, written.name):
            cluster = self._cluster_of(written.namespace)
            notes.content.pop(cluster, None)
            notes.other.pop(cluster, None)
        elif written.kind.resource == self._kind.resource and notes.is_due(self._clock.now()):
            notes.begin_round()  # what failed was tried again before that, or nobody wants it any more
        notes.own.pop((written.kind.resource, written.name), None)
        notes.conflicts.pop((written.namespace, written.name), None)

    def stored(self, key: Key, meta: ObjectMeta) -> None:
        """Hear of an object as it is now, and let go of what is stored on it."""
        if (notes := self._notes.get(key)) is not None and notes.content:
            notes.content = not_stored(notes.content, self._read(key, meta))

    def forget(self, key: Key) -> None:
        """Forget an object."""
        self._notes.pop(key, None)
        self._stored.pop(key, None)

    def _is_content(self, key: Key, kind: Kind[Any], namespace: str, name: str) -> bool:
        """Whether an object is what a cluster gets, and not what is rolled out, which may be of the same kind."""
        is_own = kind.resource == self._kind.resource and (namespace, name) == key
        return kind.resource == self._content.resource and not is_own

    def _read(self, key: Key, meta: ObjectMeta) -> dict[str, FailedWrite]:
        """Return what an annotation says; a large one is not read at every look."""
        value = meta.annotations.get(FAILED_WRITES, "")
        known = self._stored.get(key)
        if known is None or known[0] != value:
            known = self._stored[key] = (value, decode(value))
        return known[1]

    def _note(self, key: Key, notes: _Notes, failed: FailedWrite, cluster: str) -> bool:
        """Take a note of a cluster; return whether that is nothing new."""
        new = news(failed, notes.content.get(cluster) or self._stored.get(key, ("", {}))[1].get(cluster))
        if new is not None:
            notes.content[cluster] = new
        return new is None

    def _put_off(self, key: Key, notes: _Notes, now: datetime, at_least: float) -> None:
        if not (notes.content or notes.other or notes.own or self._stored.get(key, ("", {}))[1]):
            notes.tries, notes.next_try = 0, None
        notes.tried = now
        if notes.is_due(now):
            notes.begin_round()
            notes.next_try = now + wait_before(notes.tries, timedelta(seconds=at_least))
            notes.tries += 1


def _is_refusal(error: Exception) -> bool:
    """Whether a server understood and refused; otherwise nobody knows what it will say next."""
    if not isinstance(error, ApiError):
        return False
    return 400 <= error.status_code < 500 and error.status_code not in _UNANSWERED


def _revision(write: Write) -> str:
    """Return which content a write brings; empty for one that brings none."""
    return _noted(write, REVISION_ANNOTATION)


def _noted(write: Write, annotation: str) -> str:
    """Return what a write notes with the content that it brings."""
    if isinstance(write, Delete) or "spec" not in write.body:
        return ""
    value: str = write.body.get("metadata", {}).get("annotations", {}).get(annotation) or ""
    return value
