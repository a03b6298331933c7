"""Why an object is not well: the worst of its pods, or the last warning about it.

"1 of 3 updated" tells people that they have to look, and not where. What helps is one line: what the worst pod waits
for, where that is, and how many others have the same. Objects without pods, and those whose pods nobody lets come into
being, have nothing but events. A line says the same whatever the order in which things were read, so that it is written
to the hub only when there is news.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from echelon.api.base import JSONObject
from echelon.api.times import parse_time
from echelon.engine.work.health_state import part, text
from echelon.engine.work.pod_trouble import PodTrouble, one_line, pod_trouble

MAX_CAUSE = 300
# A controller that fails tries again at ever longer intervals, up to a quarter of an hour, and warns each time.
FRESH = timedelta(minutes=20)
_LEAST = 80  # characters that are left for what is wrong, however long names are
# Of a pod, what its containers say better.
_REPEATED = frozenset({"BackOff", "Failed"})


def worst_pod(pods: Sequence[JSONObject]) -> JSONObject | None:
    """Return the pod that tells most about why things are not well; None if all that are to stay serve."""
    found = _troubled(pods)
    return found[0][1] if found else None


def is_conclusive(pods: Sequence[JSONObject]) -> bool:
    """Tell whether pods alone say why, so that nobody has to look at events."""
    found = _troubled(pods)
    return bool(found) and found[0][0].conclusive


def cause_of(pods: Sequence[JSONObject], events: Sequence[JSONObject], now: datetime) -> str:
    """Say why an object is not well, in one line of at most `MAX_CAUSE` characters; nothing if nobody knows.

    `pods` are those of the object, and `events` those of the object and of its worst pod; there may be any others.
    """
    found = _troubled(pods)
    if not found:
        return _warning(events, now, MAX_CAUSE)
    trouble, pod = found[0]
    alike = sum((each.rank, each.reason) == (trouble.rank, trouble.reason) for each, _ in found) - 1
    where = _where(trouble, pod, alike)
    limit = max(MAX_CAUSE - len(where), _LEAST)
    if trouble.conclusive:
        return one_line(trouble.text, limit) + where
    own, name = part(pod, "metadata").get("uid"), text(part(pod, "metadata"), "name")
    about = [each for each in events if _regards(each, own, name)]
    others = [each for each in events if each not in about]
    if told := _warning([each for each in about if text(each, "reason") not in _REPEATED], now, limit):
        return told + where
    return _warning(others, now, MAX_CAUSE) or one_line(trouble.text, limit) + where


def _troubled(pods: Sequence[JSONObject]) -> list[tuple[PodTrouble, JSONObject]]:
    """Return pods that do not serve, with the reason, the worst first."""
    found = [(trouble, pod) for pod in pods if (trouble := pod_trouble(pod)) is not None]
    return sorted(found, key=lambda each: (each[0].rank, text(part(each[1], "metadata"), "name"), each[0].text))


def _where(trouble: PodTrouble, pod: JSONObject, alike: int) -> str:
    name = one_line(text(part(pod, "metadata"), "name"), 100)
    container = f"container {trouble.container} of " if trouble.container else ""
    more = f" and {alike} more" if alike else ""
    return f" ({container}pod {name}{more})" if name else ""


def _warning(events: Sequence[JSONObject], now: datetime, limit: int) -> str:
    """Return what the newest warning says; of several that are as new, the first by its words."""
    warnings = [
        (when, text(each, "reason"), text(each, "message"))
        for each in events
        if text(each, "type") == "Warning" and (when := _time(each)) is not None and now - when <= FRESH
    ]
    if not warnings:
        return ""
    newest = max(when for when, _, _ in warnings)
    reason, message = min((reason, message) for when, reason, message in warnings if when == newest)
    return one_line(": ".join(filter(None, (reason, message))), limit)


def _regards(event: JSONObject, uid: object, name: str) -> bool:
    about = part(event, "involvedObject") or part(event, "regarding")
    return about.get("uid") == uid if uid else about.get("name") == name


def _time(event: JSONObject) -> datetime | None:
    """Return when an event was last seen; there are four ways to write that."""
    series = part(event, "series")
    said = (text(series, "lastObservedTime"), text(event, "lastTimestamp"), text(event, "eventTime"))
    times = [parsed for each in said if each and (parsed := parse_time(each)) is not None]
    made = parse_time(text(part(event, "metadata"), "creationTimestamp"))
    return max(times) if times else made
