"""Looking at pods until all cliques are up, through everything that a server and a network can do."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from random import Random
from typing import Any, cast

from echelon.api.base import JSONObject
from echelon.api.core import POD
from echelon.engine.pod_clique.names import CLIQUE, GANG
from echelon.kube.client import EventType, Reader
from echelon.waiter.readiness import Readiness

PAGE_SIZE = 500
STREAM_SECONDS = 300
PAGE_SECONDS = 60.0
GRACE_SECONDS = 30.0  # a stream that outlives its time by this is dead, and nobody said so
HEALTHY_SECONDS = 10.0  # a server that answered for so long is well
FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 1.0, 30.0
_LONGEST_SELECTOR = 2000  # characters; an address may not be much longer than this

Tell = Callable[[str], None]


def selector(gang: str, cliques: Iterable[str]) -> str:
    """Return the labels of the pods to look at: those of the gang, and of it no more than needed if that is short."""
    of_gang = f"{GANG}={gang}"
    narrow = f"{of_gang},{CLIQUE} in ({','.join(sorted(cliques))})"
    return narrow if len(narrow) <= _LONGEST_SELECTOR else of_gang


class Waiting:
    """Waits for the cliques of one gang."""

    def __init__(self, reader: Reader, namespace: str, gang: str, wanted: Mapping[str, int], tell: Tell) -> None:
        self._reader, self._namespace, self._tell = reader, namespace, tell
        self._labels = selector(gang, wanted)
        self._readiness = Readiness(wanted)
        self._told: tuple[str, ...] | None = None

    async def until_up(self, random: Random) -> None:
        """Return when every clique has its pods ready, all at the same time. Errors are told, and tried again."""
        loop = asyncio.get_running_loop()
        pause = FIRST_PAUSE_SECONDS
        while True:
            began = loop.time()
            try:
                version = await self._list()
                if self._up() or await self._follow(version):
                    return
            except Exception as error:  # noqa: BLE001 - whatever a server does, the next try may go well
                self._tell(f"cannot look at pods, trying again: {str(error) or type(error).__name__}")
            if loop.time() - began >= HEALTHY_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(pause * 2, LAST_PAUSE_SECONDS)

    async def _list(self) -> str:
        """Take all pods as of one moment, and return its version."""
        pods: list[JSONObject] = []
        token = ""
        while True:
            async with asyncio.timeout(PAGE_SECONDS):
                page = await self._reader.list(
                    POD.untyped(), self._namespace, labels=self._labels, limit=PAGE_SIZE, continue_=token
                )
            pods += page.items
            if not (token := page.continue_):
                self._readiness.begin(pods)
                return page.resource_version

    async def _follow(self, version: str) -> bool:
        """Take what changes from then on; whether all are up, or else the stream has ended."""
        stream = self._reader.watch(
            POD.untyped(),
            self._namespace,
            labels=self._labels,
            resource_version=version,
            timeout_seconds=STREAM_SECONDS,
        )
        async with asyncio.timeout(STREAM_SECONDS + GRACE_SECONDS), aclosing(cast("AsyncGenerator[Any]", stream)):
            async for event in stream:
                if event.object is not None:
                    self._readiness.take(event.object, gone=event.type is EventType.DELETED)
                    if self._up():
                        return True
        return False

    def _up(self) -> bool:
        """Whether all are up. What is waited for is told when it changes."""
        lacking = self._readiness.lacking
        if lacking != self._told:
            self._told = lacking
            self._tell(f"waiting for {', '.join(lacking)}" if lacking else "all cliques are up")
        return not lacking
