"""The pods that OnDelete left: which they are, and in which order somebody may delete them.

Whoever works through them wants to be done, and wants the service to go on. What is not ready goes first, for it serves
nobody; then the oldest revision. A ready pod goes only if enough units stay ready after it: pods of a standalone
clique, or replicas of a scaling group, which are units as a whole. So once a pod is taken that its replica of a group
cannot do without, the other outdated pods of that replica go with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from echelon.api.times import format_time
from echelon.engine.pod_clique.floor import rolling_floor
from echelon.engine.pod_clique.names import CliqueKey
from echelon.engine.pod_clique.pod_facts import PodFacts
from echelon.engine.pod_clique.shape import expected
from echelon.engine.pod_clique.standing import (
    CliqueStanding,
    GroupStanding,
    ReplicaStanding,
    Templates,
    standings,
    templates_of,
)
from echelon.engine.pod_clique.view import SetView


@dataclass(frozen=True)
class OutdatedPod:
    """A live pod that runs another template than its clique has."""

    pod: PodFacts
    clique: str  # its full name
    key: CliqueKey
    revision: int  # of the template that it runs; -1 if that is not stored any more
    since: str  # since when its clique has another one

    @property
    def order(self) -> tuple[object, ...]:
        """By which those that go first come first."""
        return self.pod.serves, self.pod.scheduled, self.revision, self.key, self.pod.name


@dataclass(frozen=True)
class Choice:
    """Which outdated pods go now, and why the others stay."""

    goes: tuple[OutdatedPod, ...]
    stays: tuple[tuple[OutdatedPod, str], ...]


@dataclass(frozen=True)
class SetAge:
    """A set as it stands: each of its replicas, and how old templates are."""

    replicas: tuple[ReplicaStanding, ...] = ()
    templates: Templates = field(default_factory=lambda: Templates({}, {}))


def stand(view: SetView) -> SetAge:
    """Judge a set by its pods; one that was never accepted has nothing that could be judged."""
    spec = view.set.spec
    if spec is None:
        return SetAge()
    templates = templates_of(spec, view.set.revisions)
    groups = {name: each.replicas for name, each in view.groups.items() if not each.terminating}
    cliques = {name: each.replicas for name, each in view.cliques.items() if not each.terminating}
    shape = expected(spec, view.set.metadata.name, groups, cliques)
    return SetAge(standings(shape, view, templates, {}), templates)


def outdated_pods(standing: SetAge) -> list[OutdatedPod]:
    """Return the outdated pods of a set, in the order in which they may go."""
    found = [
        each
        for replica in standing.replicas
        for clique in replica.everything
        if clique.outdated
        for each in _outdated(clique, standing.templates)
    ]
    return sorted(found, key=attrgetter("order"))


def choose(standing: SetAge, pods: Sequence[OutdatedPod], most: int) -> Choice:
    """Choose at most so many pods to delete now, so that after each of them enough units are ready."""
    rooms: dict[tuple[int, str], _Room | _GroupRoom] = {}
    for replica in standing.replicas:
        rooms |= {(replica.index, each.expected.name): _Room.of(each) for each in replica.cliques}
        rooms |= {(replica.index, each.expected.key.group): _GroupRoom.of(each) for each in replica.groups}
    goes: list[OutdatedPod] = []
    stays: list[tuple[OutdatedPod, str]] = []
    for each in _finishing(pods):
        if len(goes) >= most:
            stays.append((each, f"no more than {most} at once"))
            continue
        room = rooms[each.key.replica, each.key.group or each.clique]
        if why := room.take(each):
            stays.append((each, why))
        else:
            goes.append(each)
    return Choice(tuple(goes), tuple(stays))


def _finishing(pods: Sequence[OutdatedPod]) -> list[OutdatedPod]:
    """Return pods in their order, those of one replica of a group one after the other."""
    first: dict[object, int] = {}
    unit_of = [(each.pod.serves, each.key[:3]) if each.key.group else each.pod.uid for each in pods]
    for position, unit in enumerate(unit_of):
        first.setdefault(unit, position)
    numbered = sorted(range(len(pods)), key=lambda position: (first[unit_of[position]], position))
    return [pods[position] for position in numbered]


@dataclass
class _Room:
    """How many ready pods of a standalone clique may go."""

    name: str
    ready: int
    floor: int

    @classmethod
    def of(cls, clique: CliqueStanding) -> "_Room":
        spec, replicas = clique.expected.spec, clique.replicas
        least = spec.min_available if clique.view is None else clique.view.min_available
        return cls(clique.expected.name, clique.tally.ready, rolling_floor(least, replicas, spec.max_unavailable))

    def take(self, pod: OutdatedPod) -> str:
        """Take a pod; return why it has to stay, if it has to."""
        if not pod.pod.serves:
            return ""
        if self.ready <= self.floor:
            return f"{self.name} has {self.ready} ready pods and needs {self.floor}"
        self.ready -= 1
        return ""


@dataclass
class _GroupRoom:
    """How many available replicas of a scaling group may go."""

    name: str
    available: int
    floor: int
    ready: dict[str, int]  # by clique
    need: dict[str, int]  # by clique
    down: set[int]  # replicas that are not available

    @classmethod
    def of(cls, group: GroupStanding) -> "_GroupRoom":
        spec, units = group.spec, group.units
        cliques = [each for unit in units for each in unit.cliques]
        return cls(
            group.expected.name,
            sum(unit.available for unit in units),
            rolling_floor(spec.min_available, group.expected.replicas, spec.max_unavailable),
            {each.expected.name: each.tally.ready for each in cliques},
            {each.expected.name: each.need for each in cliques},
            {unit.index for unit in units if not unit.available},
        )

    def take(self, pod: OutdatedPod) -> str:
        """Take a pod; return why it has to stay, if it has to."""
        if not pod.pod.serves:
            return ""
        index, left = pod.key.group_replica, self.ready[pod.clique] - 1
        if index not in self.down and left < self.need[pod.clique]:
            if self.available <= self.floor:
                return f"{self.name} has {self.available} available replicas and needs {self.floor}"
            self.available -= 1
            self.down.add(index)
        self.ready[pod.clique] = left
        return ""


def _outdated(clique: CliqueStanding, templates: Templates) -> list[OutdatedPod]:
    view, key = clique.view, clique.expected.key
    if view is None:
        return []
    progress = view.status.update_progress
    since = view.status.outdated_since or (progress.update_started_at if progress is not None else "")
    return [
        OutdatedPod(
            pod, clique.expected.name, key, templates.age(key.clique, pod.hash), since or format_time(pod.created)
        )
        for pod in view.pods
        if pod.live and not clique.is_current(pod.hash)
    ]
