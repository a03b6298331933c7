import asyncio
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

from echelon.kube.turns import Turns


def test_whoever_comes_alone_begins_at_once() -> None:
    async def main() -> None:
        turns = Turns(2)
        for _ in range(5):
            assert _ends_at_once(turns.take())
            assert _ends_at_once(turns.take())
            await asyncio.sleep(0)

    asyncio.run(main())


def test_a_few_begin_in_each_round_in_the_order_in_which_they_came() -> None:
    async def main() -> None:
        turns, begun = Turns(3), list[int]()
        tasks = [asyncio.create_task(_note(turns, begun, number)) for number in range(10)]
        seen = [0]
        for _ in range(10):
            await asyncio.sleep(0)
            seen.append(len(begun))
        await asyncio.gather(*tasks)
        assert begun == list(range(10))
        assert max(after - before for before, after in pairwise(seen)) == 3

    asyncio.run(main())


def test_others_have_their_turn_between_those_who_never_pause() -> None:
    async def main() -> None:
        turns, log = Turns(2), list[str]()

        async def agent() -> None:
            for _ in range(3):
                await turns.take()
                log.append("agent")

        async def hub() -> None:
            while log.count("agent") < 60:
                log.append("hub")
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as group:
            group.create_task(hub())
            for _ in range(20):
                group.create_task(agent())
        rounds = "".join(each[0] for each in log).split("h")
        assert max(map(len, rounds)) <= 4  # what is left of one round, and the next

    asyncio.run(main())


def test_whoever_gives_up_takes_nobodys_turn() -> None:
    async def main() -> None:
        turns, begun = Turns(1), list[int]()
        tasks = [asyncio.create_task(_note(turns, begun, number)) for number in range(6)]
        await asyncio.sleep(0)
        for each in tasks[1:4]:
            each.cancel()
        async with asyncio.timeout(10):
            await asyncio.gather(*tasks, return_exceptions=True)
        assert begun == [0, 4, 5]

    asyncio.run(main())


async def _note(turns: Turns, begun: list[int], number: int) -> None:
    await turns.take()
    begun.append(number)


def _ends_at_once(work: Coroutine[Any, Any, None]) -> bool:
    step: Callable[[None], object] = work.send
    try:
        step(None)
    except StopIteration:
        return True
    work.close()
    return False
