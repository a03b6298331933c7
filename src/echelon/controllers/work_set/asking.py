"""Asks the server where caches cannot tell how old they are.

A cache that hears nothing may be up to date or behind, and learns which of both about once a minute. Nobody wants to
wait a minute for the end of a work whose cluster was deselected. A list that names no version is answered with what is
committed when it is asked, so one such list of a placement's decisions tells what a cache alone does not: whether it
has everything. The same goes for reading one object.

What was answered is a fact with a version, for the next plan to look at. Nothing is asked that nobody waits for, of one
set one question at a time, and more and more seldom while the answers do not help.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from echelon.api.keys import Key
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.api.versions import newer
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.engine.placement.current import PLACEMENT_LABEL
from echelon.kube.client import Reader
from echelon.kube.errors import ApiError, NotFound
from echelon.kube.queue import WorkQueue

AT_ONCE = 4
FIRST_SECONDS, LAST_SECONDS = 0.5, 30.0  # between two questions about one set
ANSWER_SECONDS = 30.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Answer:
    """What the server has of a set, its placements and their decisions; all of it at least as new as a version."""

    resource_version: str
    asked: float  # when, in the time of the event loop
    generation: int  # of the set
    placements: Mapping[str, str] = field(default_factory=dict)  # version by name; empty if it does not exist
    decisions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # by placement: version by name


@dataclass
class _Question:
    placements: tuple[str, ...]
    due: float
    answered: float = float("-inf")
    wait: float = FIRST_SECONDS


class Asking:
    """Questions about sets, and their answers. `run` it for as long as there may be questions."""

    def __init__(self, reader: Reader, random: Random, answered: Callable[[Key], None]) -> None:
        self._reader = reader
        self._queue: WorkQueue[Key] = WorkQueue(random, first_retry=FIRST_SECONDS, last_retry=LAST_SECONDS)
        self._tell = answered
        self._questions: dict[Key, _Question] = {}
        self._answers: dict[Key, Answer] = {}
        self._troubles: dict[Key, str] = {}

    def want(self, key: Key, placements: Sequence[str], due: float) -> None:
        """Ask about a set and its placements, not before a time of the event loop."""
        question = self._questions.setdefault(key, _Question(tuple(placements), due))
        question.placements = tuple(placements)
        question.due = max(due, question.answered + question.wait)
        if not self._queue.failures(key):  # else it is tried again already
            self._queue.add(key, after=max(question.due - asyncio.get_running_loop().time(), 0.0))

    def answer(self, key: Key) -> Answer | None:
        """Return the last answer about a set."""
        return self._answers.get(key)

    def trouble(self, key: Key) -> str:
        """Return why there is no answer, if the server was asked in vain."""
        return self._troubles.get(key, "")

    def changed(self, key: Key) -> None:
        """Hear that something about a set changed, so that another answer may help."""
        if (question := self._questions.get(key)) is not None:
            question.wait = FIRST_SECONDS

    def forget(self, key: Key) -> None:
        """Let go of a set that is gone."""
        self._questions.pop(key, None)
        self._answers.pop(key, None)
        self._troubles.pop(key, None)
        self._queue.forget(key)

    async def run(self) -> None:
        """Ask until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(AT_ONCE):
                group.create_task(self._work(), name=f"asking {number}")

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            try:
                await self._turn(key)
            finally:
                self._queue.done(key)

    async def _turn(self, key: Key) -> None:
        question = self._questions.get(key)
        if question is None:
            return
        early = question.due - asyncio.get_running_loop().time()
        if early > 0:
            self._queue.add(key, after=early)
            return
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await self._ask(key, question.placements)
        except (ApiError, TimeoutError) as error:
            self._troubles[key] = str(error) or f"no answer within {ANSWER_SECONDS:g} s"
            wait = self._queue.retry(key)
            _log.warning("%s: decisions could not be read, next try in %.1f s: %r", key, wait, error)
        else:
            self._troubles.pop(key, None)
            self._queue.forget(key)
            question.answered = asyncio.get_running_loop().time()
            question.wait = min(question.wait * 2, LAST_SECONDS)
            self._answers[key] = answer
        self._tell(key)

    async def _ask(self, key: Key, names: Sequence[str]) -> Answer:
        """Ask for lists first: they tell a version, and whatever is read after them is as new as that."""
        asked = asyncio.get_running_loop().time()
        decisions: dict[str, dict[str, str]] = {}
        version = ""
        for name in names:
            page = await self._reader.list(PLACEMENT_DECISION, key.namespace, labels=f"{PLACEMENT_LABEL}={name}")
            decisions[name] = {each.metadata.name: each.metadata.resource_version for each in page.items}
            if not version or newer(version, page.resource_version):
                version = page.resource_version
        placements = {name: await self._placement(name, key.namespace) for name in names}
        work_set = await self._reader.get(MANIFEST_WORK_REPLICA_SET.untyped(), key.name, key.namespace)
        return Answer(version, asked, work_set["metadata"].get("generation", 0), placements, decisions)

    async def _placement(self, name: str, namespace: str) -> str:
        try:
            return (await self._reader.get(PLACEMENT, name, namespace)).metadata.resource_version
        except NotFound:
            return ""
