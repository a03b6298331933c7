import asyncio
from random import Random

from echelon.agent.keyed_workers import KeyedWorkers
from echelon.kube.metrics import Metrics
from echelon.kube.turns import Turns


def test_workers_that_wait_for_their_turn_begin_with_the_newest() -> None:
    async def main() -> None:
        turns, handled, value = Turns(1), list[tuple[str, int]](), 0

        async def handler(key: str) -> None:
            handled.append((key, value))

        chance = Random(1)  # noqa: S311 - repeatable on purpose
        workers = KeyedWorkers(
            "test", handler, random=chance, metrics=Metrics(), concurrency=5, last_retry=1.0, turns=turns
        )
        await turns.take()
        others = [asyncio.create_task(turns.take()) for _ in range(5)]
        running = asyncio.create_task(workers.run())
        workers.queue.add("a")
        for number in range(1, 4):
            await asyncio.sleep(0)
            assert handled == []
            value = number
            workers.queue.add("a")
        for _ in range(30):
            await asyncio.sleep(0)
        assert handled == [("a", 3)]
        running.cancel()
        await asyncio.gather(running, *others, return_exceptions=True)

    asyncio.run(main())
