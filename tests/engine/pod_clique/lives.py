"""Whole lives of sets: random shapes, users who edit, scale, delete and change their minds, and a world against them.

A life has a seed and is the same whenever it is lived. The controller sees the world as it is, or as it was a moment
ago (never as it was before its own writes), dies between two writes, and is refused at random. In the end everything
heals; then the set has to come to what it says, and the controller has to fall silent.
"""

import hashlib
import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta

from echelon.api.base import JSONObject
from echelon.engine.plan import Plan
from echelon.engine.pod_clique.plan import plan
from echelon.engine.pod_clique.set_spec import ON_DELETE, ROLLING_RECREATE
from echelon.fleet.simulation import LifeOutcome
from tests.engine.pod_clique.oracle import Oracle
from tests.engine.pod_clique.world import (
    POD,
    Store,
    World,
    change,
    clique,
    edit,
    group,
    image,
    is_live,
    is_ready,
    pod_clique,
    pod_clique_set,
    scale,
)

SET, CLIQUE, GROUP = "PodCliqueSet", "PodClique", "PodCliqueScalingGroup"
STEPS = 90


@dataclass
class Life:
    """What became of a life."""

    seed: int
    faults: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    digest: str = ""

    @property
    def outcome(self) -> LifeOutcome:
        """What it was like, to compare with others."""
        return LifeOutcome(self.digest, 0.0, self.counts["deletions"] + self.counts["made"], self.counts["plans"], {})


def shape(chance: random.Random) -> JSONObject:
    """Return a set."""
    alone = chance.randint(0, 2)
    grouped = chance.randint(0 if alone else 1, 2)
    cliques, groups = [], []
    for number in range(alone):
        size = chance.randint(1, 4)
        made = clique(f"a{number}", size, chance.randint(1, size))
        if chance.random() < 0.3:
            made["rollingUpdate"] = {"maxUnavailable": chance.randint(1, 2)}
        cliques.append(made)
    if grouped:
        for number in range(grouped):
            size = chance.randint(1, 2)
            cliques.append(clique(f"g{number}", size, chance.randint(1, size)))
        size = chance.randint(1, 3)
        made = group("sg", [f"g{number}" for number in range(grouped)], size, chance.randint(1, size))
        if chance.random() < 0.3:
            made["rollingUpdate"] = {"maxUnavailable": chance.randint(1, 2)}
        groups.append(made)
    return pod_clique_set(
        cliques,
        groups,
        replicas=chance.randint(1, 3),
        strategy=chance.choice([None, ROLLING_RECREATE, ON_DELETE]),
        terminationDelay=f"{chance.choice([30, 120, 900])}s",
    )


