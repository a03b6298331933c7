"""What is reported of templates: compliance events, and the history in the details of a policy that comes of them.

A report is an event on the cluster, an entry in the history of the template's object, or both, and events are
forgotten after a while. So the history is put together from what there is each time, and from what it was before.
Clocks of servers only have seconds, and two reports often have the same: the name of an event ends with the exact
time, in nanoseconds and hexadecimal digits.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from echelon.api.base import JSON, JSONObject
from echelon.api.core import Event
from echelon.api.meta import OwnerReference
from echelon.api.times import format_time, parse_time
from echelon.engine.policy.compliance_events import policy_event
from echelon.engine.policy_member.documents import POLICY_DOCUMENT, Child, PolicyDocument

MOST_ENTRIES = 10
MOST_MESSAGE = 1024  # of what is said here; servers cut longer events, and then it would be said again and again

_COMBINED = "(combined from similar events):"
_SAME_NANOSECONDS = 5_000
_REASON = re.compile(r"policy:\s*(?:[^/\s]+/)?([^/\s]+)", re.IGNORECASE)
_ERROR = "template-error; "
_UNMET = "Dependencies were not satisfied: "
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DIGITS = 16


@dataclass(frozen=True)
class Report:
    """Something that was reported of a template; `name` is that of the event."""

    name: str
    nanoseconds: int
    message: str

    @property
    def compliance(self) -> str:
        """The state that its message begins with."""
        said = self.message.lower()
        if said.startswith("compliant"):
            return "Compliant"
        return "Pending" if said.startswith("pending") else "NonCompliant"

    def entry(self) -> JSONObject:
        """Return it as the details of a policy have it."""
        time = _second(self.nanoseconds // 1_000_000_000)
        return {"lastTimestamp": time, "message": self.message, "eventName": self.name}


@lru_cache(4096)
def _second(seconds: int) -> str:
    return format_time(_EPOCH + timedelta(seconds=seconds))


def error_message(text: str) -> str:
    """Return the report of a template that cannot be used."""
    return f"NonCompliant; {_ERROR}{text}"[:MOST_MESSAGE]


def pending_message(text: str, *, ignored: bool) -> str:
    """Return the report of a template that waits."""
    return (f"Compliant; {text} but ignorePending is true" if ignored else f"Pending; {text}")[:MOST_MESSAGE]


def is_framework_report(message: str) -> bool:
    """Whether a report is about a template and not about what its object found."""
    return message.startswith(f"NonCompliant; {_ERROR}") or _UNMET in message


def template_of(reason: str) -> str:
    """Return the template that an event is about, from its reason; nothing for events about anything else."""
    found = _REASON.fullmatch(reason.strip())
    return found[1] if found else ""


class PastReports:
    """What was reported of a policy's templates, sorted by template once: there may be hundreds, with ten each."""

    def __init__(self, policy: PolicyDocument, events: Iterable[Event]) -> None:
        self._policy = policy.metadata.name
        self._entries: dict[str, list[JSONObject]] = {}
        for detail in policy.status.details or ():
            name = str((detail.get("templateMeta") or {}).get("name", ""))
            self._entries.setdefault(name, []).extend(_listed(detail.get("history")))
        self._events: dict[str, list[Event]] = {}
        for event in events:
            if event.involved_object.uid == policy.metadata.uid:
                self._events.setdefault(template_of(event.reason), []).append(event)

    def of(self, template: str, child: Child | None, *, foreign: bool = False) -> tuple[Report, ...]:
        """Return the history of a template, newest first; `child` is its object.

        `foreign`: there is an object of another policy, and what was said of that is no part of the history.
        """
        known = () if foreign else self._entries.get(template, ())
        own = _listed(child.status.get("history")) if child is not None else ()
        found: dict[str, Report] = {}
        for entry in (*known, *reversed(own)):
            if (report := self._from_entry(entry)) is not None:
                found[report.name] = report
        for event in self._events.get(template, ()):
            found[event.metadata.name] = _from_event(event)
        return _distinct(sorted(found.values(), key=lambda each: (each.nanoseconds, each.name), reverse=True))

    def _from_entry(self, entry: Mapping[str, JSON]) -> Report | None:
        event, time = str(entry.get("eventName") or ""), str(entry.get("lastTimestamp") or "")
        moment = _moment(event, time)
        if moment is None:
            return None
        return Report(event or f"{self._policy}.{moment:x}", moment, _plain(entry.get("message")))


def news_of(
    policy: PolicyDocument, message: str, history: Sequence[Report], now: datetime, number: int = 0
) -> Report | None:
    """Return what has to be reported so that a message is the latest of a template; nothing if it is, or is empty.

    Of what is reported at the same time, each has a `number` of its own, or their events would have one name.
    """
    if not message or (history and history[0].message == message):
        return None
    moment = (now - _EPOCH) // timedelta(microseconds=1) * 1000 + number
    moment = max(moment, history[0].nanoseconds + 2 * _SAME_NANOSECONDS) if history else moment
    return Report(f"{policy.metadata.name}.{moment:x}", moment, message)


def later(policy: PolicyDocument, report: Report) -> Report:
    """Return the same report a moment later, for when its name is taken."""
    moment = report.nanoseconds + 1000
    return Report(f"{policy.metadata.name}.{moment:x}", moment, report.message)


def event_of(policy: PolicyDocument, template: str, report: Report, reporter: str) -> JSONObject:
    """Return the event that brings a report."""
    meta, kind = policy.metadata, POLICY_DOCUMENT
    parent = OwnerReference(api_version=kind.api_version, kind=kind.kind, name=meta.name, uid=meta.uid)
    reason, at = f"policy: {meta.namespace}/{template}", _EPOCH + timedelta(microseconds=report.nanoseconds // 1000)
    return policy_event(parent, meta.namespace, reason, report.message, name=report.name, at=at, reporter=reporter)


def _distinct(newest_first: Sequence[Report]) -> tuple[Report, ...]:
    """Drop what was reported twice: as an event, and in the history of the object, which has microseconds only."""
    kept: list[Report] = []
    for each in newest_first:
        before = kept[-1] if kept else None
        if (
            before is None
            or before.message != each.message
            or before.nanoseconds - each.nanoseconds > _SAME_NANOSECONDS
        ):
            kept.append(each)
        if len(kept) == MOST_ENTRIES:
            break
    return tuple(kept)


def _from_event(event: Event) -> Report:
    time = event.last_timestamp or event.event_time or event.metadata.creation_timestamp or ""
    return Report(event.metadata.name, _moment(event.metadata.name, time) or 0, _plain(event.message))


def _moment(event: str, time: str) -> int | None:
    """Return when something was reported, in nanoseconds: from the name of its event, or as exactly as is said."""
    policy, _, digits = event.rpartition(".")
    if policy and len(digits) <= _DIGITS and digits.isalnum():
        try:
            return int(digits, 16)
        except ValueError:
            pass
    said = parse_time(time)
    return None if said is None else (said - _EPOCH) // timedelta(microseconds=1) * 1000


def _plain(message: JSON) -> str:
    return str(message or "").strip().removeprefix(_COMBINED).strip()


def _listed(value: JSON) -> list[JSONObject]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
