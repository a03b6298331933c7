"""The scheduler of a member: pods get nodes, those of a gang together or not at all.

Room is taken before anything is written, as a real scheduler assumes its own decisions, and given back when the index
has seen the write, or when the rest of a gang finds no place. So a gang of thousands is placed in many steps of the
loop, and nobody takes its room between them.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush

from echelon.fleet.member import containers
from echelon.fleet.member.cluster_index import SCHEDULER
from echelon.fleet.member.context import MemberContext
from echelon.fleet.member.decide.gang import Together, together
from echelon.fleet.member.decide.pods import PodView
from echelon.fleet.member.decide.scheduling import Demand, same_but_numbers
from echelon.fleet.member.gang_index import POD_GANGS, Waiting
from echelon.fleet.member.scheduling_queue import Kind, Turn
from echelon.hub.storage.store import Key

_AT_ONCE = 32  # bindings that are written before anybody waits for them
_AGAIN_SECONDS = 1.0
_PRIORITY_CLASSES = "priorityclasses.scheduling.k8s.io"
_BUILT_IN = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


async def sync(context: MemberContext, _key: Key) -> None:
    """Look for nodes for all pods that may find one now."""
    try:
        await _Pass(context).run()
    except Exception:
        context.wake_at(SCHEDULER, context.now() + _AGAIN_SECONDS)  # what was not placed is still in the queue
        raise


class _Pass:
    """One walk over pods and gangs that wait: by priority, then by age. Pods beyond the minimum of a gang come last."""

    def __init__(self, context: MemberContext) -> None:
        self.context = context
        self.index = context.index
        self.room = context.index.room
        self.queue = context.index.queue
        self.gangs = context.index.gangs
        self.nodes_changed = self.queue.nodes_changed
        self.first: list[Turn] = []
        self.last: list[Turn] = []
        self.placed: list[tuple[Key, PodView, str]] = []
        self.said: dict[Demand, str] = {}
        self.hopeless: dict[tuple[tuple[Demand, int], ...], str] = {}
        self.newcomers: dict[Key, list[Key]] = {}  # by gang

    async def run(self) -> None:
        """Walk."""
        self._line_up()
        self.queue.room_came = self.queue.nodes_changed = False
        try:
            while self.first:
                turn = heappop(self.first)
                if turn.key.resource == POD_GANGS:
                    await self._place_gang(turn.key)
                else:
                    await self._place(turn, beyond=False)
                await self.context.breathe()
            while self.last:
                await self._place(heappop(self.last), beyond=True)
                await self.context.breathe()
            await self._bind()
        finally:
            self._give_back()

    def _line_up(self) -> None:
        """Find out whose turn it is; of those that found no node before, the first of each kind will do."""
        queue = self.queue
        for key in tuple(queue.fresh):
            pod = self.index.pod(key)
            if pod is None:
                queue.drop(key)
            elif gang := self.gangs.gang_of(pod):
                self.newcomers.setdefault(gang, []).append(key)
            else:
                self.first.append(self._turn(key, pod))
        gangs = dict.fromkeys(self.newcomers)
        if queue.room_came or queue.nodes_changed:
            gangs.update(dict.fromkeys(self.gangs.waiting))
            for kind, parked in queue.parked.items():
                if queue.nodes_changed:
                    (self.last if kind.beyond else self.first).extend(parked)
                elif self.room.find(kind.demand):
                    (self.last if kind.beyond else self.first).append(parked[0])
        for key in gangs:
            gang_view = self.gangs.gangs[key]
            self.first.append(Turn(-self._priority(gang_view.priority_class), gang_view.order, key))
        heapify(self.first)
        heapify(self.last)

    def _turn(self, key: Key, pod: PodView) -> Turn:
        return Turn(-(pod.priority or self._priority(pod.priority_class)), pod.order, key)

    def _priority(self, name: str) -> int:
        if not name:
            return 0
        found = self.context.writer.latest(Key(_PRIORITY_CLASSES, "", name))
        return int(found.object.get("value") or 0) if found else _BUILT_IN.get(name, 0)

    async def _place(self, turn: Turn, *, beyond: bool) -> None:
        """Find a node for one pod, or say why there is none."""
        key, pod = turn.key, self.index.pod(turn.key)
        if pod is None or not pod.placeable:
            return
        if beyond and not self._has_minimum(pod):
            self._again([key])  # it is needed among those that have to be placed together
            return
        known = self.queue.is_parked(key)
        if node := self.room.find(pod.demand):
            if known and not self.nodes_changed and (later := self.queue.after(Kind(pod.demand, beyond), turn)):
                heappush(self.last if beyond else self.first, later)
            self._take(key, pod, node)
            if len(self.placed) >= _AT_ONCE:
                await self._bind()
            return
        self.queue.park(turn, beyond=beyond)
        if not known or self.nodes_changed:
            why = self.said.get(pod.demand)
            if why is None:
                why = self.said[pod.demand] = self.room.why_not(pod.demand)
            await self._tell(key, why)

    async def _place_gang(self, key: Key) -> None:
        """Find nodes for as many pods as each group of a gang needs, or for none of them."""
        gang = self.gangs.gangs.get(key)
        if gang is None:
            return
        wanted = together(gang, self.gangs.members(key))
        if wanted.missing:
            await self._hold(key, Waiting(f"pod gang {key.name} is not complete: {wanted.missing}", wanted))
            return
        pods = [(each, pod) for each in wanted.pods if (pod := self.index.pod(each)) is not None]
        kind = tuple(Counter(pod.demand for _, pod in pods).items())
        why = self.hopeless.get(kind) or await self._take_all(pods)
        if why:
            self.hopeless[kind] = why
            why = f"pod gang {key.name} needs nodes for {len(pods)} pods at once: {why}"
            await self._hold(key, Waiting(why, wanted))
            return
        waited = self.gangs.waiting.pop(key, None) is not None
        if waited:
            self.context.wake(key)
        if together(gang, self.gangs.members(key)) == Together():
            self._line_up_beyond(self._pending(key) if waited or pods else self.newcomers.get(key, ()))

    def _has_minimum(self, pod: PodView) -> bool:
        key = self.gangs.gang_of(pod)
        return key is None or together(self.gangs.gangs[key], self.gangs.members(key)) == Together()

    def _line_up_beyond(self, keys: Iterable[Key]) -> None:
        """Let pods of a gang that has its minimum have their turns. Those that found no node before have theirs."""
        for key in keys:
            pod = self.index.pod(key)
            if pod is not None and pod.placeable and not self.queue.is_parked(key):
                heappush(self.last, self._turn(key, pod))

    def _pending(self, gang: Key) -> list[Key]:
        return [key for members in self.gangs.members(gang).values() for key in members.pending]

    async def _take_all(self, pods: Sequence[tuple[Key, PodView]]) -> str:
        """Take room for pods, or say why there is not enough. Nothing is written before there is."""
        await self._bind()
        try:
            for key, pod in pods:
                node = self.room.find(pod.demand)
                if not node:
                    return self.room.why_not(pod.demand)
                self._take(key, pod, node)
                await self.context.breathe()
            for each in self.placed:
                if not self._still(*each):
                    self._again(key for key, _ in pods)  # the world has changed meanwhile
                    return ""
                await self.context.breathe()
            await self._bind()
            return ""
        finally:
            self._give_back()

    async def _hold(self, gang: Key, waiting: Waiting) -> None:
        """Let a gang wait. Those of its pods hear why that have not heard something like it."""
        before = self.gangs.waiting.get(gang)
        self.gangs.waiting[gang] = waiting
        news = before is None or not same_but_numbers(before.why, waiting.why)
        if news:
            self.context.wake(gang)
        listeners = self.newcomers.get(gang, [])
        if news:
            listeners = self._pending(gang)
        for key in listeners:
            self.queue.set_aside(key)
            await self._tell(key, waiting.why)
            await self.context.breathe()

    def _take(self, key: Key, pod: PodView, node: str) -> None:
        self.room.take(node, pod.demand.requests)
        self.placed.append((key, pod, node))

    def _give_back(self) -> None:
        for _, pod, node in self.placed:
            self.room.take(node, pod.demand.requests, -1)
        self.placed.clear()

    def _still(self, key: Key, pod: PodView, node: str) -> bool:
        now = self.index.pod(key)
        return now is not None and now.placeable and now.uid == pod.uid and self.room.fits(pod.demand, node)

    def _again(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self.queue.renew(key)
        self.context.wake(SCHEDULER)

    async def _bind(self) -> None:
        """Write what was decided."""
        context, store = self.context, self.context.cluster.store
        while self.placed:
            now, some = context.cluster.timestamp(), self.placed[:_AT_ONCE]
            writes = []
            for each in some:
                key, _, node = each
                entry = context.writer.latest(key)
                if entry is None or not self._still(*each):
                    self._again([key])
                    continue
                new = {**entry.object, "spec": {**entry.object["spec"], "nodeName": node}}
                status = containers.scheduled(new, node, now)
                writes.append(store.put(key, {**new, "status": status}, expected=entry.revision))
            for write in writes:
                await write
            for _, pod, node in some:
                self.room.take(node, pod.demand.requests, -1)
            del self.placed[: len(some)]
            await context.breathe(len(some))

    async def _tell(self, key: Key, why: str) -> None:
        entry, pod = self.context.writer.latest(key), self.index.pod(key)
        if entry is None or pod is None or not pod.placeable:
            return
        status = containers.unschedulable(entry.object, why, self.context.cluster.timestamp())
        if status != entry.object.get("status"):
            await self.context.writer.replace(entry, status=status)
