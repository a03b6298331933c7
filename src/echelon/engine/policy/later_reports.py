"""Agents of others: which of their reports are about what was written last.

They say of a report when it was made and what it is called, and not which content it is about. So the latest report of
each template is noted with a write, and a later one is about that. Only a template whose object becomes another one is
reported on anew, so only those are waited for. A replica that is held for a moment may be released before its agent has
seen it held; then its agent sees the step from the content before to the one after, and nothing in between.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import takewhile
from typing import Any

import msgspec

from echelon.api.base import JSONObject
from echelon.api.policy import ComplianceHistory, TemplateDetails
from echelon.api.times import parse_time
from echelon.engine.policy.compliance_events import event_time
from echelon.engine.policy.content import ACTION, definitions_of, effective_action, is_enforceable
from echelon.engine.rollout.model import Phase
from echelon.engine.rollout.revision import revision_of

_ALL = ""  # in a note of one that is held: a hash of all reports, for whoever releases it
_BAD = "NonCompliant"
_VERDICTS = {"Compliant": Phase.SUCCEEDED, _BAD: Phase.FAILED}
MOST_REPORTS = 10  # that agents keep of a template


def reports_to_outlast(
    before: JSONObject, after: JSONObject, reports: Mapping[str, str], noted: str, *, held: bool
) -> str:
    """Return what to note of reports, by template, with a write that makes one spec of a replica of another.

    `noted` is what was noted with the write before, if that is held.
    """
    known = read_events(noted)
    all_before = known.pop(_ALL, None)
    if all_before is None or all_before != revision_of(reports):
        known = {}  # else its agent has said nothing since, and goes on from where it was before the hold
    elif not held:
        return _format(known)
    changed = _differing(before, after, with_action=not held)  # the action comes back with the release
    awaited = {name: each for name, each in reports.items() if name in changed}
    if not held:
        return _format(awaited)
    still_there = {name: each for name, each in known.items() if name in _definitions(after)}
    return _format({**still_there, **awaited, _ALL: revision_of(reports)})


def verdict_of_reports(spec: JSONObject, reports: Mapping[str, str], compliant: str, noted: str) -> Phase:
    """Judge by reports alone. What is not enforced has succeeded when it was looked at."""
    if any(reports.get(name, "") in ("", event) for name, event in read_events(noted).items()):
        return Phase.PROGRESSING
    if not reports.keys() >= _definitions(spec).keys():
        return Phase.PROGRESSING
    if compliant and not is_enforceable(spec):
        return Phase.SUCCEEDED
    return _VERDICTS.get(compliant, Phase.PROGRESSING)


def bad_since(details: Iterable[TemplateDetails]) -> datetime | None:
    """Return since when reports say, without a break, that something is not well; nothing if they do not tell."""
    times = [_bad_since(each.history) for each in details if each.compliant == _BAD]
    known = [each for each in times if each is not None]
    return min(known, default=None) if len(known) == len(times) else None


def read_events(text: str) -> dict[str, str]:
    """Read what was noted of reports; nothing where that cannot be read."""
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, str])
    except msgspec.DecodeError:
        return {}


def _bad_since(history: Sequence[ComplianceHistory]) -> datetime | None:
    bad = list(takewhile(lambda each: each.message.lower().startswith(_BAD.lower()), history))
    times = [_time_of(each) for each in bad]
    known = [each for each in times if each is not None]
    if len(known) < len(times) or len(bad) >= MOST_REPORTS:  # which may have pushed out the one that it began with
        return None
    return min(known, default=None)


def _time_of(report: ComplianceHistory) -> datetime | None:
    return parse_time(report.last_timestamp) or event_time(report.event_name)


def _format(reports: Mapping[str, str]) -> str:
    return msgspec.json.encode(dict(sorted(reports.items()))).decode()


def _differing(before: JSONObject, after: JSONObject, *, with_action: bool) -> set[str]:
    """Return the templates of a spec that another one does not have so."""
    old, new = _definitions(before), _definitions(after)
    changed = {name for name, each in new.items() if old.get(name) != each}
    if with_action:
        changed |= {
            name for name, each in new.items() if name in old and _acts(before, old[name]) != _acts(after, each)
        }
    return changed


def _acts(spec: JSONObject, definition: JSONObject) -> str:
    return effective_action(str(spec.get(ACTION) or ""), definition)


def _definitions(spec: JSONObject) -> dict[str, Any]:
    """Return the objects of templates by name."""
    return {str((each.get("metadata") or {}).get("name", "")): each for each in definitions_of(spec)}
