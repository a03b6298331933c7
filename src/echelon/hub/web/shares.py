"""Who is served next, when more is asked than can be done at once.

Everything that the hub does for the network is done by one event loop, so a user who asks a thousand things at a time
would have everybody else wait for a thousand answers. Here nobody has more than a share of the places; whoever waits
for one waits behind his own requests only, users take turns, and of one user one request begins in each round of the
loop.
What does not find a place in time is refused with the word that it may be sent again: nothing of it was looked at.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from echelon.kube.errors import TooManyRequests

_RETRY_SECONDS = 1


class Shares:
    """Places for requests: so many in all, so many for each user, and so many more of each user that may wait."""

    def __init__(self, total: float, each: int, *, waiting: int, patience: float) -> None:
        self._total = total
        self._each = each
        self._most = each + waiting
        self._patience = patience
        self._taken: Counter[str] = Counter()
        self.taken = 0  # by all together
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = (
            OrderedDict()
        )  # users in the order of their turns
        self._begun: set[str] = set()  # in this round
        self._announced = False

    @asynccontextmanager
    async def place(self, user: str) -> AsyncIterator[None]:
        """Have a place while the context lasts."""
        await self._take(user)
        try:
            yield
        finally:
            self._end(user)

    async def _take(self, user: str) -> None:
        queue = self._waiting.get(user)
        if not queue and user not in self._begun and self._has_room(user):
            self._begin(user)
            return
        if self._taken[user] + len(queue or ()) >= self._most:
            raise _refused()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(user, deque()).append(turn)
        self._announce()
        try:
            async with asyncio.timeout(self._patience):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():  # the turn and the end of patience came together
                self._end(user)
            else:
                self._leave(user, turn)
            if isinstance(error, TimeoutError):
                raise _refused() from None
            raise

    def _has_room(self, user: str) -> bool:
        return self._taken[user] < self._each and self.taken < self._total

    def _begin(self, user: str) -> None:
        self._taken[user] += 1
        self.taken += 1
        self._begun.add(user)
        self._announce()

    def _end(self, user: str) -> None:
        self._taken[user] -= 1
        self.taken -= 1
        if not self._taken[user]:
            del self._taken[user]
        if self._waiting:
            self._announce()

    def _leave(self, user: str, turn: asyncio.Future[None]) -> None:
        queue = self._waiting.get(user)
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue:
                del self._waiting[user]

    def _announce(self) -> None:
        if not self._announced:
            self._announced = True
            asyncio.get_running_loop().call_soon(self._next_round)

    def _next_round(self) -> None:
        """Let one request begin of each user who waits and has room; who had a turn goes to the end of the row."""
        self._announced = False
        self._begun.clear()
        for user in list(self._waiting):
            if self.taken >= self._total:
                break
            if not self._has_room(user):
                continue
            queue = self._waiting.pop(user)
            turn = queue.popleft()
            if queue:
                self._waiting[user] = queue
            if not turn.done():
                self._begin(user)
                turn.set_result(None)
            else:
                self._announce()


def _refused() -> TooManyRequests:
    return TooManyRequests("too many requests, please try again later", details={"retryAfterSeconds": _RETRY_SECONDS})
