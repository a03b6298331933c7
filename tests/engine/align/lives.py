"""What happens to a federated rollout in one life, and what must be true in the end."""

from collections.abc import Callable
from functools import partial
from random import Random

from echelon.engine.align.decisions import BudgetWait, Round
from echelon.engine.align.round import align
from tests.engine.align.shapes import Outcome
from tests.engine.align.world import World

EVENTS: dict[str, tuple[str, ...]] = {
    "static": (),
    "template": ("template", "rollback", "broken"),
    "scale": ("scale", "move", "add", "leave"),
    "crash": ("crash", "crash", "fail"),
    "cut": ("cut",),
    "knobs": ("knobs",),
    "pause": ("pause",),
    "groups": ("template", "rollback", "scale", "move"),
    "refused": ("template", "rollback", "scale", "knobs"),
    "lost": ("lost", "lost", "template", "scale", "knobs"),
    "young": ("template", "rollback", "scale", "move", "add", "knobs", "pause", "cut"),
    "mix": (
        "template",
        "rollback",
        "broken",
        "scale",
        "move",
        "add",
        "leave",
        "crash",
        "fail",
        "cut",
        "knobs",
        "pause",
    ),
}
LONG = 6_000.0
LOOPS = 20  # that a life may last where reports and pushes take long


def live(family: str, seed: int, *, kind: str = "", align: Callable[..., Round] = align) -> Outcome:
    """Live one life, and tell what went wrong."""
    world = World(family, seed, kind=kind, align=align)
    stuck = _live(world)
    oracle = world.oracle
    return Outcome(
        family=family,
        kind=world.kind,
        seed=seed,
        strict=oracle.strict,
        excused=oracle.excused,
        races=oracle.races,
        repairs=oracle.repairs,
        stuck=stuck,
        deaths=world.died,
        pushes=world.pushes,
        rounds=world.rounds,
        digest=world.trace.hexdigest(),
        took=world.now,
        waited_for_partition=world.waited_for_partition,
        notes=world.notes,
    )


def _live(world: World) -> str:
    rng = world.rng
    world.plan_soon()
    if world.family == "young":
        _begin_young(world, rng)
    elif world.run_until(_long(world), world.complete):
        world.begin()
        world.change(template="v2", partition=min(world.later_partition, world.wish.total))
    else:
        return _story(world, "was not born")
    scripts = EVENTS[world.family]
    if world.kind == "StatefulSet":
        # In order, a pod that never gets ready stops a StatefulSet for good, as it does in one cluster.
        scripts = tuple(script for script in scripts if script != "broken")
    if scripts:
        moment = 0.0
        for _ in range(rng.randint(1, 4)):
            moment += rng.uniform(0.1, 30.0) * rng.choice([0.2, 1.0, 3.0])
            script = rng.choice(scripts)
            world.at(moment, partial(_happen, world, rng, script))
        world.run_until(world.now + moment + 1.0, lambda: False)
        if world.wish.template in world.pace.broken:
            world.change(template=f"v{rng.randint(100, 999)}")
    mended = world.now
    if world.run_until(mended + _long(world), world.complete):
        return _rest(world)
    if world.wish.partition:
        waits = {each.wait for each in world.last.decisions.values()} if world.last else set()
        broken = any(pod.revision in world.pace.broken for each in world.members.values() for pod in each.pods)
        if BudgetWait.PARTITION not in waits and not broken:  # a partition may keep broken pods, too
            return _story(world, "is stuck under a partition")
        world.waited_for_partition = True
        world.change(partition=0)
        if world.run_until(world.now + _long(world), world.complete):
            return _rest(world)
    return _story(world, "is stuck")


def _begin_young(world: World, rng: Random) -> None:
    """Have another template before the first one is complete everywhere.

    A cluster is away, pods take their time, or the first one does not work at all.
    """
    why = rng.choice(("away", "away", "slow", "slow", "broken"))
    if why == "away":
        _cut(world, rng)
    elif why == "broken" and world.kind != "StatefulSet":
        world.pace.broken.add(world.wish.template)
    world.run_until(rng.uniform(0.0, 12.0) * rng.choice([0.2, 1.0, 5.0]), world.complete)
    world.begin_early()
    world.change(template="v2", partition=rng.randint(0, world.wish.total) if world.contract.has_partition else 0)


