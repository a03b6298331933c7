"""A small fleet with everything that a version stores: rollouts that are complete, and one that is under way.

`python -m tests.upgrade.fleet_at_rest` lets the present version make it, and keeps its database beside this file, under
the number of the version. It is made once for each version that is released and never again: what people have stored
does not change either.
"""

import asyncio
import gzip
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import yaml

from echelon import __version__
from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.api.policy import POLICY
from echelon.api.rollout_ledger import ROLLOUT_LEDGER
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.cli.demo import apply
from echelon.fleet.local import Local, Settings
from echelon.kube.errors import NotFound

FIXTURES = Path(__file__).parent / "fixtures"
EXAMPLES = Path(__file__).parents[2] / "examples"
FLEET = "4 clusters; regions eu/us; environments staging/production; canary label on 2"
APPLIED = ("everywhere", "with-approval", "policy-drift-in-waves", "deployment-one-budget")
PATIENCE_SECONDS = 240.0

WAITING = (MANIFEST_WORK_REPLICA_SET, "payments", "payments")
COMPLETE: tuple[tuple[Kind[Any], str, str], ...] = (
    (MANIFEST_WORK_REPLICA_SET, "node-agent", "observability"),
    (POLICY, "session-limits", "guardrails"),
)
LEDGER = (ROLLOUT_LEDGER, "demo-deployment", "budgets")


async def until(asked: Callable[[], Awaitable[object]]) -> None:
    """Wait until something is true."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await asked():  # noqa: ASYNC110 - objects have no event
            await asyncio.sleep(0.1)


async def says(local: Local, which: tuple[Kind[Any], str, str], condition: str, reason: str) -> bool:
    """Whether the status of an object has a condition with a reason."""
    kind, name, namespace = which
    try:
        found: JSONObject = await local.hub.client().get(kind.untyped(), name, namespace)
    except NotFound:
        return False
    told = found.get("status", {}).get("conditions", [])
    return any((each["type"], each["reason"]) == (condition, reason) for each in told)


async def is_at_rest(local: Local) -> bool:
    """Whether everything is done, and what waits waits."""
    for which in COMPLETE:
        if not await says(local, which, "PlacementRolledOut", "Complete"):
            return False
    if not await says(local, WAITING, "RolloutBlocked", "AwaitingApproval"):
        return False
    kind, name, namespace = LEDGER
    try:
        ledger = await local.hub.client().get(kind, name, namespace)
    except NotFound:
        return False
    return bool(ledger.status.complete)


async def record(directory: Path) -> None:
    """Let a fleet come to rest in a directory."""
    local = await Local.start(Settings(FLEET, data=directory))
    try:
        await local.wait_joined()
        for name in APPLIED:
            documents = yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text())
            await apply(local.hub.client(field_manager="kubectl"), documents)
        await until(lambda: is_at_rest(local))
        # What is left is clearing up, of which no status tells.
        await asyncio.sleep(30)
    finally:
        await local.stop()


def main() -> None:
    """Record the present version."""
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(record(Path(directory)))
        stored = (Path(directory) / "hub.db").read_bytes()
    (FIXTURES / f"{__version__}.db.gz").write_bytes(gzip.compress(stored, mtime=0))


if __name__ == "__main__":
    main()
