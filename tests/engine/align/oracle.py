"""Counts pods as they come and go, and says when a controller did what the budgets forbid. It never asks the engine.

A violation is voluntary: a controller took an available pod, made one or updated one, and right after that the global
state was outside the limit. They are counted strictly, and with excuses: a removal is excused up to the number of pods
that died by themselves within one loop before it, since nobody can know of those in time. Where budget is reclaimed
instead of everything being frozen, what is taken back is paid by pods that have yet to come up, which is waited for.

When somebody changes a limit, a looser one holds at once. A tighter one cannot hold before it has been heard of, nor
before it was reached for the first time: from then on it does.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tests.engine.align.members import Deployment, Member, Pod


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
    most_promised: Callable[[], int]
    loop: float  # one full loop: status, plan, push, sync
    back: float  # how long a pod takes that has to come up before what was taken back is there
    limits: Limits
    pending: tuple[float, Limits] | None = None  # from when it can have been heard of, and what
    members: list[Member] = field(default_factory=list)
    deaths: list[tuple[float, str]] = field(default_factory=list)
    strict: list[str] = field(default_factory=list)
    excused: list[str] = field(default_factory=list)
    races: list[str] = field(default_factory=list)
    repairs: list[str] = field(default_factory=list)
    repairing_until: float = -1.0  # broken clusters mend themselves, as the last resort
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
        del member
        self.events += 1
        self._tighten()
        now = self.available
        if not available or now >= self.limits.least_available:
            return
        text = f"took {pod.name}: {now} available, and at least {self.limits.least_available} should be"
        # A member that went below its own limit did so by itself; what it owes is not charged to others.
        excess = sum(self._undershot(each) for each in self.members)
        if self.clock() <= self.repairing_until:
            self.repairs.append(f"{self.clock():.2f} {text}")
        elif now + excess >= self.limits.least_available:
            self.races.append(f"{self.clock():.2f} {text}")
        else:
            self._note(text, now + excess - self.limits.least_available, pod.condemned_at)

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
        looser = None
        if limits.most_updated is not None and before.most_updated is not None:
            looser = max(before.most_updated, limits.most_updated)
        self.limits = Limits(
            min(before.least_available, limits.least_available), max(before.most_pods, limits.most_pods), looser
        )
        self.pending = (self.clock() + self.loop + self.back, limits)
        self._tighten()

    def change_template(self) -> None:
        """Which pods are updated changed: the limit on them has to be reached anew."""
        self.limits = replace(self.limits, most_updated=None)

    def _tighten(self) -> None:
        """Let a tighter limit hold from when it was reached: by the pods, and by all that is on its way."""
        if self.pending is None:
            return
        heard, wanted = self.pending
        floor, ceiling, updated = self.limits.least_available, self.limits.most_pods, self.limits.most_updated
        if self.clock() >= heard and self.available >= wanted.least_available:
            floor = wanted.least_available
        if self.most_granted() <= wanted.most_pods:
            ceiling = wanted.most_pods
        if wanted.most_updated is not None and max(self.updated, self.most_promised()) <= wanted.most_updated:
            updated = wanted.most_updated
        self.limits = Limits(floor, ceiling, updated)
        if self.limits == wanted:
            self.pending = None

    def _note(self, text: str, by: int, decided: float | None = None) -> None:
        text = f"{self.clock():.2f} {text}"
        self.strict.append(text)
        if -by > len(self._deaths_since(decided)):
            self.excused.append(text)

    def _deaths_since(self, decided: float | None = None) -> list[str]:
        """Where pods died of which nobody can have known in time when it was decided: now, or when a pod was marked."""
        first = (self.clock() if decided is None else decided) - self.loop - self.back
        return [name for moment, name in self.deaths if moment >= first]

    def _undershot(self, member: Member) -> int:
        """By how much a Deployment is below its own limit, by a race of its own: neither by a pause nor by a resize.

        With several old ReplicaSets and statuses that lag, the native controller takes more than it should.
        """
        if not isinstance(member, Deployment):
            return 0
        spec, recent = member.spec, member.recent
        if spec is None or any(each.paused or each.replicas != spec.replicas for each in recent):
            return 0
        lost = self._deaths_since().count(member.name)
        return max(0, min(each.least for each in recent) - sum(pod.available for pod in member.pods) - lost)
