"""Who did what, when, and was it allowed: JSON lines, shaped like audit.k8s.io/v1 at level Metadata.

A request has a line when it begins and one when it is answered, so that one that ends the server is in the log. The
first is written at once. For the second the request does not wait: recording it means appending it to a queue; a thread
makes the JSON, writes in batches and turns the file over when it has grown. When the thread cannot keep up or the disk
is full, entries are dropped and counted, and the server goes on: a fleet that stops because of its log is worse than a
gap in the log.

What is never in it: bodies, and so no Secrets; credentials, not even where a client put them into the query.
"""

import contextlib
import logging
import os
import stat
import threading
import uuid
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from echelon.api.base import JSONObject
from echelon.api.times import format_micro_time
from echelon.hub.access.identity import User
from echelon.hub.access.private import FILE_MODE, tighten

Policy = Literal["none", "writes", "all"]

_READS = frozenset({"get", "list", "watch", "head", "options", "proxy"})
_SECRET_PARAMETERS = frozenset(
    {"token", "access_token", "id_token", "bearer", "authorization", "password", "client_secret"}
)
_LONGEST_AGENT = 256
_LONGEST_URI = 4096
_LARGEST_QUEUE = 100_000
_WAKE_AT = 1_000

_log = logging.getLogger(__name__)


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A request that has been answered, or with the code 0 one that has begun. Times are seconds since the epoch."""

    verb: str
    uri: str
    user: User
    code: int
    received: float
    completed: float
    impersonated: User | None = None
    source: str = ""
    agent: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    allowed: bool = True
    reason: str = ""
    audit_id: str = ""
    cluster: str = ""  # the logical cluster that was asked; empty for the hub itself
    annotations: Mapping[str, str] = {}  # further facts, by policies


class AuditLog:
    """Appends entries to a file that only its owner can read; `close` writes what is left."""

    def __init__(
        self,
        path: Path,
        *,
        policy: Policy = "writes",
        largest: int = 100 * 1024 * 1024,
        keep: int = 5,
        interval: float = 1.0,
    ) -> None:
        self.dropped = 0
        self._path = path
        self._policy = policy
        self._largest = largest
        self._keep = keep
        self._interval = interval
        self._queue: deque[Entry] = deque()
        self._wake = threading.Event()
        self._flushing = threading.Lock()
        self._closed = False
        self._descriptor = -1
        self._beginnings = -1  # the same file, for those who do not wait for the thread
        self._turns = self._turned = 0  # how often it was turned over
        self._failing = False
        self._thread: threading.Thread | None = None
        if policy != "none":
            self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
            self._thread.start()

    def record(self, entry: Entry) -> None:
        """Take note of a request, if the policy wants it. Returns at once."""
        if self._policy == "none" or self._closed:
            return
        if self._policy == "writes" and entry.verb in _READS and entry.allowed and entry.code not in {401, 403}:
            return
        if len(self._queue) >= _LARGEST_QUEUE:
            self.dropped += 1
            return
        self._queue.append(entry)
        if len(self._queue) >= _WAKE_AT:
            self._wake.set()

    def begin(self, entry: Entry) -> None:
        """Take note of a request before anything is done about it, at once: it may be the last thing that is done."""
        if self._policy == "none" or self._closed or (self._policy == "writes" and entry.verb in _READS):
            return
        try:
            if self._beginnings < 0 or self._turned != self._turns:
                self._shut_beginnings()
                self._turned, self._beginnings = self._turns, self._opened()
            _write_all(self._beginnings, _line(entry))
        except OSError:
            self.dropped += 1  # the end of the request finds the same, and says so
            self._shut_beginnings()

    def flush(self) -> None:
        """Write everything recorded so far."""
        with self._flushing:
            while self._queue:
                self._write([self._queue.popleft() for _ in range(min(len(self._queue), _WAKE_AT))])

    def close(self) -> None:
        """Write what is left and stop."""
        self._closed = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.flush()
        self._shut()
        self._shut_beginnings()

    def _run(self) -> None:
        while not self._closed:
            self._wake.wait(self._interval)
            self._wake.clear()
            self.flush()

    def _write(self, entries: list[Entry]) -> None:
        content = b"".join(_line(entry) for entry in entries)
        try:
            self._open()
            # A half line that a full disk left behind must not swallow the next one.
            _write_all(self._descriptor, b"\n" + content if self._failing else content)
        except OSError as error:
            self.dropped += len(entries)
            if not self._failing:
                _log.error("the audit log %s cannot be written, entries are dropped: %s", self._path, error)
            self._failing = True
            self._shut()
            return
        self._failing = False
        try:
            self._turn_over()
        except OSError as error:
            _log.warning("the audit log %s cannot be turned over and goes on growing: %s", self._path, error)

    def _open(self) -> None:
        if self._descriptor < 0:
            self._descriptor = self._opened()

    def _opened(self) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self._path, flags, FILE_MODE)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            tighten(self._path)
        return descriptor

    def _shut_beginnings(self) -> None:
        if self._beginnings >= 0:
            with contextlib.suppress(OSError):
                os.close(self._beginnings)
            self._beginnings = -1

    def _shut(self) -> None:
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = -1

    def _turn_over(self) -> None:
        state = os.fstat(self._descriptor)
        if state.st_size < self._largest or not stat.S_ISREG(state.st_mode):
            return
        self._shut()
        names = [self._path, *(self._path.with_name(f"{self._path.name}.{n}") for n in range(1, self._keep + 1))]
        names[-1].unlink(missing_ok=True)
        for older, newer in zip(reversed(names), reversed(names[:-1]), strict=False):
            if newer.exists():
                newer.replace(older)
        self._turns += 1


def _line(entry: Entry) -> bytes:
    event = _event(entry)
    try:
        return msgspec.json.encode(event) + b"\n"
    except UnicodeEncodeError:
        # Headers may have bytes that are no text; whoever sends them must not be able to stay out of the log.
        return msgspec.json.encode(_readable(event)) + b"\n"


def _event(entry: Entry) -> JSONObject:
    event: JSONObject = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": entry.audit_id or str(uuid.uuid4()),
        "stage": "ResponseComplete" if entry.code else "RequestReceived",
        "requestURI": _without_secrets(entry.uri)[:_LONGEST_URI],
        "verb": entry.verb,
        "user": _user(entry.user),
    }
    if entry.impersonated is not None:
        event["impersonatedUser"] = _user(entry.impersonated)
    if entry.source:
        event["sourceIPs"] = [entry.source]
    if entry.agent:
        event["userAgent"] = entry.agent[:_LONGEST_AGENT]
    if entry.resource:
        event["objectRef"] = _object_ref(entry)
    if entry.code:
        event["responseStatus"] = {"metadata": {}, "code": entry.code}
    event["requestReceivedTimestamp"] = _timestamp(entry.received)
    event["stageTimestamp"] = _timestamp(entry.completed)
    if not entry.code:
        return {**event, "annotations": {"echelon.dev/cluster": entry.cluster}} if entry.cluster else event
    annotations = {
        "authorization.k8s.io/decision": "allow" if entry.allowed else "forbid",
        "authorization.k8s.io/reason": entry.reason,
    }
    if entry.cluster:
        annotations["echelon.dev/cluster"] = entry.cluster
    annotations |= entry.annotations
    event["annotations"] = annotations
    return event


def _user(user: User) -> JSONObject:
    shown: JSONObject = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    return {key: value for key, value in shown.items() if value}


def _object_ref(entry: Entry) -> JSONObject:
    reference = {
        "resource": entry.resource,
        "namespace": entry.namespace,
        "name": entry.name,
        "apiGroup": entry.group,
        "apiVersion": entry.version,
        "subresource": entry.subresource,
    }
    return {key: value for key, value in reference.items() if value}


def _without_secrets(uri: str) -> str:
    path, question, query = uri.partition("?")
    if not question:
        return uri
    return path + "?" + "&".join(_hidden(parameter) for parameter in query.split("&"))


def _hidden(parameter: str) -> str:
    name, equals, _ = parameter.partition("=")
    return f"{name}=REDACTED" if equals and name.lower() in _SECRET_PARAMETERS else parameter


def _timestamp(seconds: float) -> str:
    return format_micro_time(datetime.fromtimestamp(seconds, UTC))


def _readable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {key: _readable(part) for key, part in value.items()}
    return [_readable(part) for part in value] if isinstance(value, list) else value


def _write_all(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
