"""What every controller of a member works with: the cluster, what is known of it, time, chance, and a queue.

All of them share one queue. Pods and ReplicaSets go before Deployments, so that a Deployment decides on what its
ReplicaSets have come to.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from random import Random

from echelon.fleet.member.cluster_index import DEPLOYMENTS, NODES, PODS, ClusterIndex
from echelon.fleet.member.decide.deployment_status import Moment
from echelon.fleet.member.profile import Profile
from echelon.fleet.member.timers import Timers
from echelon.fleet.member.writing import Writer
from echelon.hub.cluster import LogicalCluster
from echelon.hub.storage.store import Key

_RANK = {PODS: 0, NODES: 0, DEPLOYMENTS: 2}  # everything else in between
# A stamp has whole seconds, and clocks are not exact: look a little later than something is due.
_LATER = 0.001


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
        self.pod_timers = PodTimers()
        self.began = 0.0  # by the loop's clock
        self._woken = woken
        self._dirty: tuple[dict[Key, None], ...] = ({}, {}, {})
        self._alarms: dict[Key, float] = {}

    def elapsed(self) -> float:
        """Return the seconds since the start, which is what troubles are told in."""
        return asyncio.get_running_loop().time() - self.began

    def now(self) -> float:
        """Return the seconds since 1970."""
        return self.cluster.clock().timestamp()

    def moment(self) -> Moment:
        """Return the present moment, with the way in which it is written."""
        return Moment(self.now(), self.cluster.timestamp())

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
