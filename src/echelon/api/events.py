"""Events in their newer form; the same objects as the core group's, under other names."""

from typing import Annotated, Any

from echelon.api.base import APIStruct, field
from echelon.api.kinds import Kind
from echelon.api.meta import ObjectMeta
from echelon.api.printing import event_columns
from echelon.api.references import EventSource, ObjectReference


class EventSeries(APIStruct, frozen=True, gc=False, kw_only=True):
    """Repetitions of an event."""

    count: Annotated[int, field("How often it happened.")]
    last_observed_time: Annotated[str, field("When it happened last.", format="date-time", nullable=True)]


class Event(APIStruct, frozen=True, gc=False, kw_only=True):
    """Something that happened to an object."""

    api_version: str = "events.k8s.io/v1"
    kind: str = "Event"
    metadata: ObjectMeta = ObjectMeta()
    event_time: Annotated[str | None, field("When it was first seen.", format="date-time", nullable=True)] = None
    series: Annotated[EventSeries | None, field("Repetitions.")] = None
    reporting_controller: Annotated[str, field("Controller that reported.")] = ""
    reporting_instance: Annotated[str, field("Instance of that controller.")] = ""
    action: Annotated[str, field("What was done or failed.")] = ""
    reason: Annotated[str, field("What happened, as one word.")] = ""
    regarding: Annotated[ObjectReference, field("What it happened to.")] = ObjectReference()
    related: Annotated[ObjectReference | None, field("A second object that it is about.")] = None
    note: Annotated[str, field("What happened, as a sentence.")] = ""
    type: Annotated[str, field("Normal or Warning.")] = ""
    deprecated_source: Annotated[EventSource, field("The older API's `source`.")] = EventSource()
    deprecated_first_timestamp: Annotated[
        str | None, field("The older API's `firstTimestamp`.", format="date-time", nullable=True)
    ] = None
    deprecated_last_timestamp: Annotated[
        str | None, field("The older API's `lastTimestamp`.", format="date-time", nullable=True)
    ] = None
    deprecated_count: Annotated[int, field("The older API's `count`.")] = 0


EVENT = Kind(
    "events.k8s.io",
    "v1",
    "Event",
    "events",
    Event,
    short_names=("ev",),
    builtin=True,
    columns=event_columns("regarding", "note"),
    selectable_fields=(
        "reason",
        "regarding.kind",
        "regarding.namespace",
        "regarding.name",
        "regarding.uid",
        "regarding.apiVersion",
        "regarding.resourceVersion",
        "regarding.fieldPath",
        "reportingController",
        "type",
    ),
)

KINDS: tuple[Kind[Any], ...] = (EVENT,)
