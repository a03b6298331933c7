"""Reads sets and the pods of their cliques past the caches, where pods are to be made.

The cache of pods may have come further than that of sets. Then somebody may have edited the set before a pod went, and
its successor would be one of the old template. A list of the one set is answered with its version: if that is not
before the end of the pod, so is the set that it has. And a process that has just begun may have listed pods from a
replica that lags, where those are missing that its predecessor made last: the pods of a clique are listed once more,
after a write of this process. A replica that lags gives itself away by its version, and is asked again.

Nothing is asked that nobody waits for, of one set one question at a time, and more and more seldom while the answers do
not help.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from echelon.api.base import JSONObject
from echelon.api.core import POD
from echelon.api.grove import POD_CLIQUE_SET
from echelon.api.keys import Key
from echelon.api.versions import newer
from echelon.controllers.pod_clique.ownership import owner_of, uid_of, version_of
from echelon.engine.pod_clique.names import CLIQUE
from echelon.kube.client import Reader
from echelon.kube.errors import ApiError, Unavailable
from echelon.kube.informer import Informer
from echelon.kube.queue import WorkQueue
from echelon.kube.serving import serve

AT_ONCE = 4
FIRST_SECONDS, LAST_SECONDS = 0.1, 15.0  # before a read that did not help is made again
ANSWER_SECONDS = 30.0
NAMED_AT_ONCE = 50  # cliques whose pods are listed by one request

_SET, _POD = POD_CLIQUE_SET.untyped(), POD.untyped()
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Answer:
    """A set as the server had it: at which version that was asked, of which version it was, and pods of cliques."""

    at: str
    version: str  # empty if there was none
    pods: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # by the uid of the clique: uids by name


@dataclass(frozen=True)
class _Wanted:
    """From which version on an answer helps, and the cliques whose pods are to be listed, uids by name."""

    since: str
    cliques: Mapping[str, str]


class SetReader:
    """Reads sets past their cache. `run` it while there are requests."""

    def __init__(
        self,
        reader: Reader,
        sets: Informer[JSONObject],
        *,
        random: Random,
        on_answer: Callable[[Key, Answer], None],
    ) -> None:
        self._reader = reader
        self._sets = sets
        self._queue: WorkQueue[Key] = WorkQueue(random, first_retry=FIRST_SECONDS, last_retry=LAST_SECONDS)
        self._on_answer = on_answer
        self._wanted: dict[Key, _Wanted] = {}
        self._answers: dict[Key, Answer] = {}
        self._asked: dict[Key, _Wanted] = {}  # what the last answer was an answer to
        self._era = 0

    def is_read(self, key: Key, since: str) -> bool:
        """Whether the cache has a set as it was at a version, or later."""
        self._see_era()
        if not since.isdigit() or not newer(since, self._sets.reached):  # other versions tell nothing of an order
            return True
        answer = self._answers.get(key)
        if answer is None or newer(since, answer.at) or not answer.version:
            return False
        return not newer(answer.version, self._sets.seen(key))

    def request(self, key: Key, since: str, cliques: Mapping[str, str]) -> None:
        """Read a set, and the pods of cliques, as they are at a version or later.

        Nothing is read if that was done, and the cache has yet to show it.
        """
        self._see_era()
        answer, wanted = self._answers.get(key), _Wanted(since, cliques)
        if answer is not None and not newer(since, answer.at) and not cliques:
            return
        # After answers that did not help, tries are still counted; another question has to be asked all the same.
        under_way = key in self._wanted
        self._wanted[key] = wanted
        if self._asked.get(key) == wanted:  # the answer has not helped, or not yet
            self._queue.retry(key)
        elif not (under_way and self._queue.failures(key)):  # else it is tried again already
            self._queue.add(key)

    def forget(self, key: Key) -> None:
        """Let go of a set that is gone."""
        for known in (self._wanted, self._answers, self._asked):
            known.pop(key, None)
        self._queue.forget(key)

    def _see_era(self) -> None:
        if self._era != self._sets.went_back:
            self._era = self._sets.went_back
            self._answers.clear()

    async def run(self) -> None:
        """Read what is requested until cancelled."""
        await serve(self._queue, self._serve, workers=AT_ONCE, name="reads of sets")

    async def _serve(self, key: Key) -> None:
        wanted = self._wanted.get(key)
        if wanted is None:
            return
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await self._read(key, wanted)
        except (ApiError, OSError, TimeoutError) as error:
            if key in self._wanted:
                wait = self._queue.retry(key)
                _log.warning("%s: the set could not be read, next try in %.1f s: %r", key, wait, error)
            return
        if key not in self._wanted:
            return  # the set is gone
        if self._asked.get(key) != wanted:
            self._queue.forget(key)
        self._asked[key], self._answers[key] = wanted, answer
        if self._wanted[key] == wanted:
            del self._wanted[key]
        else:
            self._queue.add(key)
        self._on_answer(key, answer)

    async def _read(self, key: Key, wanted: _Wanted) -> Answer:
        pods: dict[str, dict[str, str]] = {uid: {} for uid in wanted.cliques.values()}
        cliques = sorted(wanted.cliques)
        for first in range(0, len(cliques), NAMED_AT_ONCE):
            names = cliques[first : first + NAMED_AT_ONCE]
            listed = await self._reader.list(_POD, key.namespace, labels=f"{CLIQUE} in ({','.join(names)})")
            _check(listed.resource_version, wanted.since)
            for each in listed.items:
                owner = owner_of(each)
                if owner is not None and owner.uid in pods:
                    pods[owner.uid][each["metadata"]["name"]] = uid_of(each)
        page = await self._reader.list(_SET, key.namespace, fields=f"metadata.name={key.name}")
        _check(page.resource_version, wanted.since)
        return Answer(page.resource_version, version_of(page.items[0]) if page.items else "", pods)


def _check(version: str, since: str) -> None:
    """Refuse an answer of a replica that lags."""
    if since.isdigit() and newer(since, version):
        raise Unavailable(f"the server answered with version {version}, which is older than {since}")
