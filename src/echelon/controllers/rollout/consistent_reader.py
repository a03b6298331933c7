"""Asks the server where caches cannot tell how old they are.

A cache that hears nothing may be up to date or behind, and learns which of both about once a minute. Nobody wants to
wait a minute for the end of what a deselected cluster holds. A list that names no version is answered with what is
committed when it is asked, so one such list of a placement's decisions tells what a cache alone does not: whether it
has everything. The same goes for a list of one object. A replica that lags answers with less, and gives itself away
where a cache has come further: such an answer is none.

What was answered is a fact with a version, for the next plan to look at. Nothing is asked that nobody waits for, of one
object one question at a time, and more and more seldom while the answers do not help.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.api.versions import newer
from echelon.engine.placement.current import PLACEMENT_LABEL
from echelon.engine.plan import ReadRequest
from echelon.engine.rollout.decisions import ConsistentRead
from echelon.kube.client import Reader
from echelon.kube.clock import Clock
from echelon.kube.errors import ApiError, NotFound, Unavailable
from echelon.kube.freshness import Followed
from echelon.kube.queue import WorkQueue
from echelon.kube.serving import serve

AT_ONCE = 4
FIRST_SECONDS, LAST_SECONDS = 0.5, 30.0  # between two reads for one object
ANSWER_SECONDS = 30.0

_log = logging.getLogger(__name__)


@dataclass
class _Pending:
    """What is to be read for an object, and when; in the time of the event loop."""

    placements: tuple[str, ...]
    due: float
    answered: float = -math.inf
    wait: float = FIRST_SECONDS


class ConsistentReader:
    """Reads objects with their placements and decisions past the caches. `run` it while there are requests."""

    def __init__(
        self,
        kind: Kind[Any],
        reader: Reader,
        caches: Sequence[Followed],
        *,
        clock: Clock,
        random: Random,
        on_answer: Callable[[Key], None],
        beside: Sequence[Kind[Any]] = (),
    ) -> None:
        """`caches` are of the same server; `beside` are further kinds that say which clusters are meant."""
        self._kind = kind.untyped()
        self._beside = tuple(each.untyped() for each in beside)
        self._reader = reader
        self._caches = tuple(caches)
        self._clock = clock
        self._queue: WorkQueue[Key] = WorkQueue(random, first_retry=FIRST_SECONDS, last_retry=LAST_SECONDS)
        self._on_answer = on_answer
        self._pending: dict[Key, _Pending] = {}
        self._answers: dict[Key, ConsistentRead] = {}
        self._errors: dict[Key, str] = {}

    def request(self, key: Key, request: ReadRequest) -> None:
        """Read an object and the placements of these names, as soon as that helps and not too often."""
        now = asyncio.get_running_loop().time()
        early = (request.not_before - self._clock.now()).total_seconds() if request.not_before is not None else 0.0
        pending = self._pending.setdefault(key, _Pending(request.names, now))
        pending.placements = request.names
        pending.due = max(now + early, pending.answered + pending.wait)
        if not self._queue.failures(key):  # else it is tried again already
            self._queue.add(key, after=max(pending.due - now, 0.0))

    def answer(self, key: Key) -> ConsistentRead | None:
        """Return what was last read for an object."""
        return self._answers.get(key)

    def error(self, key: Key) -> str:
        """Return why the last request has no answer, if the server was asked in vain."""
        return self._errors.get(key, "")

    def changed(self, key: Key) -> None:
        """Hear that something about an object changed, so that another answer may help."""
        if (pending := self._pending.get(key)) is not None:
            pending.wait = FIRST_SECONDS

    def forget(self, key: Key) -> None:
        """Let go of an object that is gone."""
        self._pending.pop(key, None)
        self._answers.pop(key, None)
        self._errors.pop(key, None)
        self._queue.forget(key)

    async def run(self) -> None:
        """Read what is requested until cancelled."""
        await serve(self._queue, self._serve, workers=AT_ONCE, name="consistent reads")

    async def _serve(self, key: Key) -> None:
        pending = self._pending.get(key)
        if pending is None:
            return
        early = pending.due - asyncio.get_running_loop().time()
        if early > 0:
            self._queue.add(key, after=early)
            return
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await self._read(key, pending.placements)
        except (ApiError, TimeoutError) as error:
            if self._pending.get(key) is not pending:  # the object is gone
                return
            self._errors[key] = str(error) or f"no answer within {ANSWER_SECONDS:g} s"
            wait = self._queue.retry(key)
            _log.warning("%s: decisions could not be read, next try in %.1f s: %r", key, wait, error)
        else:
            if self._pending.get(key) is not pending:
                return
            self._errors.pop(key, None)
            self._queue.forget(key)
            pending.answered = asyncio.get_running_loop().time()
            pending.wait = min(pending.wait * 2, LAST_SECONDS)
            self._answers[key] = answer
        self._on_answer(key)

    async def _read(self, key: Key, names: Sequence[str]) -> ConsistentRead:
        """Ask for lists first: they tell a version, and whatever is read after them is as new as that."""
        asked, reached = self._clock.now(), [each.reached for each in self._caches]
        decisions: dict[str, dict[str, str]] = {}
        others: dict[str, dict[str, str]] = {}
        versions: list[str] = []
        for kind in self._beside:
            listed = await self._reader.list(kind, key.namespace)
            others[kind.resource] = {
                each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in listed.items
            }
            versions.append(listed.resource_version)
        for name in names:
            page = await self._reader.list(PLACEMENT_DECISION, key.namespace, labels=f"{PLACEMENT_LABEL}={name}")
            decisions[name] = {each.metadata.name: each.metadata.resource_version for each in page.items}
            versions.append(page.resource_version)
        placements = {name: await self._placement(name, key.namespace) for name in names}
        # The object as a list, too: one object alone does not tell how new the answer is, and not all name a placement.
        itself = await self._reader.list(self._kind, key.namespace, fields=f"metadata.name={key.name}")
        versions.append(itself.resource_version)
        version = versions[0]
        for each in versions:
            version = each if newer(version, each) else version
        if any(each.isdigit() and newer(each, version) for each in reached):
            raise Unavailable(f"the server answered with version {version}, which is older than what is known")
        if not itself.items:
            raise NotFound(f"there is no {self._kind.kind} {key.name} in namespace {key.namespace}")
        generation = itself.items[0]["metadata"].get("generation", 0)
        return ConsistentRead(version, asked, generation, placements, decisions, others)

    async def _placement(self, name: str, namespace: str) -> str:
        try:
            return (await self._reader.get(PLACEMENT, name, namespace)).metadata.resource_version
        except NotFound:
            return ""
