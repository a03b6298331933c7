"""Workers that serve the keys of a queue, where no plan is made and nothing but an answer is wanted."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from echelon.kube.queue import WorkQueue

K = TypeVar("K")


async def serve(queue: WorkQueue[K], answer: Callable[[K], Awaitable[None]], *, workers: int, name: str) -> None:
    """Serve keys as they come, several at a time and each by one worker, until cancelled or until `answer` fails."""
    async with asyncio.TaskGroup() as group:
        for number in range(workers):
            group.create_task(_work(queue, answer), name=f"{name} {number}")


async def _work(queue: WorkQueue[K], answer: Callable[[K], Awaitable[None]]) -> None:
    while True:
        key = await queue.get()
        try:
            await answer(key)
        finally:
            queue.done(key)
