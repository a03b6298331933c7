"""Whoever counts what the controller does, from the objects themselves and by nobody else's tallies.

Each deletion that the controller makes is judged by what its plan could know: the objects that it had seen, and the
deletions of the same plan before it. Units are pods of standalone cliques and replicas of scaling groups. What is right
after a deletion is written down here a second time, from the decision and not from the code:

- a unit that is not ready may go; so may anything that is too many, as long as min(minAvailable, replicas) ready units
  stay; otherwise min(minAvailable, replicas - maxUnavailable) stay, and no more than maxUnavailable are missing at
  once, apart from those that have been down for longer than the deadline;
- of two replicas of the set, only one has something out that was taken from it as an update, whatever became of the
  strategy since then;
- a whole gang goes only if one of its cliques has too few pods, one gang at a time, and none while something is out
  that was taken from another replica;
- under OnDelete nothing goes that is not too many, ended, or in a broken gang.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

from echelon.api.base import JSONObject
from echelon.engine.plan import Create, Delete, Write
from tests.engine.pod_clique.world import POD, Store, World, image, is_live, is_ready, pod_clique, pod_index

DEADLINE = timedelta(minutes=10)
INDEX = "grove.io/podcliqueset-replica-index"
GROUP, GROUP_INDEX = "grove.io/podcliquescalinggroup", "grove.io/podcliquescalinggroup-replica-index"


@dataclass
class Seen:
    """What a plan had seen, without what it has deleted."""

    store: Store
    gone: set[str] = field(default_factory=set)  # pods
    gone_cliques: set[str] = field(default_factory=set)

    @property
    def set(self) -> JSONObject:
        return next(body for (kind, _), body in self.store.items() if kind == "PodCliqueSet")

    @property
    def on_delete(self) -> bool:
        found: bool = self.set["spec"].get("updateStrategy", {}).get("type") == "OnDelete"
        return found

    def clique(self, name: str) -> JSONObject | None:
        return self.store.get(("PodClique", name))

    def cliques(self) -> dict[str, JSONObject]:
        return {
            name: body
            for (kind, name), body in self.store.items()
            if kind == "PodClique" and name not in self.gone_cliques
        }

    @cached_property
    def _pods(self) -> dict[str, list[tuple[str, JSONObject]]]:
        found: dict[str, list[tuple[str, JSONObject]]] = {}
        for (kind, name), body in self.store.items():
            if kind == POD and is_live(body):
                found.setdefault(pod_clique(body), []).append((name, body))
        return found

    def pods(self, clique: str) -> list[JSONObject]:
        return [body for name, body in self._pods.get(clique, ()) if name not in self.gone]

    def ready(self, clique: str) -> int:
        return sum(map(is_ready, self.pods(clique)))

    def unit_works(self, group: str, index: str) -> bool:
        found = {name: body for name, body in self.cliques().items() if _unit(body) == (group, index)}
        size = self.store.get(("PodCliqueScalingGroup", group))
        wanted = len(size["spec"]["cliqueNames"]) if size is not None else len(found)
        return len(found) >= wanted and all(self.ready(name) >= need(body) for name, body in found.items())

    def units(self, group: str) -> list[str]:
        return sorted({index for body in self.cliques().values() for name, index in (_unit(body),) if name == group})


def need(clique: JSONObject) -> int:
    spec = clique["spec"]
    found: int = min(spec.get("minAvailable", spec["replicas"]), spec["replicas"])
    return found


def _unit(clique: JSONObject) -> tuple[str, str]:
    labels = clique["metadata"]["labels"]
    return labels.get(GROUP, ""), labels.get(GROUP_INDEX, "")


@dataclass
class Taken:
    """A ready unit that was taken as an update."""

    replica: str
    clique: str
    group: str
    at: datetime


class Oracle:
    """Watches a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.faults: list[str] = []
        self.counts = {"deletions": 0, "ready": 0, "made": 0, "terminated": 0}
        self._plan = -1
        self._seen = Seen({})
        self._taken: list[Taken] = []
        self._below: dict[str, datetime] = {}  # cliques with too few ready pods, and since when
        self._noted: dict[str, str] = {}  # gangs that were terminated, and when
        world.on_plan = lambda seen: self.observe(seen, remembered=True)
        world.on_write = self.judge

    def judge(self, write: Write, store: Store) -> None:
        if self._plan != len(self.world.plans):
            self._plan, self._seen = len(self.world.plans), Seen(store)
        if isinstance(write, Create):
            self._created(write)
        elif isinstance(write, Delete) and write.kind.kind == POD:
            self._deleted(write.name)
        elif isinstance(write, Delete) and write.kind.kind == "PodClique":
            self._clique_deleted(write.name)

    def look(self) -> None:
        """Look at a committed state: no two live pods have one index, no counter exceeds what there is."""
        taken: dict[tuple[str, int], str] = {}
        for (kind, name), body in self.world.store.items():
            if kind == POD and is_live(body):
                key = (pod_clique(body), pod_index(body))
                if key in taken:
                    self._fault(f"{name} and {taken[key]} have one index")
                taken[key] = name
            status = body.get("status", {})
            if kind in ("PodClique", "PodCliqueScalingGroup", "PodCliqueSet") and status.get(
                "updatedReplicas", 0
            ) > status.get("replicas", 0):
                self._fault(f"{kind} {name}: more updated than there are: {status}")
        self._note_terminations()

    def observe(self, store: Store, *, remembered: bool) -> None:
        """Look at what the controller sees: which cliques have too few pods. Good news may fail to be remembered."""
        self.look()
        seen = Seen(store)
        self._taken = [taken for taken in self._taken if not self._is_over(taken, seen)]
        for name, body in seen.cliques().items():
            if seen.ready(name) >= need(body):
                if remembered:
                    self._below.pop(name, None)
            else:
                self._below.setdefault(name, self.world.now)
        for (kind, name), body in store.items():
            if kind == "PodCliqueScalingGroup":
                works = sum(seen.unit_works(name, each) for each in seen.units(name))
                if works >= min(body["spec"]["minAvailable"], body["spec"]["replicas"]):
                    if remembered:
                        self._below.pop(name, None)
                else:
                    self._below.setdefault(name, self.world.now)

    def _fault(self, text: str) -> None:
        self.faults.append(f"{self.world.now.time()} plan {len(self.world.plans)}: {text}")

    def _created(self, write: Create) -> None:
        """A pod has what its clique has, and under OnDelete what the set says when it is made."""
        self.counts["made"] += 1
        seen, name = self._seen, write.body["metadata"]["labels"]["grove.io/podclique"]
        clique = seen.clique(name)
        if clique is None:
            return
        wanted = next(
            each for each in seen.set["spec"]["template"]["cliques"] if each["name"] == clique["spec"]["roleName"]
        )
        new = wanted["spec"]["podSpec"]["containers"][0]["image"]
        if image(write.body) != new and (seen.on_delete or not _unit(clique)[0]):
            self._fault(f"{write.name} is made with {image(write.body)}, and the set says {new}")

    def _clique_deleted(self, name: str) -> None:
        """A clique goes with its group's replica if that is too many, or with its replica of the set."""
        seen = self._seen
        clique = seen.clique(name)
        if clique is None:
            return
        replica = int(clique["metadata"]["labels"][INDEX])
        group, index = _unit(clique)
        size = seen.store.get(("PodCliqueScalingGroup", group))
        if replica >= seen.set["spec"]["replicas"]:
            seen.gone_cliques.add(name)
            return
        if not group or size is None:
            self._fault(f"clique {name} is deleted, and nothing of it is too many")
            return
        if int(index) < size["spec"]["replicas"]:
            self._fault(f"clique {name} is deleted, and replica {index} is wanted")
        if seen.unit_works(group, index):
            left = sum(seen.unit_works(group, each) for each in seen.units(group)) - 1
            floor = min(size["spec"]["minAvailable"], size["spec"]["replicas"])
            if left < floor:
                self._fault(f"replica {index} of {group} goes, and {left} < {floor} stay")
        seen.gone_cliques.add(name)

    def _deleted(self, name: str) -> None:
        seen = self._seen
        body = seen.store[POD, name]
        self.counts["deletions"] += 1
        if not is_live(body):
            seen.gone.add(name)
            return
        clique = seen.clique(pod_clique(body))
        if clique is None:
            seen.gone.add(name)
            return
        replica = clique["metadata"]["labels"][INDEX]
        group, index = _unit(clique)
        too_many = len(seen.pods(pod_clique(body))) > clique["spec"]["replicas"]
        if self._is_noted(body, replica, group, index):
            seen.gone.add(name)
            return
        if seen.on_delete and not too_many:
            self._fault(f"{name} is deleted under OnDelete, and it is not too many")
        if too_many:
            self._scaled_in(name, body, clique)
        elif group:
            self._unit_goes(name, group, index, replica)
        elif is_ready(body):
            self._pod_goes(name, clique, replica)
        seen.gone.add(name)

    def _scaled_in(self, name: str, body: JSONObject, clique: JSONObject) -> None:
        self.counts["ready"] += is_ready(body)
        left = self._seen.ready(pod_clique(body)) - is_ready(body)
        if is_ready(body) and left < need(clique):
            self._fault(f"{name} goes at scale-in, and {left} < {need(clique)} ready ones stay")

    def _pod_goes(self, name: str, clique: JSONObject, replica: str) -> None:
        self.counts["ready"] += 1
        seen, spec, own = self._seen, clique["spec"], clique["metadata"]["name"]
        config = _config(seen.set, spec["roleName"])
        most = config.get("rollingUpdate", {}).get("maxUnavailable", 1)
        ready = seen.ready(own)
        floor = max(0, min(spec.get("minAvailable", spec["replicas"]), spec["replicas"] - most))
        waited = [pod for pod in seen.pods(own) if not is_ready(pod) and self._down(pod) >= _deadline(config)]
        missing = spec["replicas"] - ready - len(waited)
        if ready - 1 < floor or missing >= most:
            self._fault(f"{name} goes: {ready} ready, floor {floor}, {missing} missing of {spec['replicas']}")
        self._one_replica(name, replica)
        self._taken.append(Taken(replica, own, "", self.world.now))

    def _unit_goes(self, name: str, group: str, index: str, replica: str) -> None:
        seen = self._seen
        if not seen.unit_works(group, index):
            return
        self.counts["ready"] += 1
        spec = seen.store["PodCliqueScalingGroup", group]["spec"]
        config = _group_config(seen.set, group)
        most = config.get("rollingUpdate", {}).get("maxUnavailable", 1)
        works = [each for each in seen.units(group) if seen.unit_works(group, each)]
        floor = max(0, min(spec["minAvailable"], spec["replicas"] - most))
        waited = [
            each
            for each in seen.units(group)
            if each not in works and self._unit_down(group, each, seen) >= _deadline(config)
        ]
        missing = spec["replicas"] - len(works) - len(waited)
        if len(works) - 1 < floor or missing >= most:
            self._fault(f"{name} of {group}/{index} goes: {len(works)} work, floor {floor}, {missing} missing")
        self._one_replica(name, replica)
        self._taken.append(Taken(replica, "", group, self.world.now))

    def _is_noted(self, body: JSONObject, replica: str, group: str, index: str) -> bool:
        """Whether a pod goes because its gang was terminated: the status says so, and the pod is older than that."""
        set_name = self._seen.set["metadata"]["name"]
        notes = _notes(self._seen.set)
        names = (f"{set_name}-{replica}", f"{group}/{index}")
        return any(name in notes and body["metadata"]["creationTimestamp"] < notes[name] for name in names)

    def _note_terminations(self) -> None:
        """A gang is noted as terminated only if it was broken for long enough, and no other is on its way back."""
        body = next((each for (kind, _), each in self.world.store.items() if kind == "PodCliqueSet"), None)
        notes = _notes(body) if body is not None else {}
        for name, at in notes.items():
            if body is None or self._noted.get(name) == at:
                continue
            self.counts["terminated"] += 1
            delay = timedelta(seconds=int(body["spec"]["template"]["terminationDelay"].removesuffix("s")))
            since = [self._below[each] for each in self._gang(name) if each in self._below]
            if not since or datetime.fromisoformat(at) - min(since) < delay - timedelta(seconds=1):
                self._fault(f"{name} is terminated, and has been broken since {since}")
            for other, before in notes.items():
                over = datetime.fromisoformat(at) - datetime.fromisoformat(before) >= DEADLINE
                if other != name and not over and any(each in self._below for each in self._gang(other)):
                    self._fault(f"{name} is terminated while {other} is not back")
            for taken in self._taken:
                mine = name.partition("/")[0].startswith(f"{body['metadata']['name']}-{taken.replica}")
                if not mine and not self._is_over(taken, Seen(self.world.store)):
                    self._fault(f"{name} is terminated while {taken} is not back")
        self._noted = notes

    def _gang(self, name: str) -> list[str]:
        """Return the cliques of what is terminated together."""
        group, _, index = name.partition("/")
        kinds = ("PodClique",) if index else ("PodClique", "PodCliqueScalingGroup")
        cliques = {each: body for (kind, each), body in self.world.store.items() if kind in kinds}
        if index:
            return [each for each, body in cliques.items() if _unit(body) == (group, index)]
        return [each for each, body in cliques.items() if name.endswith(f"-{body['metadata']['labels'][INDEX]}")]

    def _one_replica(self, name: str, replica: str) -> None:
        for taken in list(self._taken):
            if self._is_over(taken, self._seen):
                self._taken.remove(taken)
            elif taken.replica != replica:
                self._fault(f"{name} of replica {replica} goes while {taken} is not back")

    def _is_over(self, taken: Taken, seen: Seen) -> bool:
        """Whether a unit that was taken is back, or was waited for long enough."""
        if self.world.now - taken.at >= DEADLINE:
            return True
        if taken.group:
            size = seen.store.get(("PodCliqueScalingGroup", taken.group))
            works = sum(seen.unit_works(taken.group, each) for each in seen.units(taken.group))
            waited = sum(self._unit_down(taken.group, each, seen) >= DEADLINE for each in seen.units(taken.group))
            return size is None or works + waited >= size["spec"]["replicas"]
        clique = seen.clique(taken.clique)
        if clique is None:
            return True
        waited = sum(not is_ready(pod) and self._down(pod) >= DEADLINE for pod in seen.pods(taken.clique))
        wanted: int = clique["spec"]["replicas"]
        return seen.ready(taken.clique) + waited >= wanted

    def _down(self, pod: JSONObject) -> timedelta:
        """Return how long a pod has not been ready."""
        times = [pod["metadata"]["creationTimestamp"]]
        times += [each["lastTransitionTime"] for each in _words(pod, "Ready") if "lastTransitionTime" in each]
        return self.world.now - max(map(datetime.fromisoformat, times))

    def _unit_down(self, group: str, index: str, seen: Seen) -> timedelta:
        """Return how long a replica of a group has not worked, at the most."""
        times = [timedelta()]
        for name, body in seen.cliques().items():
            if _unit(body) == (group, index) and seen.ready(name) < need(body):
                times += [self._down(pod) for pod in seen.pods(name) if not is_ready(pod)]
        return max(times)


def _notes(body: JSONObject) -> dict[str, str]:
    """Return the gangs that a set's status calls terminated, and since when."""
    return {
        note["name"]: word["lastTransitionTime"]
        for note in body.get("status", {}).get("podGangStatuses", ())
        for word in note["conditions"]
        if word["type"] == "GangTerminationInProgress"
    }


def _words(pod: JSONObject, kind: str) -> Iterator[JSONObject]:
    return (each for each in pod["status"].get("conditions", ()) if each["type"] == kind)


def _config(body: JSONObject, role: str) -> JSONObject:
    return next(each for each in body["spec"]["template"]["cliques"] if each["spec"]["roleName"] == role)


def _group_config(body: JSONObject, full_name: str) -> JSONObject:
    listed = body["spec"]["template"].get("podCliqueScalingGroups", ())
    return next(each for each in listed if full_name.endswith(f"-{each['name']}"))


def _deadline(config: JSONObject) -> timedelta:
    text: str = config.get("rollingUpdate", {}).get("progressDeadline", "600s")
    return timedelta(seconds=int(text.removesuffix("s")))
