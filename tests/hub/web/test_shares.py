"""Places for requests: nobody has more than a share, and nobody waits for more than one request of each other."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from echelon.hub.verbs.breaks import to_the_end
from echelon.hub.web.shares import Shares
from echelon.kube.errors import TooManyRequests

PATIENCE = 60.0


def in_loop(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        asyncio.run(asyncio.wait_for(test(), PATIENCE))

    run.__name__ = test.__name__
    return run


class Office:
    """Requests that stay until they are told to go, and who of them has begun, in order."""

    def __init__(self, shares: Shares) -> None:
        self.shares = shares
        self.begun: list[str] = []
        self.go = asyncio.Event()

    def ask(self, user: str) -> asyncio.Task[None]:
        async def request() -> None:
            async with self.shares.place(user):
                self.begun.append(user)
                await self.go.wait()

        return asyncio.create_task(request())


async def rounds(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


@in_loop
async def test_nobody_has_more_than_a_share_and_all_together_no_more_than_there_is() -> None:
    office = Office(Shares(5, 2, waiting=10, patience=PATIENCE))
    tasks = [office.ask(user) for user in "aaaabbbbcccc"]
    await rounds(50)
    assert sorted(office.begun) == ["a", "a", "b", "b", "c"]
    office.go.set()
    await asyncio.gather(*tasks)
    assert sorted(office.begun) == sorted("aaaabbbbcccc")
    assert office.shares.taken == 0


@in_loop
async def test_users_take_turns_however_many_requests_one_of_them_has() -> None:
    """Of a hundred requests that could all begin, one does in each round: so somebody else waits for one."""
    office = Office(Shares(1000, 1000, waiting=0, patience=PATIENCE))
    office.go.set()
    crowd = [office.ask("a") for _ in range(100)]
    await rounds(3)
    one = office.ask("b")
    before = len(office.begun)
    await one
    assert office.begun.count("a") - before <= 3
    await asyncio.gather(*crowd)


@in_loop
async def test_who_has_too_many_waiting_is_refused_and_others_are_not() -> None:
    office = Office(Shares(10, 1, waiting=2, patience=PATIENCE))
    tasks = [office.ask("a") for _ in range(3)]
    await rounds(5)
    with pytest.raises(TooManyRequests) as refused:
        await office.ask("a")
    assert refused.value.retry_after == 1
    tasks.append(office.ask("b"))
    await rounds(5)
    assert office.begun == ["a", "b"]
    office.go.set()
    await asyncio.gather(*tasks)


@in_loop
async def test_patience_has_an_end() -> None:
    office = Office(Shares(1, 1, waiting=9, patience=0.01))
    first = office.ask("a")
    await rounds(2)
    with pytest.raises(TooManyRequests):
        await office.ask("b")
    office.go.set()
    await first
    await office.ask("b")
    assert office.begun == ["a", "b"]


@in_loop
async def test_who_goes_away_while_waiting_leaves_nothing_behind() -> None:
    office = Office(Shares(1, 1, waiting=9, patience=PATIENCE))
    first, gone, last = office.ask("a"), office.ask("b"), office.ask("c")
    await rounds(3)
    gone.cancel()
    await rounds(3)
    office.go.set()
    await asyncio.gather(first, last)
    assert office.begun == ["a", "c"]
    assert office.shares.taken == 0


@in_loop
async def test_work_that_cannot_be_stopped_keeps_its_place_when_nobody_waits_for_it_any_more() -> None:
    """Whoever sends something large and goes, again and again, has one thread at work and not all."""
    shares, begun, end = Shares(2, 1, waiting=9, patience=PATIENCE), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert end.wait(PATIENCE)

    async def request() -> None:
        async with shares.place("a"):
            await to_the_end(work)

    task = asyncio.create_task(request())
    await asyncio.to_thread(begun.wait, PATIENCE)
    task.cancel()
    await rounds(10)
    seen = (shares.taken, task.done())
    end.set()
    assert seen == (1, False)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert shares.taken == 0
