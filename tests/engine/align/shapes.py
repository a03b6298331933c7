"""What a simulated federated rollout is made of: how large it is, how slow, what people want, and what came of it."""

from dataclasses import dataclass, field
from random import Random

from echelon.engine.align.contract import CLONE_SET, CLONE_SET_V1BETA1, DEPLOYMENT, STATEFUL_SET, Contract
from echelon.engine.align.workload import OnDeficit
from tests.engine.align.deployment_members import Deployment
from tests.engine.align.members import Member, Pace
from tests.engine.align.revisioned_members import CloneSet, ParallelStatefulSet, StatefulSet

KINDS: dict[str, tuple[type[Member], Contract]] = {
    "Deployment": (Deployment, DEPLOYMENT),
    "CloneSet": (CloneSet, CLONE_SET),
    "CloneSet v1beta1": (CloneSet, CLONE_SET_V1BETA1),
    "StatefulSet": (StatefulSet, STATEFUL_SET),
    "parallel StatefulSet": (ParallelStatefulSet, STATEFUL_SET),
}
PARTITIONED = [name for name, (_, contract) in KINDS.items() if contract.has_partition]
FAMILIES = (
    "static",
    "template",
    "scale",
    "crash",
    "cut",
    "knobs",
    "pause",
    "groups",
    "refused",
    "lost",
    "young",
    "mix",
)


@dataclass
class Wish:
    """What people want at present."""

    template: str
    sizes: dict[str, int]
    unavailable: int
    surge: int
    partition: int
    paused: bool = False

    @property
    def total(self) -> int:
        return sum(self.sizes.values())


@dataclass
class Outcome:
    family: str
    kind: str
    seed: int
    strict: list[str]
    excused: list[str]
    races: list[str]
    repairs: list[str]
    stuck: str
    deaths: int
    pushes: int
    rounds: int
    digest: str
    took: float
    waited_for_partition: bool = False
    notes: list[str] = field(default_factory=list)


@dataclass
class Shape:
    """How large and how slow a world is."""

    kind: str
    sizes: dict[str, int]
    unavailable: int
    surge: int
    partition: int = 0
    pace: Pace = field(default_factory=Pace)
    latency: float = 0.3
    telling: bool = True  # agents can tell what is under way
    lossy: float = 0.0
    on_deficit: OnDeficit = OnDeficit.RECLAIM

    @classmethod
    def drawn(cls, rng: Random, kind: str) -> "Shape":
        kind = kind or rng.choice(list(KINDS))
        make, contract = KINDS[kind]
        latency = rng.choice([0.05, 0.3, 1.0, 3.0, 10.0])
        lag = rng.choice([0.0, 0.0, 0.5, 3.0, 8.0]) if make is Deployment else 0.0
        pace = Pace(
            sync=rng.choice([0.05, 0.3, 2.0]), lag=lag, start=(2.0, rng.choice([2.5, 10.0])), end=rng.choice([0.0, 2.0])
        )
        telling = rng.random() < 0.7
        lossy = rng.choice([0.0, 0.0, 0.1, 0.3])
        on_deficit = rng.choice(list(OnDeficit))
        names = [f"c{number}" for number in range(rng.randint(1, 6))]
        sizes = {name: rng.choice([0, 1, 1, 2, 3, 5, 8, 12]) for name in names}
        total = sum(sizes.values())
        surge = rng.choice([0, 0, 1, 2, max(1, total // 4)]) if contract.has_surge else 0
        unavailable = rng.choice([0, 1, 1, 2, max(1, total // 4)])
        if unavailable + surge == 0:
            unavailable = 1
        unavailable = max(unavailable, contract.least_unavailable)
        partition = rng.choice([0, 0, rng.randint(0, total)]) if contract.has_partition else 0
        return cls(kind, sizes, unavailable, surge, partition, pace, latency, telling, lossy, on_deficit)
