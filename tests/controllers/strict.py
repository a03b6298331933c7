"""How controllers run where a plan that is made twice must be the same, and indexes must be what caches say."""

import asyncio

from echelon.controllers.settings import ControllerSettings

STRICT = ControllerSettings(strict=True)


async def end(*tasks: asyncio.Task[None]) -> None:
    """End controllers or agents; raise what one of them failed with before that, such as plans that differ."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        if not task.cancelled():
            task.result()
