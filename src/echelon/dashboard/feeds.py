"""The feeds of everybody who is signed in: one for each credential, for as long as a page of it is open."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from echelon.dashboard.credentials import Identity, who
from echelon.dashboard.feed import Feed
from echelon.kube.config import ClusterConfig
from echelon.kube.errors import ApiError, Unauthorized
from echelon.kube.http import HttpClient

_KEPT_SECONDS = 60.0  # after the last page was closed
_CHECK_SECONDS = 30.0
_MOST = 200

_log = logging.getLogger(__name__)


class TooMany(Exception):
    """More people look than the server has room for."""


@dataclass
class Open:
    """A feed, and the client that everything of its person goes through."""

    feed: Feed
    client: HttpClient
    task: asyncio.Task[None]
    watched: float  # when a page was last open, on the loop's clock


class Feeds:
    """All feeds. `gone` hears of credentials that the hub no longer knows."""

    def __init__(self, hub: ClusterConfig, gone: Callable[[str], None]) -> None:
        self._hub = hub
        self._gone = gone
        self._open: dict[str, Open] = {}
        self._random = Random()  # noqa: S311 - jitter is no secret

    def of(self, identity: Identity) -> Open:
        """Return the feed of somebody, which begins if it has not."""
        now = asyncio.get_running_loop().time()
        found = self._open.get(identity.key)
        if found is None:
            if len(self._open) >= _MOST:
                raise TooMany(f"{_MOST} people look at the dashboard already")
            client = HttpClient(replace(self._hub, user=identity.user))
            feed = Feed(client, random=self._random)
            task = asyncio.create_task(self._run(identity, feed, client), name=f"feed of {identity.name}")
            found = self._open[identity.key] = Open(feed, client, task, now)
        found.watched = now
        return found

    async def close(self) -> None:
        """End all feeds."""
        tasks = [each.task for each in self._open.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, identity: Identity, feed: Feed, client: HttpClient) -> None:
        running = asyncio.create_task(feed.run(), name=f"watching for {identity.name}")
        try:
            while not running.done():
                await asyncio.wait([running], timeout=_CHECK_SECONDS)
                if not running.done() and self._is_left(identity, feed):
                    return
                await _check(identity, client)
            running.result()
        except Unauthorized:
            _log.info("the hub no longer knows the credential of %s", identity.name)
            self._gone(identity.key)
        except Exception:
            _log.exception("the feed of %s has ended", identity.name)
            raise
        finally:
            self._open.pop(identity.key, None)
            feed.end()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await client.close()

    def _is_left(self, identity: Identity, feed: Feed) -> bool:
        now, found = asyncio.get_running_loop().time(), self._open[identity.key]
        if feed.watched:
            found.watched = now
        return now - found.watched > _KEPT_SECONDS


async def _check(identity: Identity, client: HttpClient) -> None:
    """Ask whether the hub still knows somebody. Streams that are open would not tell. Raises `Unauthorized`."""
    try:
        await who(client, identity.user)
    except Unauthorized:
        raise
    except (ApiError, TimeoutError, OSError) as error:  # it is away, and may know them when it is back
        _log.debug("whether the hub still knows %s cannot be asked: %s", identity.name, error)
