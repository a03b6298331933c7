"""When failed writes are tried again, and which failures are news.

There is one moment for all failed writes of a rollout, later each time, so that between two tries there are plans
without a failure, and a status. The words of a server may differ each time; what is kept changes only with what they
mean, because everything that is kept is written.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from echelon.engine.rollout.failed_writes import FailedWrite

FIRST, LAST = timedelta(seconds=1), timedelta(seconds=60)


def wait_before(tries: int, at_least: timedelta) -> timedelta:
    """Return how long to wait after so many tries; `at_least` is what the server asked for."""
    return max(min(FIRST * (1 << min(tries, 10)), LAST), at_least)


def news(failed: FailedWrite, before: FailedWrite | None) -> FailedWrite | None:
    """Return what to keep of a failure, given what is kept of the cluster already; None if it says nothing new."""
    if before is None or (before.revision, before.held) != (failed.revision, failed.held):
        return failed
    return None if before.refused == failed.refused else replace(failed, since=before.since)


def not_stored(noted: Mapping[str, FailedWrite], stored: Mapping[str, FailedWrite]) -> dict[str, FailedWrite]:
    """Return the failures that say something else than what is stored; long messages are not stored in full."""
    return {
        cluster: one
        for cluster, one in noted.items()
        if (kept := stored.get(cluster)) is None or replace(one, message="") != replace(kept, message="")
    }
