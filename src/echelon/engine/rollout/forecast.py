"""The coming waves, if all goes well: who starts when, and where the rollout would come to a stop.

A forecast goes to the end of the fleet, which may be thousands of waves away. Deciding each of them over all clusters
would take minutes, so it plays the stages of the walk through by a queue of times at which slots come free, starting
from a real decision.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush

from echelon.engine.placement.decisions import DecisionGroups, GroupKey
from echelon.engine.rollout import reasons
from echelon.engine.rollout.model import NO_CONTROL, ClusterStatus, Control, Phase, Standing, Wait
from echelon.engine.rollout.stages import Stage, stages
from echelon.engine.rollout.strategy import Strategy
from echelon.engine.rollout.walk import decide, in_turn

USUAL = timedelta(minutes=5)

_STOPPED = (Wait.ABORTED, Wait.PAUSED, Wait.BREACH, Wait.HELD)


@dataclass(frozen=True, slots=True)
class Wave:
    """Clusters that start together. The last wave of a forecast starts none: it is the end.

    At the end, `wait` says what keeps the rest of the clusters from ever starting, and is empty if there is no rest.
    """

    after: timedelta
    starts: tuple[str, ...] = ()
    groups: tuple[GroupKey, ...] = ()
    wait: Wait = Wait.NOTHING
    message: str = ""


def forecast(
    strategy: Strategy,
    groups: DecisionGroups,
    statuses: Iterable[ClusterStatus],
    now: datetime,
    control: Control = NO_CONTROL,
    *,
    duration: timedelta = USUAL,
) -> tuple[Wave, ...]:
    """Foretell a rollout in which each cluster takes `duration`, or its deadline if that is shorter, and succeeds.

    What has failed stays failed, and leaves its slot at its deadline.
    """
    statuses = tuple(statuses)
    decision = decide(strategy, groups, statuses, now, control)
    written = {status.cluster for status in statuses if status.phase is Phase.TO_APPLY}
    takes = duration if strategy.deadline is None else min(duration, strategy.deadline)
    play = _Play(now, now, takes, strategy.soak, control, written)
    left = sum(one.phase is Phase.TO_APPLY for one in decision.standings)
    if left and decision.blocked in _STOPPED:
        return (play.end(decision.blocked, decision.blocked_message),)
    members: dict[GroupKey, list[Standing]] = {key: [] for key in groups.groups}
    for standing in decision.standings:
        members[standing.group].append(standing)
    waves: list[Wave] = []
    for stage in stages(strategy, groups):
        clusters = [one for key in stage.groups for one in members[key]]
        stop = play.through(stage, clusters, waves)
        if stop is not None and sum(len(wave.starts) for wave in waves) < left:
            return (*waves, stop)
    return (*waves, play.end(Wait.NOTHING, "finished"))


@dataclass(slots=True)
class _Play:
    """A rollout that is being foretold, at the moment that it has come to."""

    now: datetime
    at: datetime
    takes: timedelta
    soak: timedelta
    control: Control
    written: set[str]

    def through(self, stage: Stage, clusters: list[Standing], waves: list[Wave]) -> Wave | None:
        """Play one stage and add its waves; return the end if there is no way on."""
        failures = tuple(one.cluster for one in clusters if one.failed)
        fresh = [one for one in clusters if one.phase is Phase.TO_APPLY]
        if len(failures) > stage.tolerated:
            why = reasons.TooManyFailures(failures, stage.tolerated, stage.budget)
            return self.end(Wait.BREACH, why())
        held = tuple(key for key in stage.groups if self.control.holds_back(key))
        queue = in_turn([one.cluster for one in fresh if one.group not in held], self.written)
        home = {one.cluster: one.group for one in fresh}
        moving = [self._slot_free(one) for one in clusters if one.in_flight and not one.failed]
        stuck = [one.until for one in clusters if one.in_flight and one.failed]
        taken = [*moving, *(end for end in stuck if end is not None)]
        for_ever = stuck.count(None)
        last = max(moving, default=self.at)
        heapify(taken)
        first = 0
        while first < len(queue):
            while taken and taken[0] <= self.at:
                heappop(taken)
            batch = queue[first : first + max(stage.slots - len(taken) - for_ever, 0)]
            if batch:
                waves.append(Wave(self.at - self.now, tuple(batch), tuple(sorted({home[name] for name in batch}))))
                last = max(last, self.at + self.takes + self.soak)
                for _ in batch:
                    heappush(taken, self.at + self.takes + self.soak)
                first += len(batch)
            elif taken:
                self.at = taken[0]
            else:
                full = reasons.NoSlot(stage.slots, for_ever, for_ever)
                return self.end(Wait.SLOT, full(fresh[0]))
        self.at = max(self.at, last)
        waiting = tuple(key for key in held if any(one.group == key for one in fresh))
        return self.end(Wait.APPROVAL, reasons.NoApproval(waiting)()) if waiting else None

    def _slot_free(self, standing: Standing) -> datetime:
        if standing.wait is Wait.SOAK and standing.until is not None:
            return standing.until
        return max(self.now, (standing.since or self.now) + self.takes) + self.soak

    def end(self, wait: Wait, message: str) -> Wave:
        return Wave(self.at - self.now, wait=wait, message=message)
