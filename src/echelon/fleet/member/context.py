"""What every controller of a member works with: the cluster, what is known of it, time, chance, and a queue.

All of them share one queue. Pods and ReplicaSets go before Deployments, so that a Deployment decides on what its
ReplicaSets have come to.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from random import Random

from echelon.fleet.member.cluster_index import DEPLOYMENTS, NODES, PODS, SCHEDULER, ClusterIndex
from echelon.fleet.member.decide.deployment_status import Moment
from echelon.fleet.member.decide.news import News
from echelon.fleet.member.decide.scheduling import Taint
from echelon.fleet.member.journal import JOURNAL, Journal
from echelon.fleet.member.profile import Profile
from echelon.fleet.member.timers import Timers
from echelon.fleet.member.writing import Writer
from echelon.hub.cluster import LogicalCluster
from echelon.hub.storage.store import Key

_RANK = {PODS: 0, NODES: 0, SCHEDULER.resource: 0, DEPLOYMENTS: 2, JOURNAL.resource: 2}  # everything else in between
# A stamp has whole seconds, and clocks are not exact: look a little later than something is due.
_LATER = 0.001
_MOST_HEARD = 256
_CROWD = 500  # pods from which on a workload is looked at only so often: each look is at all of them
_REST_SECONDS = 0.1
_STRIDE = 32  # objects that are seen to before others get a turn


class PodTimers:
    """Which step each pod awaits, and which have come due; by uid."""

    __slots__ = ("attempts", "awaited", "due")

    def __init__(self) -> None:
        self.awaited: dict[str, str] = {}
        self.due: dict[str, str] = {}
        self.attempts: dict[str, int] = {}

    def forget(self, uid: str) -> None:
        """Drop what is known of a pod."""
        self.awaited.pop(uid, None)
        self.due.pop(uid, None)
        self.attempts.pop(uid, None)


class MemberContext:
    """One member, from inside. `woken` is called whenever there is something to look at."""

    def __init__(self, profile: Profile, cluster: LogicalCluster, timers: Timers, woken: Callable[[], None]) -> None:
        self.profile = profile
        self.cluster = cluster
        self.timers = timers
        self.script = profile.script
        self.random = Random(f"{profile.seed} {profile.name}")  # noqa: S311 - repeatable on purpose
        self.writer = Writer(cluster)
        self.index = ClusterIndex()
        self.journal = Journal(cluster, only_warnings=profile.brief)
        self.pod_timers = PodTimers()
        self.node_orders: dict[str, bool] = {}  # nodes that the script takes down, or brings back, now
        self.tainted: dict[tuple[str, Taint], float] = {}  # since when taints without a time are there
        self.began = 0.0  # by the loop's clock
        self._woken = woken
        self._strides = 0
        self._dirty: tuple[dict[Key, None], ...] = ({}, {}, {})
        self._alarms: dict[Key, float] = {}
        self._looked: dict[Key, float] = {}  # when workloads with a crowd of pods were looked at
        self._heard: dict[Key, tuple[int, float]] = {}  # when controllers hear of a generation

    def elapsed(self) -> float:
        """Return the seconds since the start, which is what troubles are told in."""
        return asyncio.get_running_loop().time() - self.began

    def now(self) -> float:
        """Return the seconds since 1970."""
        return self.cluster.clock().timestamp()

    def moment(self) -> Moment:
        """Return the present moment, with the way in which it is written."""
        return Moment(self.now(), self.cluster.timestamp())

    async def breathe(self, strides: int = 1) -> None:
        """Let others have a turn, once in a while: a store in memory never makes anybody wait."""
        self._strides += strides
        if self._strides >= _STRIDE:
            self._strides = 0
            await asyncio.sleep(0)

    def tell(self, happened: Iterable[News]) -> None:
        """Report something that no change shows."""
        if self.journal.tell(happened):
            self.wake(JOURNAL)

    def wake(self, key: Key) -> None:
        """Look at an object soon."""
        self._dirty[_RANK.get(key.resource, 1)][key] = None
        self._woken()

    def wake_at(self, key: Key, moment: float) -> None:
        """Look at an object at a moment, in seconds since 1970."""
        standing = self._alarms.get(key)
        if standing is None or moment < standing:
            self._alarms[key] = moment
            self.timers.after(max(0.0, moment - self.now()) + _LATER, partial(self._ring, key, moment))

    def must_rest(self, key: Key) -> bool:
        """Tell whether a workload was looked at just now and has too many pods for that; then it is woken later."""
        entry = self.writer.latest(key)
        if entry is None or self.index.count_of(entry.object["metadata"]["uid"]) < _CROWD:
            self._looked.pop(key, None)
            return False
        now = self.now()
        due = self._looked.get(key, now) + _REST_SECONDS
        if key in self._looked and now < due:
            self.wake_at(key, due)
            return True
        self._looked[key] = now
        return False

    def heard_at(self, key: Key, generation: int, lag: float) -> float:
        """Return when a controller that is up to so many seconds behind hears of a generation of an object."""
        known = self._heard.get(key)
        if known is None or known[0] != generation:
            known = self._heard[key] = (generation, self.now() + self.random.uniform(0, lag))
            if len(self._heard) > _MOST_HEARD:
                del self._heard[next(iter(self._heard))]
        return known[1]

    def next(self) -> Key | None:
        """Take what is to be looked at next."""
        for dirty in self._dirty:
            for key in dirty:
                del dirty[key]
                return key
        return None

    def clear(self) -> None:
        """Forget what was to be looked at."""
        for dirty in self._dirty:
            dirty.clear()

    def _ring(self, key: Key, moment: float) -> None:
        if self._alarms.get(key) == moment:
            del self._alarms[key]
        self.wake(key)
