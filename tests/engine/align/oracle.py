"""Counts pods as they come and go, and says when a controller did what the budgets forbid. It never asks the engine.

A violation is voluntary: a controller took an available pod, made one or updated one, and right after that the global
state was outside the limit. They are counted strictly, and with excuses: a removal is excused up to the number of pods
that died by themselves within one loop before it, since nobody can know of those in time.

When somebody changes a limit, a looser one holds at once. A tighter one cannot hold before it has been heard of, nor
before it was reached for the first time: from then on it does. Pods that a cluster has too many go by the limits that
held when it was told to have fewer, however late it hears of that: nobody calls a removal back. Nor can a cluster that
cannot be reached be told of another limit.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import inf

from tests.engine.align.deployment_members import Deployment
from tests.engine.align.members import Member, Pod


@dataclass
class Limits:
    least_available: int
    most_pods: int
    most_updated: int | None = None


@dataclass
class Oracle:
    """Watches all members."""

    clock: Callable[[], float]
    revision_of: Callable[[str], str]  # what a cluster is to be updated to
    most_granted: Callable[[], int]  # pods that there are, or that specs on the way may still make
    most_promised: Callable[[], int]  # updated pods that there are, or that specs on the way may still make
    next_push: Callable[[], int]  # what is sent from now on has this id, or a higher one
    cut_since: Callable[[str], float | None]  # when a cluster could last be reached, if that is not so now
    loop: float  # one full loop: status, plan, push, sync
    settle: float  # how long it takes to know that what was replaced is over, where agents cannot tell
    limits: Limits
    earlier: list[tuple[int, int]] = field(default_factory=list)  # for pushes below an id: what had to be available
    pending: tuple[float, Limits] | None = None  # from when it can have been heard of, and what
    members: list[Member] = field(default_factory=list)
    deaths: list[tuple[float, str]] = field(default_factory=list)
    strict: list[str] = field(default_factory=list)
    excused: list[str] = field(default_factory=list)
    races: list[str] = field(default_factory=list)
    repairs: list[str] = field(default_factory=list)
    deaf_until: float = -1.0  # until when members are only asked what they have, since nobody knows
    blind: set[str] = field(default_factory=set)  # Deployments of which it is not known what a pause would do to them
    repairing_until: float = -1.0
    events: int = 0

    # What happens to pods.

    def made(self, member: Member, pod: Pod) -> None:
        self.events += 1
        self._tighten()
        pods = sum(each.limit for each in self.members)
        if pods > self.limits.most_pods:
            text = f"made {pod.name}: {pods} pods, and at most {self.limits.most_pods} may be"
            self._note(text, self.limits.most_pods - pods)
        if pod.revision == self.revision_of(member.name) and self.limits.most_updated is not None:
            updated = self.updated
            if updated > self.limits.most_updated:
                text = f"updated {pod.name}: {updated} pods, and at most {self.limits.most_updated} may be"
                self._note(text, self.limits.most_updated - updated)

    def taken(self, member: Member, pod: Pod, *, available: bool) -> None:
        self.events += 1
        self._tighten()
        now, least = self.available, self._least(member, pod)
        excess = sum(self._undershot(each) for each in self.members)
        if not available or now >= least:
            return
        text = f"took {pod.name}: {now} available, and at least {least} should be"
        # A member that went below its own limit did so by itself; what it owes is not charged to others.
        if self.clock() <= self.repairing_until:
            self.repairs.append(f"{self.clock():.2f} {text}")
        elif now + excess >= least:
            self.races.append(f"{self.clock():.2f} {text}")
        else:
            self._note(text, now + excess - least, self._decided(member, pod))

    def became_available(self, member: Member, pod: Pod) -> None:
        del member, pod
        self.events += 1
        self._tighten()

    def died(self, member: Member, pod: Pod, *, available: bool) -> None:
        del pod
        self.events += 1
        if available:
            self.deaths.append((self.clock(), member.name))

    # What is counted.

    @property
    def available(self) -> int:
        return sum(pod.available for each in self.members for pod in each.pods)

    @property
    def updated(self) -> int:
        return sum(pod.revision == self.revision_of(each.name) for each in self.members for pod in each.active)

    def change(self, limits: Limits) -> None:
        """Somebody changed the budgets, the size or the template."""
        before = self.limits
        self.earlier.append((self.next_push(), before.least_available))
        looser = None
        if limits.most_updated is not None and before.most_updated is not None:
            looser = max(before.most_updated, limits.most_updated)
        self.limits = Limits(
            min(before.least_available, limits.least_available), max(before.most_pods, limits.most_pods), looser
        )
        self.pending = (self._heard(), limits)
        self._tighten()

    def lose_ledger(self) -> None:
        """What was granted is not known any more: members have to report it before they are told anything new.

        Where agents cannot tell what ReplicaSets remember, nobody knows it again before a Deployment is through with
        its update: till then it can be neither paused nor resized.
        """
        self.deaf_until = self.clock() + self.loop
        if self.settle:
            self.blind |= {each.name for each in self.members if isinstance(each, Deployment) and each.is_updating}
        if self.pending is not None:
            self.pending = (self._heard(), self.pending[1])

    def _heard(self) -> float:
        """Return when a change of now must have been heard of."""
        return max(self.clock(), self.deaf_until) + self.loop + self.settle

    def repair(self, *, going_on: bool) -> None:
        """Broken clusters mend themselves, as the last resort, until all have heard that they must not any more."""
        if going_on:
            self.repairing_until = inf
        elif self.repairing_until == inf:
            self.repairing_until = self.clock() + self.loop

    def change_template(self) -> None:
        """Which pods are updated changed: the limit on them has to be reached anew."""
        self.limits = replace(self.limits, most_updated=None)

    def _tighten(self) -> None:
        """Let a tighter limit hold from when it was reached: by the pods, and by all that is on its way."""
        if self.pending is None:
            return
        heard, wanted = self.pending
        floor, ceiling, updated = self.limits.least_available, self.limits.most_pods, self.limits.most_updated
        self.blind -= {each.name for each in self.members if isinstance(each, Deployment) and not each.is_updating}
        if self.clock() >= heard and self._surely_available(heard) >= wanted.least_available and not self.blind:
            floor = wanted.least_available
        if self.most_granted() <= wanted.most_pods:
            ceiling = wanted.most_pods
        if wanted.most_updated is not None and self.most_promised() <= wanted.most_updated:
            updated = wanted.most_updated
        self.limits = Limits(floor, ceiling, updated)
        if self.limits == wanted:
            self.pending = None

    def _surely_available(self, heard: float) -> int:
        """How many are available, but for those that go: marked before a limit was heard of, or more than wanted."""
        return sum(_surely_available(each, heard) for each in self.members)

    def _decided(self, member: Member, pod: Pod) -> float | None:
        """When a removal was decided, if not just now: when the pod was marked, or the cluster could last be told."""
        times = [time for time in (pod.condemned_at, self.cut_since(member.name)) if time is not None]
        return min(times, default=None)

    def _least(self, member: Member, pod: Pod) -> int:
        """How many must be available when a member takes a pod."""
        spec = member.spec
        least = self.limits.least_available
        too_many = spec is not None and sum(pod.available for pod in member.pods) >= spec.replicas
        if spec is None or not (too_many or self.cut_since(member.name) is not None):
            return least
        return min([least, *(earlier for first, earlier in self.earlier if member.decided_by(pod) < first)])

    def _note(self, text: str, by: int, decided: float | None = None) -> None:
        text = f"{self.clock():.2f} {text}"
        self.strict.append(text)
        if -by > len(self._deaths_since(decided)):
            self.excused.append(text)

    def _deaths_since(self, decided: float | None = None) -> list[str]:
        """Where pods died of which nobody can have known in time when it was decided: now, or when a pod was marked."""
        first = (self.clock() if decided is None else decided) - self.loop
        # Nor of those in a cluster of which nothing is heard.
        return [name for moment, name in self.deaths if moment >= first or self._is_unheard(moment, name)]

    def _is_unheard(self, moment: float, name: str) -> bool:
        since = self.cut_since(name)
        # A report that was on its way when the cluster was cut off did not arrive.
        return since is not None and moment >= since - self.loop

    def _undershot(self, member: Member) -> int:
        """By how much a Deployment is below its own limit, by a race of its own: neither by a pause nor by a resize.

        With several ReplicaSets and statuses that lag, the native controller takes more than it should. It owes that
        until its pods are back, whatever it is sent meanwhile.
        """
        if not isinstance(member, Deployment) or member.raced is None or member.spec is None:
            return 0
        lost = self._deaths_since().count(member.name)
        least = min(member.raced, member.spec.least)
        if member.committed + lost >= least:
            member.raced = None
        return max(0, least - lost - sum(pod.available for pod in member.pods))


def _surely_available(member: Member, heard: float) -> int:
    marked = [pod.condemned_at for pod in member.pods if pod.available]
    stay = sum(moment is None or moment > heard for moment in marked)
    return min(stay, member.spec.replicas) if member.spec is not None else 0
