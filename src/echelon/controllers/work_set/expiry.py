"""Deletes works that are complete and asked to be deleted after that.

A work of a work set is left alone whatever it says: the set would write it again.
"""

from datetime import datetime, timedelta
from typing import Any

from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.times import parse_time
from echelon.api.work import MANIFEST_WORK, ManifestWork
from echelon.controllers.context import ControllerContext
from echelon.engine.conditions import find_condition
from echelon.engine.plan import NOTHING, Delete, Plan
from echelon.engine.work_set.names import SET_LABEL
from echelon.kube.controller import Controller
from echelon.kube.informer import Delta, Informer

KINDS: tuple[Kind[Any], ...] = (MANIFEST_WORK,)
COMPLETE = "Complete"
WORKERS = 4


class WorkExpiryReconciler:
    """Plans the end of works."""

    def __init__(self, works: Informer[ManifestWork]) -> None:
        self._works = works

    def plan(self, key: Key, now: datetime) -> Plan:
        """Plan one work."""
        work = self._works.get(key)
        if work is None or (end := end_of(work, now)) is None:
            return NOTHING
        if end > now:
            return Plan(look_again_after=end - now)
        meta = work.metadata
        # As it was seen: a work that was changed meanwhile may have another time to live.
        return Plan((Delete(MANIFEST_WORK, meta.name, meta.namespace, meta.uid, meta.resource_version),))


def end_of(work: ManifestWork, now: datetime) -> datetime | None:
    """Return when a work is to be deleted; nothing if it is to stay."""
    meta, option = work.metadata, work.spec.delete_option
    if meta.deletion_timestamp or SET_LABEL in meta.labels or option is None:
        return None
    complete = find_condition(work.status.conditions, COMPLETE)
    seconds = option.ttl_seconds_after_finished
    if seconds is None or complete is None or complete.status != "True":
        return None
    try:
        return (parse_time(complete.last_transition_time) or now) + timedelta(seconds=max(seconds, 0))
    except OverflowError:  # longer than anybody lives
        return None


def work_expiry_controller(context: ControllerContext) -> Controller:
    """Return a controller of the time to live of works."""
    works = context.informer(MANIFEST_WORK)
    controller = context.controller("work-expiry", WorkExpiryReconciler(works), workers=WORKERS)
    controller.watch(works, when=_may_end)
    return controller


def _may_end(delta: Delta[ManifestWork]) -> bool:
    new = delta.new
    return new is not None and new.spec.delete_option is not None