def _long(world: World) -> float:
    """Return how long it may take until a life is complete.

    A budget of one pod lets pods move one by one, and each of them takes two pushes: where agents cannot tell, both
    have to be heard of, and to settle.
    """
    loop, settle = world.oracle.loop, world.oracle.settle
    one_by_one = 2 * world.wish.total * (loop + settle) if settle else 0.0
    return max(LONG, LOOPS * loop, one_by_one)


def _story(world: World, text: str) -> str:
    lines = [f"{world.family} {world.seed} ({world.kind}) {text} at {world.now:.0f} s"]
    if world.last is not None:
        lines += [
            f"  {each.cluster}: {each.wait} {each.message} {each.grant}" for each in world.last.decisions.values()
        ]
        lines.append(f"  {world.last.slack}")
    return "\n".join(lines)


def _rest(world: World) -> str:
    """At rest a cluster is charged with what it has, and nothing is sent."""
    if world.last is None:
        return "nothing was planned"
    for name, each in world.last.decisions.items():
        pods = world.members[name].active
        if (each.bounds.floor, each.bounds.ceiling) != (sum(pod.available for pod in pods), len(pods)):
            return _story(world, f"charges {name} at rest with {each.bounds}, and it has {len(pods)}")
    again = world.align(world.workload, world.ledger, dict(world.views), world.now, world.patience)
    # A template that has just become the stable one goes to clusters without pods, which had kept the one before, once.
    last = world.align(world.workload, again.ledger, dict(world.views), world.now, world.patience)
    if last.pushes or any(grant.replicas for grant in again.pushes.values()):
        return _story(world, "sends something at rest")
    return ""


def _happen(world: World, rng: Random, script: str) -> None:
    if script in ("template", "rollback", "broken"):
        _new_template(world, rng, script)
    elif script in ("scale", "move", "add", "leave"):
        _resize(world, rng, script)
    elif script in ("crash", "fail"):
        _lose(world, rng, script)
    elif script == "cut":
        _cut(world, rng)
    elif script == "lost":
        world.note("the ledger is lost")
        world.lose_ledger()
    elif script == "knobs":
        _turn(world, rng)
    elif script == "pause":
        world.change(paused=True)
        world.at(rng.uniform(1, 60), lambda: world.change(paused=False))


def _cut(world: World, rng: Random) -> None:
    name = rng.choice(list(world.members))
    world.note(f"cut {name}")
    world.cut.add(name)
    world.cut_since[name] = world.now
    world.plan_soon()
    world.at(rng.uniform(1, 200), lambda: world.heal(name))


def _new_template(world: World, rng: Random, script: str) -> None:
    if script == "rollback":
        world.change(template=rng.choice(["v1", "v2"]))
        return
    name = f"v{rng.randint(3, 99)}"
    if script == "broken":
        name = f"broken-{rng.randint(1, 9)}"
        world.pace.broken.add(name)
    world.change(template=name)


def _resize(world: World, rng: Random, script: str) -> None:
    sizes = dict(world.wish.sizes)
    if script == "scale":
        sizes = {name: max(0, size + rng.randint(-4, 5) * (rng.random() < 0.6)) for name, size in sizes.items()}
    elif script == "move":
        giver, taker = rng.choice(list(sizes)), rng.choice(list(sizes))
        amount = rng.randint(0, sizes[giver])
        sizes[giver] -= amount
        sizes[taker] += amount
    elif script == "add":
        name = f"d{len(world.members)}"
        world.add_member(name)
        sizes[name] = rng.randint(0, 6)
    elif len(sizes) > 1:
        del sizes[rng.choice(list(sizes))]
    world.change(sizes=sizes)


def _lose(world: World, rng: Random, script: str) -> None:
    for _ in range(rng.randint(1, 6)):
        pods = [(member, pod) for member in world.members.values() for pod in member.active if pod.available]
        if not pods:
            return
        member, pod = rng.choice(pods)
        world.note(f"{script} {pod.name}")
        world.died += 1
        if script == "crash":
            member.die(pod)
        else:
            member.fail(pod, rng.uniform(1, 60))


def _turn(world: World, rng: Random) -> None:
    wish = world.wish
    surge = rng.choice([0, 1, 3]) if world.contract.has_surge else 0
    unavailable = rng.choice([0, 1, 3])
    if unavailable + surge == 0:
        unavailable = 1
    unavailable = max(unavailable, world.contract.least_unavailable)
    partition = rng.randint(0, wish.total) if world.contract.has_partition and rng.random() < 0.5 else wish.partition
    world.change(unavailable=unavailable, surge=surge, partition=min(partition, wish.total))
