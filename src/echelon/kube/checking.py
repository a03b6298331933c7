"""Checks of what reconcilers promise: that a plan follows from what was observed, and that indexes follow the caches.

A plan that changes when it is made again depends on something that nobody observed, and an index that events keep up
to date is only as good as the handlers: one that failed once would leave it wrong for ever. So indexes are compared
with what the caches say, soon after a handler failed and from time to time. In tests both checks are strict: a
difference ends the controller, and with it the world that is simulated.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import fields
from datetime import datetime
from itertools import zip_longest
from random import Random
from typing import TypeAlias

from echelon.api.keys import Key
from echelon.engine.plan import Plan
from echelon.kube.metrics import Metrics
from echelon.kube.reconciler import Reconciler

VERIFY_SECONDS = 1800.0
STRICT_VERIFY_SECONDS = 30.0
AFTER_FAILURE_SECONDS = 1.0
_NAMED = 5

Verify: TypeAlias = Callable[[], Iterable[str | None]]

_log = logging.getLogger(__name__)


class PlansDiffer(AssertionError):
    """A plan was made twice, and there are two plans."""


class IndexesDiffer(AssertionError):
    """An index is not what the caches say."""


def plan_twice(reconciler: Reconciler, key: Key, now: datetime) -> Plan:
    """Plan a key; raise `PlansDiffer` if planning it again, with nothing done in between, gives another plan."""
    first, second = reconciler.plan(key, now), reconciler.plan(key, now)
    if first == second:
        return first
    raise PlansDiffer(f"{key} was planned twice: " + "; ".join(_differences(first, second)))


def _differences(first: Plan, second: Plan) -> Iterable[str]:
    for number, (one, other) in enumerate(zip_longest(first.actions, second.actions)):
        if one != other:
            yield f"action {number} is {one}, then {other}"
            break
    if type(first) is not type(second):
        yield f"it is a {type(first).__name__}, then a {type(second).__name__}"
        return
    for field in fields(first):
        one, other = getattr(first, field.name), getattr(second, field.name)
        if field.compare and field.name != "actions" and one != other:
            yield f"{field.name} is {one}, then {other}"


class IndexCheck:
    """Has the indexes of a controller compared with its caches, for as long as it runs."""

    def __init__(
        self,
        controller: str,
        verify: Verify,
        *,
        metrics: Metrics,
        random: Random,
        seconds: float,
        strict: bool,
    ) -> None:
        """`verify` yields each difference that it found, and None whenever others may have their turn on the loop."""
        self._controller = controller
        self._verify = verify
        self._differences = metrics.index_differences.labels(controller)
        self._random = random
        self._seconds = min(seconds or VERIFY_SECONDS, STRICT_VERIFY_SECONDS if strict else VERIFY_SECONDS)
        self._strict = strict
        self._suspicious = asyncio.Event()

    def suspect(self) -> None:
        """Have them compared soon: a handler has failed."""
        self._suspicious.set()

    async def run(self, repair: Callable[[], Awaitable[None]]) -> None:
        """Compare until cancelled. `repair` is called after differences were found."""
        while True:
            try:
                async with asyncio.timeout(self._seconds * self._random.uniform(0.9, 1.1)):
                    await self._suspicious.wait()
                if self._strict:
                    raise IndexesDiffer(f"{self._controller}: a handler failed")
                await asyncio.sleep(AFTER_FAILURE_SECONDS)  # with the next ones, should they fail too
            except TimeoutError:
                pass
            self._suspicious.clear()
            if found := [each async for each in self._compared()]:
                self._tell(found)
                await repair()

    async def _compared(self) -> AsyncIterator[str]:
        for difference in self._verify():
            if difference is None:
                await asyncio.sleep(0)
            else:
                yield difference

    def _tell(self, found: list[str]) -> None:
        self._differences.inc(len(found))
        more = f", and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        text = f"{self._controller}: indexes were not what the caches say: {'; '.join(found[:_NAMED])}{more}"
        _log.error("%s", text, extra={"controller": self._controller})
        if self._strict:
            raise IndexesDiffer(text)
