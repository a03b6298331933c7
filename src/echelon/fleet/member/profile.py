"""What a member is like: where it is, which Kubernetes it runs, its machines, its pace, its troubles."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import log
from random import Random

from echelon.fleet.member.trouble import Script

VERSION = "v1.36.1"  # of a Kubernetes of which nothing else is known


@dataclass(frozen=True)
class NodeShape:
    """A machine."""

    cpu: str = "8"
    memory: str = "32Gi"
    pods: str = "110"
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[tuple[str, str, str], ...] = ()  # key, value, effect
    resources: Mapping[str, str] = field(default_factory=dict)  # whatever else it has, such as nvidia.com/gpu


@dataclass(frozen=True)
class Pace:
    """How long things take, in seconds. Starts vary around a median, most of them near it and a few far above."""

    start: float = 2.0
    spread: float = 0.4  # of the logarithm; 0 for always the median
    stop: float = 0.5
    init: float = 1.0  # how long an init container runs
    job: float = 5.0  # how long a pod of a Job runs
    lag: float = 0.0  # how far the controller of ReplicaSets may be behind that of Deployments, at most
    grain: float = 0.0  # kubelets of all members look that often, at the same moments; 0: when something is due

    def start_seconds(self, random: Random) -> float:
        """Draw how long a pod takes to start."""
        return random.lognormvariate(log(self.start), self.spread) if self.start > 0 and self.spread else self.start


@dataclass(frozen=True)
class Profile:
    """A member, as it is meant to be."""

    name: str
    region: str = "eu"
    environment: str = "production"
    version: str = VERSION
    nodes: tuple[NodeShape, ...] = (NodeShape(),)
    pace: Pace = Pace()
    seed: int = 0
    script: Script = field(default_factory=Script)
    labels: Mapping[str, str] = field(default_factory=dict)  # of the ManagedCluster, besides the three below
    heartbeat_seconds: float = 0.0  # 0 for nodes that keep quiet
    # Fewer writes, to the same end: no status of a sync that acted, no pods that terminate, no events but warnings.
    brief: bool = False

    @property
    def minor(self) -> int:
        """The minor version of Kubernetes, which decides about features."""
        return int(self.version.lstrip("v").split(".")[1])

    @property
    def cluster_labels(self) -> dict[str, str]:
        """Labels by which placements choose."""
        return {"region": self.region, "environment": self.environment, "name": self.name, **self.labels}