class Hostile:
    """One life."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - a seed is all that is wanted of it
        self.world = World(starts_in=self.chance.choice([1, 3, 20]), ends_in=self.chance.choice([0, 1, 30]))
        self.world.create(shape(self.chance))
        self.oracle = Oracle(self.world)
        self.version = 1
        self.past: list[Store] = []  # since the controller's last write
        self.trace = hashlib.sha256()
        self.counts: Counter[str] = Counter()
        self.refusing = 0.0
        self.world.refuse = lambda _: self.chance.random() < self.refusing

    def live(self) -> None:
        """Live through everything."""
        for _ in range(STEPS):
            self._suffer()
            self._control()
            self.world.tick(self.chance.choice([0.5, 1, 2, 5, 30]))
            self.trace.update(repr(sorted(self.world.store)).encode())
        self._heal()

    def _control(self) -> None:
        """Let the controller plan what is there, or was before others changed it."""
        stop = self.chance.randint(0, 3) if self.chance.random() < 0.1 else None
        for _ in range(self.chance.randint(1, 6)):
            self.past.append(dict(self.world.store))
            late = self.chance.random() < 0.3
            seen = self.chance.choice(self.past) if late else self.past[-1]
            planned = self._planned(seen)
            self.counts["plans"] += 1
            self.oracle.observe(seen, remembered=stop is None and not self.refusing)
            if planned.empty:
                break
            self.world.plans.append(planned)
            writes = len(self.world.deleted) + len(self.world.made)
            before = dict(self.world.store)
            self.world.carry_out(planned, seen, stop_after=stop)
            if self.world.store != before or len(self.world.deleted) + len(self.world.made) != writes:
                self.past.clear()  # its caches show its own writes before it plans again

    def _planned(self, seen: Store) -> Plan:
        """Plan twice, the second time with nothing that an earlier plan has left behind."""
        planned = plan(self.world.view(seen), self.world.now)
        if self.chance.random() < 0.1:
            self.world.forget()
            if plan(self.world.view(seen), self.world.now) != planned:
                self.oracle.faults.append("a second plan of the same view is another one")
        return planned

    # What happens

    def _suffer(self) -> None:
        deeds = (
            (self._edit, 4),
            (self._scale_clique, 3),
            (self._scale_group, 3),
            (self._scale_set, 2),
            (self._change_strategy, 2),
            (self._waver, 2),
            (self._pause, 1),
            (self._delete_pod, 6),
            (self._crash, 6),
            (self._fail, 5),
            (self._freeze, 3),
            (self._delete_clique, 1),
            (self._lose_node, 2),
            (self._weather, 4),
            (self._refuse, 2),
        )
        for _ in range(self.chance.choice([0, 0, 1, 1, 2])):
            deed = self.chance.choices([each for each, _ in deeds], [weight for _, weight in deeds])[0]
            self.counts[deed.__name__] += 1
            deed()
            self.past.append(dict(self.world.store))

    def _names(self, kind: str) -> list[str]:
        return sorted(self.world.of(kind))

    def _some(self, kind: str) -> str | None:
        found = self._names(kind)
        return self.chance.choice(found) if found else None

    def _edit(self) -> None:
        (body,) = self.world.of(SET).values()
        listed = [each["name"] for each in body["spec"]["template"]["cliques"]]
        back = self.chance.random() < 0.2
        self.version += not back
        to = f"v{self.chance.randint(1, self.version)}" if back else f"v{self.version}"
        edit(self.world, self.chance.sample(listed, self.chance.randint(1, len(listed))), to)

    def _scale_clique(self) -> None:
        name = self._some(CLIQUE)
        if name is not None:
            scale(self.world, CLIQUE, name, self.chance.randint(0 if self.chance.random() < 0.1 else 1, 5))

    def _scale_group(self) -> None:
        name = self._some(GROUP)
        if name is not None:
            scale(self.world, GROUP, name, self.chance.randint(1, 4))

    def _scale_set(self) -> None:
        change(self.world, replicas=self.chance.randint(0 if self.chance.random() < 0.1 else 1, 3))

    def _change_strategy(self) -> None:
        change(self.world, strategy=self.chance.choice([ROLLING_RECREATE, ON_DELETE]))

    def _waver(self) -> None:
        """Step on the brake, and change one's mind as soon as it was noticed."""
        change(self.world, strategy=ON_DELETE)
        self._control()
        change(self.world, strategy=ROLLING_RECREATE)

    def _pause(self) -> None:
        value = self.chance.choice(["true", "false", None])
        self.world.patch(SET, "w", {"metadata": {"annotations": {"echelon.dev/paused": value}}})

    def _delete_pod(self) -> None:
        name = self._some(POD)
        if name is not None:
            self.world.delete(POD, name, force=self.chance.random() < 0.3)

    def _crash(self) -> None:
        running = [name for name, body in sorted(self.world.of(POD).items()) if body["status"].get("startTime")]
        alive = [name for name in running if is_live(self.world.get(POD, name))]
        if alive:
            self.world.crash(self.chance.choice(alive))

    def _fail(self) -> None:
        name = self._some(POD)
        if name is not None and is_live(self.world.get(POD, name)):
            self.world.fail(name, self.chance.choice(["Failed", "Succeeded"]))

    def _freeze(self) -> None:
        name = self._some(POD)
        if name is not None:
            self.world.frozen.add(name)

    def _delete_clique(self) -> None:
        name = self._some(CLIQUE)
        if name is not None:
            self.world.delete(CLIQUE, name)

    def _lose_node(self) -> None:
        for name, body in sorted(self.world.of(POD).items()):
            if self.chance.random() < 0.3 and is_live(body):
                self.world.lost.add(name)
                self.world.delete(POD, name)

    def _weather(self) -> None:
        latest = f"v{self.version}"
        choice = self.chance.random()
        if choice < 0.2:
            self.world.homeless.add(latest)
        elif choice < 0.4:
            self.world.sick.add(latest)
        elif choice < 0.6:
            self.world.cordoned = not self.world.cordoned
        elif choice < 0.7:
            self.world.tick(700)
        else:
            self.world.homeless.clear()
            self.world.sick.clear()
            self.world.lost.clear()
            self.world.frozen.clear()
            self.world.cordoned = False

    def _refuse(self) -> None:
        self.refusing = self.chance.choice([0.0, 0.0, 0.05, 0.3, 1.0])

    # What has to come of it

    def _heal(self) -> None:
        """Let everything work; the set has to become what it says, and the controller silent."""
        world = self.world
        world.homeless.clear()
        world.sick.clear()
        world.lost.clear()
        world.frozen.clear()
        world.cordoned, self.refusing = False, 0.0
        world.patch(SET, "w", {"metadata": {"annotations": {"echelon.dev/paused": None}}})
        quiet = 0
        for _ in range(900):
            planned = world.reconcile()
            quiet = quiet + 1 if planned.empty and planned.look_again_after is None else 0
            if quiet > 12:
                break
            wait = planned.look_again_after or timedelta(seconds=5)
            world.tick(min(max(wait.total_seconds(), 1), 60) if planned.empty else 1)
        else:
            self.oracle.faults.append(f"the controller does not fall silent: {world.plans[-1]}")
            return
        self.oracle.look()
        self._check_end()

    def _check_end(self) -> None:
        world, faults = self.world, self.oracle.faults
        body = world.get(SET, "w")
        spec, status = body["spec"], body["status"]
        on_delete = spec.get("updateStrategy", {}).get("type") == ON_DELETE
        progress = status.get("updateProgress")
        if progress is not None and "updateEndedAt" not in progress:
            faults.append(f"the update never ends: {progress}")
        if progress is not None and progress.get("currentlyUpdating"):
            faults.append(f"something is still selected: {progress}")
        images = {
            each["name"]: each["spec"]["podSpec"]["containers"][0]["image"] for each in spec["template"]["cliques"]
        }
        outdated = 0
        for name, each in world.of(CLIQUE).items():
            pods = [pod for pod in world.of(POD).values() if pod_clique(pod) == name]
            if len(pods) != each["spec"]["replicas"] or not all(is_live(pod) and is_ready(pod) for pod in pods):
                faults.append(f"{name} wants {each['spec']['replicas']} pods and has {len(pods)}")
            old = [pod for pod in pods if image(pod) != images[each["spec"]["roleName"]]]
            outdated += len(old)
            if old and not on_delete:
                faults.append(f"{name} has {len(old)} outdated pods")
            said = each["status"]
            counted = (said.get("replicas", 0), said.get("readyReplicas", 0), said.get("updatedReplicas", 0))
            if counted != (len(pods), len(pods), len(pods) - len(old)):
                faults.append(f"{name} reports {counted}, and has {len(pods)} pods of which {len(old)} are old")
            open_one = said.get("updateProgress")
            if open_one is not None and "updateEndedAt" not in open_one:
                faults.append(f"the update of {name} never ends")
        expected = spec["replicas"] if not on_delete or not outdated else None
        if status.get("availableReplicas", 0) != spec["replicas"]:
            faults.append(f"{status.get('availableReplicas')} of {spec['replicas']} replicas are available")
        if expected is not None and status.get("updatedReplicas", 0) != expected:
            faults.append(f"{status.get('updatedReplicas')} of {expected} replicas are updated")
        if status.get("outdatedPodsCount", 0) != outdated:
            faults.append(f"{status.get('outdatedPodsCount')} pods are called outdated, {outdated} are")
        self._check_shape(spec)

    def _check_shape(self, spec: JSONObject) -> None:
        """Every clique that should be there is there, and no other."""
        wanted = set()
        groups = spec["template"].get("podCliqueScalingGroups", [])
        members = {name for each in groups for name in each["cliqueNames"]}
        for replica in range(spec["replicas"]):
            wanted |= {
                f"w-{replica}-{each['name']}" for each in spec["template"]["cliques"] if each["name"] not in members
            }
            for each in groups:
                size = self.world.get(GROUP, f"w-{replica}-{each['name']}")["spec"]["replicas"]
                wanted |= {
                    f"w-{replica}-{each['name']}-{index}-{name}"
                    for index in range(size)
                    for name in each["cliqueNames"]
                }
        if wanted != set(self.world.of(CLIQUE)):
            self.oracle.faults.append(f"cliques that differ: {sorted(wanted ^ set(self.world.of(CLIQUE)))}")


def live(seed: int) -> Life:
    """Live one life."""
    hostile = Hostile(seed)
    hostile.live()
    counts = Counter(hostile.oracle.counts) + hostile.counts
    text = f"{sorted(hostile.world.store)} {sorted(counts.items())}"
    hostile.trace.update(text.encode())
    return Life(seed, hostile.oracle.faults, counts, hostile.trace.hexdigest()[:16])
