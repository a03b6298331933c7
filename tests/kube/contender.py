"""A process that contends for a Lease and writes down when it leads, for `test_leader_real`.

Every line is one `write` to a file that is open for appending, so lines of several processes do not mix. Times are of
the monotonic clock, which all processes of a machine share. On SIGUSR1 the work ends by itself, the lease is released
and the contender waits for a moment before it contends again, so that another one gets it.
"""

import asyncio
import os
import random
import signal
import sys
import time
from pathlib import Path

from echelon.kube import config
from echelon.kube.clock import SystemClock
from echelon.kube.http import HttpClient
from echelon.kube.leader import LeaderElection

LEASE_SECONDS = 1.5  # the record has it in whole seconds, rounded up
RENEW_SECONDS = 1.0
RETRY_SECONDS = 0.2
BEAT_SECONDS = 0.01


async def contend(kubeconfig: Path, namespace: str, identity: str, journal: int) -> None:
    def note(word: str) -> None:
        os.write(journal, f"{time.monotonic():.6f} {identity} {word}\n".encode())

    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, over.set)

    async def work() -> None:
        note("begins")
        try:
            while not over.is_set():
                await asyncio.sleep(BEAT_SECONDS)
                note("leads")
        finally:
            note("ends")

    async with HttpClient(config.load(kubeconfig)) as client:
        election = LeaderElection(
            client,
            SystemClock(),
            "leader",
            namespace,
            identity,
            random=random.Random(),  # noqa: S311 - jitter is no secret
            lease_seconds=LEASE_SECONDS,
            renew_seconds=RENEW_SECONDS,
            retry_seconds=RETRY_SECONDS,
        )
        note("contends")
        while True:
            await election.run(work)
            await asyncio.sleep(4 * RETRY_SECONDS)
            over.clear()


if __name__ == "__main__":
    opened = os.open(sys.argv[4], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    asyncio.run(contend(Path(sys.argv[1]), sys.argv[2], sys.argv[3], opened))
