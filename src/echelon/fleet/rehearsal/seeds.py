"""Many lives of one rehearsal, on all cores: a fleet is brought to life once, and each seed lives in a copy of it.

A copy is a fork: virtual time has one thread and no connections, so a process may be doubled between two runs of its
loop, and what the lives share takes memory once. A life that fails says so, and takes nobody along.
"""

import gc
import os
import selectors
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from typing import NoReturn

import msgspec

from echelon.controllers.settings import ControllerSettings
from echelon.fleet.capture import Capture
from echelon.fleet.loop import VirtualLoop
from echelon.fleet.rehearsal.lives import Life, Trial, live
from echelon.fleet.rehearsal.world import WARM_UP_SECONDS, Rehearsal

_CHUNK = 1 << 16


def simulate(
    capture: Capture,
    trial: Trial,
    seeds: Iterable[int],
    *,
    processes: int,
    heard: Callable[[str, float], None] = lambda *_: None,
) -> list[Life]:
    """Live the lives of these seeds, so many at a time; `heard` hears in words and as a share how far it is."""
    heard(f"bringing {sum(each['kind'] == 'ManagedCluster' for each in capture.objects)} clusters to life", 0.0)
    loop = VirtualLoop(0, capture.taken - timedelta(seconds=WARM_UP_SECONDS))
    world = loop.run_until_complete(_begun(capture, trial.settings))
    gc.collect()
    gc.freeze()  # a collection would write to every page that the lives share
    try:
        return _Lives(loop, world, trial, processes, heard).of(list(seeds))
    finally:
        gc.unfreeze()
        loop.run_until_complete(world.stop())
        loop.close()


async def _begun(capture: Capture, settings: ControllerSettings) -> Rehearsal:
    world = await Rehearsal.begin(capture, settings=settings, brief=True)
    await world.start_controllers()
    return world


def _end(*_: object) -> NoReturn:
    raise SystemExit(128 + signal.SIGTERM)


class _Lives:
    """Processes that live, and what they have said so far."""

    def __init__(
        self, loop: VirtualLoop, world: Rehearsal, trial: Trial, processes: int, heard: Callable[[str, float], None]
    ) -> None:
        self._loop, self._world, self._trial = loop, world, trial
        self._processes, self._heard = processes, heard
        self._said: dict[int, bytearray] = {}  # by descriptor
        self._living: dict[int, tuple[int, int]] = {}  # by descriptor, seed and process

    def of(self, seeds: list[int]) -> list[Life]:
        found: list[Life] = []
        waiting = seeds[::-1]
        selector = selectors.DefaultSelector()
        before = signal.signal(signal.SIGTERM, _end)  # or copies would go on without anybody to tell
        try:
            while waiting or self._living:
                while waiting and len(self._living) < self._processes:
                    selector.register(self._fork(waiting.pop()), selectors.EVENT_READ)
                self._heard(f"{len(found)} of {len(seeds)} lives", len(found) / len(seeds))
                for key, _ in selector.select():
                    descriptor = int(key.fd)
                    if part := os.read(descriptor, _CHUNK):
                        self._said[descriptor] += part
                        continue
                    selector.unregister(descriptor)
                    found.append(self._ended(descriptor))
        finally:
            for descriptor, (_, process) in self._living.items():
                os.close(descriptor)
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
            signal.signal(signal.SIGTERM, before)
        return sorted(found, key=lambda each: each.seed)

    def _fork(self, seed: int) -> int:
        reading, writing = os.pipe()
        process = os.fork()
        if process == 0:
            code = 1
            try:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                os.close(reading)
                with os.fdopen(writing, "wb") as pipe:
                    pipe.write(msgspec.json.encode(self._live(seed)))
                code = 0
            finally:
                os._exit(code)  # nothing of what the parent began is for a copy to end
        os.close(writing)
        self._said[reading], self._living[reading] = bytearray(), (seed, process)
        return reading

    def _live(self, seed: int) -> Life:
        self._loop.reseed(seed)
        try:
            return self._loop.run_until_complete(live(self._world, self._trial, seed))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what came of this life
            return Life(seed=seed, error=f"{type(error).__name__}: {error}"[:2000])

    def _ended(self, descriptor: int) -> Life:
        seed, process = self._living.pop(descriptor)
        said = bytes(self._said.pop(descriptor))
        os.close(descriptor)
        _, status = os.waitpid(process, 0)
        try:
            return msgspec.json.decode(said, type=Life)
        except msgspec.DecodeError:
            return Life(seed=seed, error=f"its process ended with {os.waitstatus_to_exitcode(status)}")
