"""What a plan says of a PodCliqueSet is what its controller then does: which replica has its turn after which, which of
the pods of today go in each turn and how many are made, and what is outdated in the end. Over sets and changes drawn by
chance, some of whose new pods never start.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import TypeAlias

import pytest
from tests.budgets import Lives
from tests.controllers.clique_world import NS, CliqueWorld, clique, clique_world, group, set_of

from echelon.api.base import JSONObject
from echelon.api.core import POD
from echelon.api.grove import POD_CLIQUE_SET
from echelon.cli.change_admission import HubAdmission
from echelon.cli.change_files import Document
from echelon.cli.plan_making import make_plan
from echelon.cli.plan_rollouts import RolloutPlan
from echelon.engine.forecast.model import Assumptions
from echelon.engine.pod_clique.names import REPLICA_INDEX
from echelon.fleet.loop import run, running
from echelon.fleet.member.profile import NodeShape, Pace
from echelon.fleet.member.trouble import ImageError, Script
from echelon.hub.storage.store import Change

_NODES = (NodeShape(), NodeShape(), NodeShape())
_STARTS = 20.0  # seconds, of every pod
_APART = 8.0  # what is nearer to each other happened at one moment
_BEGINS = 299.0  # seconds after the start of the cluster: before the change, and after all that was there has started


@dataclass(frozen=True)
class Event:
    """A pod that came or went."""

    at: float
    replica: int
    gone: str = ""  # its name, if it was there before the change
    made: int = 0


Turn: TypeAlias = tuple[set[int], set[str], int]  # replicas, pods that go, and how many are made


@dataclass(frozen=True)
class Draw:
    """A set, what becomes of it, and of what no new pod starts: all of it, a replica, or a clique of a replica."""

    before: JSONObject
    after: JSONObject
    failing: str = ""

    @property
    def script(self) -> Script:
        """What keeps these pods from starting."""
        return Script((ImageError(_BEGINS, image="*", pod=f"{self.failing}-*"),)) if self.failing else Script()


def draw(seed: int) -> Draw:
    random = Random(f"set plan {seed}")  # noqa: S311 - repeatable on purpose
    strategy = random.choice(["", "", "RollingRecreate", "OnDelete"])
    rolling = [{"maxUnavailable": random.randint(1, 2), "progressDeadline": "3m"} for _ in range(4)]
    grouped = random.random() < 0.6

    def made(images: list[str], replicas: int, sizes: list[int], rows: int) -> JSONObject:
        names = ("alone", "first", "second")
        cliques = [
            clique(name, size, image, minAvailable=few, template={"rollingUpdate": how} if not grouped else {})
            for name, size, few, image, how in zip(names, sizes, least, images, rolling, strict=False)
        ]
        if grouped:
            cliques[0]["rollingUpdate"] = rolling[0]
            both = {**group("pair", "first", "second", replicas=rows), "rollingUpdate": rolling[3]}
            return set_of(*cliques, replicas=replicas, strategy=strategy, podCliqueScalingGroups=[both])
        return set_of(*cliques, replicas=replicas, strategy=strategy)

    sizes, replicas = [random.randint(1, 3) for _ in range(3)], random.randint(1, 4)
    images = ["v2" if random.random() < 0.6 else "v1" for _ in range(3)]
    other, rows, changed = replicas, 2, list(sizes)
    if random.random() < 0.3:
        changed[random.randrange(3)] = random.randint(1, 4)
    least = [random.randint(1, min(pair)) for pair in zip(sizes, changed, strict=True)]  # nobody may change that
    if grouped and random.random() < 0.3:
        rows = random.choice([1, 3])
    if random.random() < 0.3 or (images, changed, rows) == (["v1"] * 3, sizes, 2):
        other = random.choice([each for each in range(1, 6) if each != replicas])
    first = "pair-0-first" if grouped else "first"
    some = f"w-{random.randrange(max(replicas, other))}"
    failing = random.choice(["", "", "", "w", some, some, f"{some}-alone", f"{some}-{first}"])
    return Draw(made(["v1"] * 3, replicas, sizes, 2), made(images, other, changed, rows), failing)


def observer(events: list[Event], today: frozenset[str], now: Callable[[], float]) -> Callable[[Change], None]:
    """Note whose pods go and come."""

    def committed(change: Change) -> None:
        if change.entry.key.resource != POD.resource:
            return
        body, name = change.entry.object, change.entry.key.name
        was = change.previous.object["metadata"] if change.previous is not None else None
        ending = change.type == "DELETED" or bool(body["metadata"].get("deletionTimestamp"))
        if was is not None and (not ending or "deletionTimestamp" in was):
            return
        replica = int(body["metadata"]["labels"][REPLICA_INDEX])
        events.append(Event(now(), replica, name if ending and name in today else "", not ending))

    return committed


def turns_of(events: Iterable[Event]) -> list[Turn]:
    """Put together what happened at one moment, and then moments that followed each other with the same replicas."""
    moments: list[list[Event]] = []
    for each in events:
        if not moments or each.at - moments[-1][-1].at > _APART:
            moments.append([])
        moments[-1].append(each)
    found: list[Turn] = []
    for row in moments:
        replicas = {each.replica for each in row}
        if not found or found[-1][0] != replicas:
            found.append((replicas, set(), 0))
        _, gone, made = found[-1]
        found[-1] = replicas, gone | {each.gone for each in row if each.gone}, made + sum(each.made for each in row)
    return found


async def lived(world: CliqueWorld, drawn: Draw) -> tuple[RolloutPlan, list[Turn], set[str]]:
    world.start()
    await world.apply(drawn.before)
    await world.settle(300)
    wanted: JSONObject = {**POD_CLIQUE_SET.type_meta, "metadata": {"name": "w", "namespace": NS}, "spec": drawn.after}
    change = [Document("change.yaml", wanted, POD_CLIQUE_SET)]
    assumed = Assumptions(timedelta(seconds=_STARTS), failing=frozenset({drawn.failing} - {""}))
    plan = await make_plan(
        world.client, HubAdmission(world.client, frozenset()), change, running().clock.now(), assumed
    )
    (found,) = plan.rollouts
    events: list[Event] = []
    now = running().time
    world.member.cluster.store.on_commit(observer(events, frozenset(world.names()), now))
    await world.respec(drawn.after)
    await asyncio.sleep(found.forecast.ends.total_seconds() + 120)
    status = (await world.set()).status
    return found, turns_of(events), set(status.outdated_pods or ())


def check(seed: int) -> int:
    drawn = draw(seed)

    async def main() -> tuple[RolloutPlan, list[Turn], set[str]]:
        async with clique_world(_NODES, Pace(start=_STARTS, spread=0.0), drawn.script) as world:
            return await lived(world, drawn)

    plan, turns, outdated = run(main(), seed)
    told = (f"seed {seed}", drawn, plan.forecast, turns)
    predicted = [(set(each.replicas), set(each.gone), each.made) for each in plan.forecast.waves]
    assert predicted == turns, told
    assert set(plan.forecast.outdated) == outdated, told
    return len(turns)


@pytest.mark.lives("plans of clique sets")
def test_the_turns_of_replicas_are_those_that_were_predicted(lives: Lives) -> None:
    for seed in lives:
        check(seed)
