"""A member does what Kubernetes does: one script, played on both, with pods that become ready when the script says so.

The simulated member plays it first and says where each step comes to rest. Then the real controllers play it, and must
come to rest at the same places: sizes of the ReplicaSets, availability, conditions, revisions.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from echelon.api.apps import DEPLOYMENT, REPLICA_SET, STATEFUL_SET
from echelon.api.base import JSONObject
from echelon.api.batch import JOB
from echelon.api.core import POD
from echelon.api.kinds import Kind
from echelon.fleet.loop import run, running
from echelon.fleet.member.clone import clone_cluster
from echelon.fleet.member.member import Member
from echelon.fleet.member.profile import Pace, Profile
from echelon.kube import config
from echelon.kube.client import Client, DeleteOptions, MergePatch
from echelon.kube.http import HttpClient
from tests.environment import ControlPlane, Programs
from tests.fleet.member.world import NS, is_ready, workload

PATIENCE_SECONDS = 60.0
Seen = tuple[Any, ...]
Settle = Callable[["Player"], Awaitable[None]]


class Player:
    """Plays a script on a cluster."""

    def __init__(self, client: Client, settle: Settle) -> None:
        self.client = client
        self._settle = settle

    async def create(self, kind: Kind[Any], **spec: Any) -> None:
        await self.client.create(kind.untyped(), workload(kind, **spec), NS)
        await self._settle(self)

    async def change(self, kind: Kind[Any], **spec: Any) -> None:
        await self.client.patch(kind.untyped(), "web", MergePatch({"spec": spec}), NS)
        await self._settle(self)

    async def image(self, kind: Kind[Any], image: str) -> None:
        await self.change(kind, template={"spec": {"containers": [{"name": "web", "image": image}]}})

    async def ready(self, image: str, count: int = 100) -> None:
        """Let so many pods with an image become ready."""
        starting = [pod for pod in await self.pods() if image_of(pod) == image and not is_ready(pod)]
        for pod in sorted(starting, key=lambda pod: str(pod["metadata"]["name"]))[:count]:
            status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            status["conditions"][0]["lastTransitionTime"] = pod["metadata"]["creationTimestamp"]  # type: ignore[index]
            name = pod["metadata"]["name"]
            await self.client.patch(POD.untyped(), name, MergePatch({"status": status}), NS, subresource="status")
        await self._settle(self)

    async def succeed(self) -> None:
        """Let one of the pods that have not ended succeed; one that is ready, if there is any: names are random."""
        alive = [pod for pod in await self.pods() if pod["status"]["phase"] in ("Pending", "Running")]
        first = min((not is_ready(pod), str(pod["metadata"]["name"])) for pod in alive)[1]
        ended = {"phase": "Succeeded", "conditions": [{"type": "Ready", "status": "False"}]}
        await self.client.patch(POD.untyped(), first, MergePatch({"status": ended}), NS, subresource="status")
        await self._settle(self)

    async def pods(self) -> list[JSONObject]:
        found = (await self.client.list(POD.untyped(), NS)).items
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    async def seen(self) -> Seen:
        """Return everything that both must agree on."""
        pods = sorted(f"{image_of(pod)} {'ready' if is_ready(pod) else 'starting'}" for pod in await self.pods())
        sets = [await self._of_set(each) for each in (await self.client.list(REPLICA_SET.untyped(), NS)).items]
        said = []
        for kind in (DEPLOYMENT, STATEFUL_SET, JOB):
            said += [_of_workload(each) for each in (await self.client.list(kind.untyped(), NS)).items]
        return (pods, sorted(sets), said)

    async def _of_set(self, obj: JSONObject) -> Seen:
        notes, status = obj["metadata"]["annotations"], obj.get("status") or {}
        own = {name.rpartition("/")[2]: value for name, value in notes.items() if name.startswith("deployment.")}
        counts = [status.get(name, 0) for name in ("replicas", "readyReplicas", "availableReplicas")]
        return image_of(obj["spec"]["template"]), obj["spec"]["replicas"], counts, sorted(own.items())


def image_of(pod: JSONObject) -> str:
    return str(pod["spec"]["containers"][0]["image"])


COUNTS: tuple[str, ...] = (
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
    "currentReplicas",
)
COUNTS += ("active", "succeeded", "failed", "ready", "terminating")


def _of_workload(obj: JSONObject) -> Seen:
    meta, status = obj["metadata"], obj.get("status") or {}
    conditions = sorted(f"{c['type']} {c['status']} {c['reason']}" for c in status.get("conditions") or ())
    revision = (meta.get("annotations") or {}).get("deployment.kubernetes.io/revision")
    observed = status.get("observedGeneration") == meta["generation"]
    complete = status.get("currentRevision") == status.get("updateRevision")
    return obj["kind"], revision, observed, complete, [status.get(name, 0) for name in COUNTS], conditions


def rolling(surge: int, unavailable: int) -> JSONObject:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


async def roll_out(player: Player) -> None:
    """Deployment: waves, a pause that shrinks the surge, a resize in the middle, a third revision, an undo."""
    await player.create(DEPLOYMENT, image="web:1", replicas=10, strategy=rolling(3, 2))
    await player.ready("web:1")
    await player.image(DEPLOYMENT, "web:2")
    await player.ready("web:2", 2)
    await player.ready("web:2", 1)
    await player.change(DEPLOYMENT, paused=True, strategy=rolling(0, 2))
    await player.change(DEPLOYMENT, paused=False, strategy=rolling(3, 2))
    await player.change(DEPLOYMENT, replicas=20)
    await player.ready("web:2", 4)
    await player.image(DEPLOYMENT, "web:3")
    await player.ready("web:3", 3)
    await player.image(DEPLOYMENT, "web:1")
    for _ in range(20):
        await player.ready("web:1")
    await player.change(DEPLOYMENT, replicas=4)


async def roll_out_in_order(player: Player) -> None:
    """StatefulSet: up in order, down from the last, with a partition."""
    update = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    await player.create(STATEFUL_SET, image="web:1", replicas=3, serviceName="web", updateStrategy=update)
    for _ in range(3):
        await player.ready("web:1")
    await player.image(STATEFUL_SET, "web:2")
    await player.ready("web:2")
    await player.ready("web:2")
    await player.change(STATEFUL_SET, updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})
    await player.ready("web:2")
    await player.change(STATEFUL_SET, replicas=1)


async def replace_all(player: Player) -> None:
    """Deployment that has no two revisions at once."""
    await player.create(DEPLOYMENT, image="web:1", replicas=2, strategy={"type": "Recreate"})
    await player.ready("web:1")
    await player.image(DEPLOYMENT, "web:2")
    await player.ready("web:2")


async def run_to_the_end(player: Player) -> None:
    """Job: two at a time, three in all."""
    pod = {"restartPolicy": "Never"}
    await player.create(JOB, image="web:1", replicas=None, pod=pod, completions=3, parallelism=2)
    await player.ready("web:1")
    for _ in range(3):
        await player.succeed()


def expected(script: Callable[[Player], Awaitable[None]]) -> list[Seen]:
    """Play a script on a simulated member, whose pods never start by themselves."""

    async def main() -> list[Seen]:
        states: list[Seen] = []
        cluster = await clone_cluster("c", clock=running().clock.now)
        member = Member(Profile("c", pace=Pace(start=1e9, spread=0.0, stop=0.0)), cluster)
        await member.start()

        async def settle(player: Player) -> None:
            await asyncio.sleep(5)
            states.append(await player.seen())

        await script(Player(member.client(), settle))
        member.stop()
        return states

    return run(main())


def test_workloads_come_to_rest_where_the_real_ones_do(kubernetes: Programs, tmp_path: Path) -> None:
    async def play(script: Callable[[Player], Awaitable[None]], states: list[Seen], kind: Kind[Any]) -> None:
        left = iter(enumerate(states))

        async def settle(player: Player) -> None:
            number, state = next(left)
            deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
            while (seen := await player.seen()) != state:
                if asyncio.get_running_loop().time() > deadline:
                    assert seen == state, f"step {number} of {script.__name__}"
                await asyncio.sleep(0.05)

        async with HttpClient(config.load(plane.access.kubeconfig)) as client:
            await script(Player(client, settle))
            await client.delete(kind, "web", NS, options=DeleteOptions(propagation="Background"))
            while (await client.list(POD.untyped(), NS)).items:  # noqa: ASYNC110 - the next script needs an empty stage
                await asyncio.sleep(0.05)

    scripts = (
        (roll_out, DEPLOYMENT),
        (replace_all, DEPLOYMENT),
        (roll_out_in_order, STATEFUL_SET),
        (run_to_the_end, JOB),
    )
    with ControlPlane(kubernetes, tmp_path, controller_manager=True) as plane:
        for script, kind in scripts:
            asyncio.run(play(script, expected(script), kind))
