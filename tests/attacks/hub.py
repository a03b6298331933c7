"""A hub that is attacked while somebody looks at its event loop.

What an attack costs is told in seconds of the processor that the thread of the loop has used, step by step: a busy
machine makes steps longer by the clock on the wall, and much less by this one. What is left of that is chance, so an
attack that seems to cost too much is tried again: one that does costs too much each time.
"""

import asyncio
import asyncio.events
import gc
import socket
import ssl
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from echelon.hub.server import Hub, Settings
from tests.hub.api import Api

T = TypeVar("T")

PATIENCE_SECONDS = 60.0


TRIES = 4


@dataclass
class Meter:
    """The longest step that a loop has made since it was last asked.

    Collections of garbage are not counted: they look at all that the tests of this process have made, in the step of
    whoever is there at the time.
    """

    thread: int
    longest: float = 0.0
    _collecting: float = 0.0  # seconds, since the beginning
    _since: float = 0.0

    def reset(self) -> None:
        self.longest = 0.0

    def now(self) -> float:
        """Return how long the thread that asks has worked."""
        return time.thread_time() - self._collecting

    def collected(self, phase: str, _: object) -> None:
        if threading.get_ident() != self.thread:
            return
        if phase == "start":
            self._since = time.thread_time()
        else:
            self._collecting += time.thread_time() - self._since


@contextmanager
def metered(meter: Meter) -> Iterator[None]:
    """Look at each step of the loop in the meter's thread."""
    run = asyncio.events.Handle._run

    def measured(handle: asyncio.Handle) -> None:
        if threading.get_ident() != meter.thread:
            run(handle)
            return
        began = meter.now()
        run(handle)
        meter.longest = max(meter.longest, meter.now() - began)

    asyncio.events.Handle._run = measured  # type: ignore[method-assign,assignment] # there is no other place to look from
    gc.callbacks.append(meter.collected)
    try:
        yield
    finally:
        gc.callbacks.remove(meter.collected)
        asyncio.events.Handle._run = run  # type: ignore[method-assign] # as before


@dataclass
class AttackedHub:
    """A hub in a thread of its own."""

    hub: Hub
    loop: asyncio.AbstractEventLoop
    directory: Path
    meter: Meter
    users: dict[str, Api] = field(default_factory=dict)

    def run(self, asked: Coroutine[Any, Any, T]) -> T:
        """Do something in the hub's loop."""
        return asyncio.run_coroutine_threadsafe(asked, self.loop).result(PATIENCE_SECONDS)

    def steps(self, attack: Callable[[], object], allowed: float) -> None:
        """Make an attack, and see that no step of the loop was longer than is allowed."""
        seen = []
        for _ in range(TRIES):
            self.meter.reset()
            attack()
            self.run(asyncio.sleep(0))  # the step that sent the answer is over
            seen.append(self.meter.longest)
            if seen[-1] < allowed:
                return
        raise AssertionError(f"steps of {seen} s, {allowed:.3f} s are allowed")

    @property
    def admin(self) -> Api:
        tls = ssl.create_default_context(cadata=self.hub.keys.authority.certificate_pem.decode())
        return Api("127.0.0.1", self.hub.port, tls, {"Authorization": f"Bearer {self.hub.admin_token}"})

    def user(self, name: str) -> Api:
        """Return somebody who may do everything in the namespace `default`, and is no administrator."""
        if name not in self.users:
            issued = self.hub.keys.client_certificate(name, [], datetime.now(UTC))
            path = self.directory / f"{name}.pem"
            path.write_bytes(issued.certificate_pem + issued.key_pem)
            tls = ssl.create_default_context(cadata=self.hub.keys.authority.certificate_pem.decode())
            tls.load_cert_chain(path)
            self.admin.ok("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", binding(name))
            self.users[name] = Api("127.0.0.1", self.hub.port, tls)
        return self.users[name]

    def raw(self, api: Api) -> ssl.SSLSocket:
        """Connect without saying anything."""
        made = api.tls.wrap_socket(socket.create_connection((api.host, api.port)), server_hostname=api.host)
        made.settimeout(PATIENCE_SECONDS)
        return made


def binding(user: str) -> dict[str, Any]:
    group = "rbac.authorization.k8s.io"
    return {
        "metadata": {"name": user},
        "subjects": [{"kind": "User", "name": user, "apiGroup": group}],
        "roleRef": {"kind": "ClusterRole", "name": "admin", "apiGroup": group},
    }


@contextmanager
def attacked_hub(directory: Path, settings: Settings | None = None) -> Iterator[AttackedHub]:
    """Run a hub while the context lasts."""
    made: list[AttackedHub] = []
    ready, end = threading.Event(), asyncio.Event()
    failure: list[BaseException] = []

    async def serve() -> None:
        hub = await Hub.start(settings or Settings())
        meter = Meter(threading.get_ident())
        made.append(AttackedHub(hub, asyncio.get_running_loop(), directory, meter))
        gc.collect()
        gc.freeze()  # as `echelon hub` does: what was there before is not looked at again in somebody's step
        try:
            with metered(meter):
                ready.set()
                await end.wait()
        finally:
            gc.unfreeze()
            await hub.stop()

    def live() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:  # noqa: BLE001 - whoever waits has to hear of it, in the other thread
            failure.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=live, name="attacked hub")
    thread.start()
    ready.wait(PATIENCE_SECONDS)
    try:
        if failure:
            raise failure[0]
        yield made[0]
    finally:
        if made:
            made[0].loop.call_soon_threadsafe(end.set)
        thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive(), "the hub does not end"
    if failure:
        raise failure[0]


def eventually(condition: Callable[[], bool], told: Callable[[], str] = lambda: "it did not come to pass") -> None:
    """Wait until a condition holds."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < until, told()
        time.sleep(0.02)
