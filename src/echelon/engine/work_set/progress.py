"""From what an agent reports of a work to where its cluster stands.

Upstream reads a report in a way that lets a rollout stop without a word: without a condition rule for `Progressing`
nothing ever completes, a manifest that cannot be applied is never a failure, a degraded workload is a success once it
stops moving, and a clock of the last content goes on running for the new one. Here everything is judged by the
conditions of the present generation alone; what has not been reported yet is progressing since it was written; and no
clock begins before the content was written.
"""

from dataclasses import dataclass
from datetime import datetime

from echelon.api.meta import Condition
from echelon.api.times import parse_time
from echelon.api.work import ManifestWork, ManifestWorkSpec, ManifestWorkStatus
from echelon.engine.rollout.model import Phase, Wait
from echelon.engine.work.described import described

APPLIED, AVAILABLE, PROGRESSING, DEGRADED = "Applied", "Available", "Progressing", "Degraded"
APPLY_FAILED, TERMINATING = "ApplyFailed", "WorkTerminating"


@dataclass(frozen=True, slots=True)
class Progress:
    """What a report says about the content that the work has now."""

    phase: Phase
    since: datetime | None = None
    reason: str = ""
    message: str = ""
    applied: bool = False
    available: bool = False
    progressing: bool = False
    degraded: bool = False


@dataclass(frozen=True, slots=True)
class _Verdict:
    phase: Phase
    by: Condition | None
    reason: str
    message: str


def later(one: datetime | None, other: datetime | None) -> datetime | None:
    """Return the later of two times, of which each may be unknown."""
    if one is None or other is None:
        return one or other
    return max(one, other)


def deadline_from(
    progress: Progress, written: datetime | None, turned: datetime | None, retried: datetime | None
) -> datetime | None:
    """Return from when the deadline of a work runs; nothing if there is no better time than the condition's own.

    That is the write, whatever was reported since; or when it stopped working, if it had worked; or when somebody
    asked for another try.
    """
    if progress.phase is Phase.SUCCEEDED or progress.reason == TERMINATING or (written is None and turned is None):
        return None
    return later(turned or written, retried)


def progress_of(work: ManifestWork, written: datetime | None) -> Progress:
    """Return where the cluster of a work stands with the content that the work has."""
    meta = work.metadata
    if meta.deletion_timestamp:
        since = parse_time(meta.deletion_timestamp)
        return Progress(
            Phase.PROGRESSING, since, TERMINATING, "the work is being deleted; it is written anew after that"
        )
    now = {each.type: each for each in work.status.conditions if each.observed_generation == meta.generation}
    said = _judge(now, work)
    began = parse_time(said.by.last_transition_time) if said.by is not None else None
    return Progress(
        said.phase,
        later(began, written or (None if said.by is not None else parse_time(meta.creation_timestamp))),
        said.reason,
        said.message,
        *(name in now and now[name].status == "True" for name in (APPLIED, AVAILABLE, PROGRESSING, DEGRADED)),
    )


def _judge(now: dict[str, Condition], work: ManifestWork) -> _Verdict:
    applied, degraded, progressing = now.get(APPLIED), now.get(DEGRADED), now.get(PROGRESSING)
    if applied is None:
        return _unreported("the agent has not reported on it yet")
    if applied.status == "False":
        return _Verdict(Phase.FAILED, applied, APPLY_FAILED, _refusal(applied, work.status))
    if applied.status != "True":  # nobody could be asked, so no clock of the cluster's has begun
        return _Verdict(Phase.PROGRESSING, None, applied.reason, applied.message)
    known = {each.type for each in work.status.conditions}
    if degraded is None and DEGRADED in known:
        return _unreported("the agent has not reported yet whether it is degraded")
    if degraded is not None and degraded.status == "True":
        return _Verdict(Phase.FAILED, degraded, degraded.reason, degraded.message)
    if progressing is not None:
        phase = Phase.SUCCEEDED if progressing.status == "False" else Phase.PROGRESSING
        return _Verdict(phase, progressing, progressing.reason, progressing.message)
    if PROGRESSING in known or _asks_for_progress(work.spec):
        return _unreported("the agent has not reported yet whether it is progressing")
    return _by_existence(now.get(AVAILABLE))


def _refusal(applied: Condition, status: ManifestWorkStatus) -> str:
    """Say which object could not be written, and why: the condition of a work only says that there is one."""
    for each in status.resource_status.manifests:
        refused = next((one for one in each.conditions if one.type == APPLIED and one.status == "False"), None)
        if refused is not None:
            return f"{described(each.resource_meta)}: {refused.message}"
    return applied.message


def _by_existence(available: Condition | None) -> _Verdict:
    """Judge a report of an agent that never speaks of progress: more than that the objects exist cannot be known."""
    if available is None:
        return _unreported("the agent has not reported yet whether its objects exist")
    phase = Phase.SUCCEEDED if available.status == "True" else Phase.PROGRESSING
    return _Verdict(phase, available, available.reason, available.message)


def _asks_for_progress(spec: ManifestWorkSpec) -> bool:
    return any(rule.condition == PROGRESSING for config in spec.manifest_configs for rule in config.condition_rules)


def _unreported(message: str) -> _Verdict:
    return _Verdict(Phase.PROGRESSING, None, Wait.REPORT.value, message)
