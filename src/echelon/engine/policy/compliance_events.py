"""The events by which a template's object reports to the policy that it is made from.

Their form is the interface between policy controllers and whoever collects reports: the reason names the object that
reports, the message begins with its state, and the name ends with the exact time, which the other fields are too coarse
to tell. There is no `eventTime`: servers let nobody who says one say more than 1024 characters.
"""

from datetime import UTC, datetime, timedelta
from typing import Any
from zlib import crc32

from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.api.meta import ObjectMeta, OwnerReference
from echelon.api.policy import GROUP
from echelon.api.times import format_time

ACTION = "ComplianceStateUpdate"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parent_of(metadata: ObjectMeta) -> OwnerReference | None:
    """Return the policy that an object is made from; nothing if it is nobody's."""
    return next(
        (
            each
            for each in metadata.owner_references
            if each.kind == "Policy" and each.api_version.rpartition("/")[0] == GROUP
        ),
        None,
    )


def event_name(parent: str, at: datetime, nanoseconds: int = 0) -> str:
    """Return what the event of a moment is called; moments have microseconds, and so much more of them."""
    return f"{parent}.{_microseconds(at) * 1000 + nanoseconds % 1000:x}"


def event_time(name: str) -> datetime | None:
    """Return the moment in the name of an event; nothing if there is none."""
    try:
        return _EPOCH + timedelta(microseconds=int(name.rpartition(".")[2], 16) // 1000)
    except (ValueError, OverflowError):
        return None


def policy_event(
    parent: OwnerReference, namespace: str, reason: str, message: str, *, name: str, at: datetime, reporter: str
) -> JSONObject:
    """Return an event about a policy in a namespace; the message begins with a state."""
    time = format_time(at)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {
            "apiVersion": parent.api_version,
            "kind": parent.kind,
            "name": parent.name,
            "namespace": namespace,
            "uid": parent.uid,
        },
        "reason": reason,
        "message": message,
        "type": "Normal" if message.lower().startswith("compliant") else "Warning",
        "action": ACTION,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
        "source": {"component": reporter},
        "reportingComponent": reporter,
        "reportingInstance": reporter,
    }


def compliance_event(
    kind: Kind[Any],
    metadata: ObjectMeta,
    parent: OwnerReference,
    message: str,
    *,
    at: datetime,
    reporter: str,
    attempt: int = 0,
) -> JSONObject:
    """Return the event by which an object of a kind tells its policy how it stands; the message begins with that.

    Objects of one policy may report in the same microsecond, so each has nanoseconds of its own; `attempt` is how many
    names were taken all the same.
    """
    namespace = metadata.namespace
    reason = f"policy: {namespace}/{metadata.name}" if kind.namespaced else f"policy: {metadata.name}"
    name = event_name(parent.name, at, crc32(metadata.name.encode()) + attempt)
    return {
        **policy_event(parent, namespace, reason, message, name=name, at=at, reporter=reporter),
        "related": {**kind.type_meta, "name": metadata.name, "namespace": namespace, "uid": metadata.uid},
    }


def _microseconds(at: datetime) -> int:
    whole = at.replace(microsecond=0)
    return int(whole.timestamp()) * 1_000_000 + at.microsecond
