"""Walks a rollout into the future: asks `roll_out`, lets happen what it says, and asks again.

Nothing is known here of strategies, groups or budgets. What starts, what is removed and what is waited for is what the
controllers' own function says of a subject, so a forecast cannot say anything else than they will do. All that is added
is what the world answers: a cluster that starts holds the content, works after a while or does not, and what a
controller notes on a revision is noted.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

import msgspec

from echelon.engine.forecast.model import ALL_WELL, Assumptions, Ending, Forecast, Start, Wave
from echelon.engine.rollout.bookkeeping import look_again_after
from echelon.engine.rollout.control import APPROVED, approval_name, approve
from echelon.engine.rollout.evaluate import roll_out
from echelon.engine.rollout.model import ClusterDecision, ClusterStatus, Phase, Wait
from echelon.engine.rollout.state import Rollout
from echelon.engine.rollout.stored_revision import (
    COMPLETED_ANNOTATION,
    COMPLETED_NUMBER_ANNOTATION,
    PASSED_ANNOTATION,
    STOPPED_ANNOTATION,
    StoredRevision,
)
from echelon.engine.rollout.subject import Holding, Subject

# A walk over ten thousand clusters takes a hundredth of a second for each step, and people wait for it.
MOST_STEPS = 600
MOST_VISITS = 2_200_000  # clusters times steps
_FARTHEST = timedelta(days=3650)


def forecast(subject: Subject, now: datetime, assumed: Assumptions = ALL_WELL) -> Forecast:
    """Tell what a rollout will do from now on, if the clusters do what is assumed of them."""
    return _Course(subject, now, assumed).run()


class _Course:
    """A rollout on its way. It is changed step by step; what it was made from is not."""

    def __init__(self, subject: Subject, now: datetime, assumed: Assumptions) -> None:
        self._now = now
        self._clock = now
        self._assumed = assumed
        self._waves: list[Wave] = []
        self._approvals: list[str] = []
        self._inspected: tuple[str, ...] = ()
        self._due: dict[str, datetime] = {}  # by cluster, when it reports, or is rid of what it held
        self._subject = subject

    def run(self) -> Forecast:
        """Go on until nothing happens any more."""
        rollout = roll_out(self._subject, self._clock)
        self._take_over(rollout)
        visited = 0
        for _ in range(MOST_STEPS):
            rollout = roll_out(self._subject, self._clock)
            visited += sum(len(ref.cluster_decisions) for ref in rollout.references)
            if self._step(rollout) or self._wait(rollout):
                if visited > MOST_VISITS:
                    break
                continue
            return self._told(rollout)
        return self._told(rollout, Ending.CUT_SHORT)

    def _take_over(self, rollout: Rollout) -> None:
        """Let what is under way now come to its end as is assumed, and keep the content that is wanted."""
        for cluster, holding in rollout.holdings.items():
            moving = rollout.is_current(holding) and holding.status.phase is Phase.PROGRESSING
            if holding.terminating or (moving and cluster not in self._assumed.silent):
                self._due[cluster] = self._clock + self._assumed.takes
        self._subject = _stored(self._subject, rollout)
        hold = self._subject.hold
        if hold is not None and hold.wait is Wait.INSPECTION:
            self._inspected = _without_content(rollout)
            self._subject = replace(self._subject, hold=None)

    def _step(self, rollout: Rollout) -> bool:
        """Let happen what a rollout says; return whether anything did."""
        going = frozenset(rollout.allocations.to_delete)
        starts = [
            (ref.name, entry)
            for ref in rollout.references
            for entry in ref.starting
            if entry.cluster not in going and not self._is_ending(entry.cluster)
        ]
        notes = rollout.to_note(self._clock)
        self._note(rollout, notes)
        if starts or going:
            self._waves.append(
                Wave(
                    self._clock - self._now,
                    tuple(Start(entry.cluster, entry.group.placement or name, entry.group) for name, entry in starts),
                    tuple(sorted(going)),
                    tuple(self._approvals),
                )
            )
            self._approvals = []
            self._write(rollout, starts, going)
            return True
        return bool(notes) or self._approve(rollout)

    def _wait(self, rollout: Rollout) -> bool:
        """Wait for what comes next; return whether anything does."""
        self._report()  # of what took no time
        moments = list(self._due.values())
        if (recheck := look_again_after(rollout, self._clock)) is not None:
            moments.append(self._clock + min(recheck, _FARTHEST))
        coming = min(moments, default=None)
        if coming is None or coming - self._now >= _FARTHEST:
            return False
        self._clock = max(coming, self._clock)
        self._report()
        return True

    def _write(self, rollout: Rollout, starts: Iterable[tuple[str, ClusterDecision]], going: Iterable[str]) -> None:
        holdings = dict(self._subject.holdings)
        written = rollout.writes_at(self._clock)
        for placement, entry in starts:
            name = entry.cluster
            status = ClusterStatus(name, Phase.PROGRESSING, written, written)
            holdings[name] = Holding(
                cluster=name, revision=rollout.revision, status=status, placement=placement, written=written
            )
            self._due.pop(name, None)
            if name not in self._assumed.silent:
                self._due[name] = written + self._assumed.takes
        for name in going:
            before = holdings[name]
            status = ClusterStatus(name, Phase.PROGRESSING, self._clock)
            holdings[name] = Holding(
                cluster=name,
                revision=before.revision,
                status=status,
                placement=before.placement,
                written=before.written,
                terminating=True,
                before_removal=before.status,
            )
            self._due[name] = self._clock + self._assumed.takes
        self._subject = replace(self._subject, holdings=holdings)
        self._report()

    def _report(self) -> None:
        """Let clusters say what is due by now."""
        due = [name for name, when in self._due.items() if when <= self._clock]
        if not due:
            return
        holdings = dict(self._subject.holdings)
        for name in due:
            when, holding = self._due.pop(name), holdings[name]
            if holding.terminating:
                del holdings[name]
                continue
            phase = Phase.FAILED if name in self._assumed.failing else Phase.SUCCEEDED
            status = msgspec.structs.replace(holding.status, phase=phase, since=when)
            holdings[name] = msgspec.structs.replace(holding, status=status)
        self._subject = replace(self._subject, holdings=holdings)

    def _approve(self, rollout: Rollout) -> bool:
        """Let somebody approve the groups that wait for that; return whether there were any."""
        if not self._assumed.approving:
            return False
        groups, said = approvals_of(rollout)
        if not groups:
            return False
        meta = self._subject.metadata
        annotations = {**meta.annotations, **said}
        self._subject = replace(self._subject, metadata=msgspec.structs.replace(meta, annotations=annotations))
        self._approvals += groups
        return True

    def _note(self, rollout: Rollout, notes: dict[str, str]) -> None:
        """Keep what a controller notes on the present revision."""
        if not notes or rollout.history.present is None:
            return
        known = rollout.history.present
        present = replace(
            known,
            completed=notes.get(COMPLETED_ANNOTATION, known.completed),
            completed_number=notes.get(COMPLETED_NUMBER_ANNOTATION, known.completed_number),
            passed=notes.get(PASSED_ANNOTATION, known.passed),
            stopped=notes.get(STOPPED_ANNOTATION, known.stopped),
        )
        others = [each for each in self._subject.revisions if each.revision != present.revision]
        self._subject = replace(self._subject, revisions=(*others, present))

    def _is_ending(self, cluster: str) -> bool:
        holding = self._subject.holdings.get(cluster)
        return holding is not None and holding.terminating

    def _told(self, rollout: Rollout, ending: Ending | None = None) -> Forecast:
        last = self._waves[-1].after if self._waves else timedelta()
        return told(rollout, self._waves, max(self._clock - self._now, last), ending, self._inspected)


def approvals_of(rollout: Rollout) -> tuple[list[str], dict[str, str]]:
    """Return the groups that wait for somebody to approve them, and the annotations that do so."""
    awaited = [
        approval_name(replace(entry.group, placement=entry.group.placement or ref.name))
        for ref in rollout.references
        for entry in ref.cluster_decisions
        if entry.wait is Wait.APPROVAL
    ]
    if not awaited:
        return [], {}
    groups = list(dict.fromkeys(awaited))
    said = approve(rollout.revision, groups, rollout.subject.metadata.annotations.get(APPROVED, ""))
    return groups, {name: value for name, value in said.items() if value is not None}


def told(
    rollout: Rollout,
    waves: Iterable[Wave],
    ends: timedelta,
    ending: Ending | None = None,
    inspected: tuple[str, ...] = (),
) -> Forecast:
    """Return the forecast of a rollout that has come to its end; where it was cut short, `ending` says so."""
    blocked = [ref.decision for ref in rollout.references if ref.decision is not None and ref.decision.blocked]
    errors = [ref.allocation.error.message for ref in rollout.references if ref.allocation.error]
    message = next((each.blocked_message for each in blocked), "")
    message = rollout.malformed or rollout.not_stored or "; ".join(errors) or message
    entries = list(rollout.cluster_decisions)
    return Forecast(
        rollout.revision,
        tuple(waves),
        ends,
        ending or _ending(rollout, message, breach=any(each.breach for each in blocked)),
        message,
        inspected,
        tuple(entry.cluster for entry in entries if entry.phase is Phase.TO_APPLY),
        tuple(entry.cluster for entry in entries if entry.failed),
        tuple(sorted(rollout.allocations.removal.held)),
    )


def _ending(rollout: Rollout, message: str, *, breach: bool) -> Ending:
    if breach:
        return Ending.STOPPED
    if message or rollout.subject.problem or rollout.unbound:
        return Ending.BLOCKED
    if not rollout.has_clusters:
        return Ending.EMPTY
    if rollout.complete:
        return Ending.COMPLETE
    return Ending.FINISHED if rollout.finished else Ending.WAITING


def _without_content(rollout: Rollout) -> tuple[str, ...]:
    """Return the clusters that are yet to have the content in force."""
    having = {name for name, holding in rollout.holdings.items() if rollout.is_current(holding)}
    return tuple(entry.cluster for entry in rollout.cluster_decisions if entry.cluster not in having)


def _stored(subject: Subject, rollout: Rollout) -> Subject:
    """Return a subject with the content that is wanted among its stored revisions, as the newest of them."""
    history, meta = rollout.history, subject.metadata
    if history.present is not None and history.present.number == history.number:
        return subject
    known = history.present or StoredRevision(
        name=f"{meta.name}-{subject.revision}",
        uid="",
        version="",
        number=history.number,
        revision=subject.revision,
        completed="",
        content=subject.content,
        generation=meta.generation,
        owner=meta.uid,
    )
    others = [each for each in subject.revisions if each is not history.present]
    return replace(subject, revisions=(*others, replace(known, number=history.number)))
