"""The controller of PodCliqueSets in simulated members: each that has a set runs one of its own.

A fleet of a thousand members of which none has a set runs none, and none is waited for. The first set that a member
gets, by whichever way, begins it.
"""

import asyncio
import contextvars
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from random import Random

from echelon.api.grove import POD_CLIQUE_SET
from echelon.controllers.running import POD_CLIQUES, POD_CLIQUES_LEASE_NAME, Controllers, Lease
from echelon.controllers.settings import DEFAULTS, ControllerSettings
from echelon.fleet.member.member import Member
from echelon.hub.client import InProcessClient
from echelon.hub.server import ROOT
from echelon.hub.storage.store import Change
from echelon.kube.client import Client
from echelon.kube.clock import Clock
from echelon.kube.metrics import Metrics

# Simulated members run no images; the program that waits for cliques is known there by its arguments.
INIT_IMAGE = "echelon-wait-for-cliques"
LEASE_SECONDS = 60.0

_log = logging.getLogger(__name__)


def _inside(member: Member) -> Client:
    return InProcessClient(member.cluster, ROOT, field_manager="echelon")


class MemberControllers:
    """Begins the controller in every member that gets a set. `follow` members, and `stop` at the end."""

    def __init__(
        self,
        clock: Clock,
        *,
        seed: int = 0,
        settings: ControllerSettings = DEFAULTS,
        client_of: Callable[[Member], Client] = _inside,
        leases: bool = True,
    ) -> None:
        """`leases`: others may be pointed at a member, and must not work beside the one that is here."""
        self._clock = clock
        self._seed = seed
        self._settings = replace(settings, init_image=settings.init_image or INIT_IMAGE)
        self._client_of = client_of
        self._lease = Lease(name=POD_CLIQUES_LEASE_NAME, seconds=LEASE_SECONDS) if leases else None
        self._running: dict[str, asyncio.Task[None]] = {}
        self._stopped = False

    @property
    def members(self) -> list[str]:
        """The members in which a controller runs."""
        return sorted(self._running)

    def follow(self, members: Iterable[Member]) -> None:
        """Begin where a set is, and wherever one comes to be."""
        for member in members:
            store = member.cluster.store
            if store.list(POD_CLIQUE_SET.resource).entries:
                self._begin(member)
            else:
                store.on_commit(self._observer(member))

    def _observer(self, member: Member) -> Callable[[Change], None]:
        def committed(change: Change) -> None:
            if change.entry.key.resource == POD_CLIQUE_SET.resource:
                self._begin(member)

        return committed

    def _begin(self, member: Member) -> None:
        if self._stopped or member.name in self._running:
            return
        controllers = Controllers(
            self._client_of(member),
            self._clock,
            (POD_CLIQUES,),
            random=Random(f"{self._seed} {member.name}"),  # noqa: S311 - jitter is no secret
            metrics=Metrics(),
            instance=f"echelon-{member.name}",
            settings=self._settings,
        )
        # Whoever wrote the set has a context of its own, and may be stopped: the controller is not part of it.
        task = asyncio.get_running_loop().create_task(
            controllers.run(self._lease), name=f"{POD_CLIQUES} of {member.name}", context=contextvars.Context()
        )
        task.add_done_callback(_say_if_failed)
        self._running[member.name] = task

    async def restart(self, member: Member) -> None:
        """End the controller of a member, and begin it anew with empty hands."""
        if (task := self._running.pop(member.name, None)) is not None:
            await _end(task)
        self._begin(member)

    async def stop(self) -> None:
        """End all controllers; none begins any more."""
        self._stopped = True
        for task in self._running.values():
            task.cancel()
        for task in self._running.values():
            await _end(task)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError, Exception):  # what failed has been logged when it did
        await task


def _say_if_failed(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("%s ended: %r", task.get_name(), error, exc_info=error)
