"""Whatever a stranger sends, it costs what its size says, it is answered, and nothing of it stays."""

import asyncio
import ctypes
import gc
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.attacks.fuzzing import CRDS, DEFINITION, NAMESPACE, Hostile, dearest, hostile, largest
from tests.attacks.hub import TRIES, AttackedHub, attacked_hub, eventually
from tests.budgets import Lives
from tests.hub.api import Answer, Api, config_map

pytestmark = pytest.mark.full

ANSWER_SECONDS = 2.0  # of a processor
STEP_SECONDS = 0.05
SECONDS_A_MIB = 0.1  # for copies of it: what is read of it and looked at is read and looked at beside the loop
GROWTH = 1.1
WARMING = 2


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedHub]:
    with attacked_hub(tmp_path_factory.mktemp("fuzzed")) as running:
        api = running.admin
        api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "fuzzed"}})
        api.ok("POST", f"{NAMESPACE}/configmaps", config_map("a", a="b"))
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        api.ok("POST", f"{NAMESPACE}/pods", pod)
        api.ok("POST", CRDS, DEFINITION)
        yield running


def send(api: Api, request: Hostile) -> Answer:
    asking = api.with_headers(Accept=request.accept) if request.accept else api
    return asking(request.method, request.path, request.body, request.media, **request.query)


def memory() -> int:
    """Return how many bytes the process has after everything that nobody needs is gone."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    status = Path("/proc/self/status").read_text()
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


@pytest.mark.lives("hostile requests")
def test_no_request_costs_more_than_its_size_says(hub: AttackedHub, lives: Lives) -> None:
    api = replace(hub.admin, kept=hub.admin.connect())
    for request in (request for seed in range(WARMING) for request in largest(seed)):
        send(api, request)  # so that everything is compiled and every buffer has been large once
    for request in (dearest(), *largest(WARMING)):
        judge(hub, api, request, WARMING)
    before = memory()
    for seed in lives:
        for request in hostile(seed):
            judge(hub, api, request, seed)
    hub.run(forget(hub))
    seen: list[int] = []

    def is_as_before() -> bool:
        """Threads and connections let go of what they have when they get to it."""
        seen.append(memory())
        return seen[-1] < before * GROWTH

    eventually(is_as_before, told=lambda: f"{before} bytes, and {seen[-1]} after {len(lives.seen)} seeds")


def judge(hub: AttackedHub, api: Api, request: Hostile, seed: int) -> None:
    told = (
        f"seed {seed}: {request.what}, {request.size} bytes: {request.method} {request.path} {str(request.query)[:300]}"
    )
    spent: list[float] = []

    def attack() -> None:
        began = time.process_time()
        answer = send(api, request)
        spent.append(time.process_time() - began)
        # A wait for a revision that never comes is an answer by the clock, and what Kubernetes answers.
        waited = answer.status == 504 and "resourceVersion" in request.query
        assert answer.status < 500 or waited, f"{told}: {answer.data[:1000]!r}"

    try:
        hub.steps(attack, STEP_SECONDS + SECONDS_A_MIB * request.size / (1 << 20))
    except AssertionError as error:
        raise AssertionError(f"{told}: {error}") from None
    while min(spent) >= ANSWER_SECONDS and len(spent) < TRIES:  # a busy machine makes some longer, and not all
        attack()
    assert min(spent) < ANSWER_SECONDS, f"{told}: {spent} s"


async def forget(hub: AttackedHub) -> None:
    """Let the hub forget what is history."""
    hub.hub.cluster().store.compact()
    await asyncio.sleep(0)
