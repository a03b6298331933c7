"""What a set asks for, with every default filled in: the one reading of a set that everybody else goes by.

Defaults are never written into the set itself, where they would look like its user's wishes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

from echelon.api.base import JSONObject
from echelon.engine.pod_clique.template import CliqueTemplate

ROLLING_RECREATE = "RollingRecreate"
ON_DELETE = "OnDelete"
STRATEGIES = (ROLLING_RECREATE, ON_DELETE)

ANY_ORDER = "CliqueStartupTypeAnyOrder"
IN_ORDER = "CliqueStartupTypeInOrder"
EXPLICIT = "CliqueStartupTypeExplicit"

DEFAULT_SCHEDULER = "default-scheduler"
PROGRESS_DEADLINE = timedelta(minutes=10)
TERMINATION_DELAY = timedelta(hours=4)


@dataclass(frozen=True)
class Settings:
    """What whoever runs the controller chose for all sets."""

    init_image: str = ""  # of the program that waits for cliques; without one, nobody can wait


@dataclass(frozen=True)
class AutoScaling:
    """Between which sizes, and by which metrics, something is scaled."""

    min_replicas: int
    max_replicas: int
    metrics: tuple[JSONObject, ...] = ()


@dataclass(frozen=True)
class CliqueSpec:
    """A clique of a set."""

    name: str
    role: str
    replicas: int  # at the start; a PodClique that exists has its own
    min_available: int
    template: CliqueTemplate
    hash: str  # of the template
    starts_after: tuple[str, ...] = ()  # cliques of the set, whichever way the order is given
    autoscaling: AutoScaling | None = None
    max_unavailable: int = 1
    progress_deadline: timedelta = PROGRESS_DEADLINE
    group: str = ""  # the scaling group that it is in


@dataclass(frozen=True)
class GroupSpec:
    """A scaling group of a set."""

    name: str
    clique_names: tuple[str, ...]
    replicas: int  # at the start; a PodCliqueScalingGroup that exists has its own
    min_available: int
    annotations: Mapping[str, str]
    autoscaling: AutoScaling | None = None
    max_unavailable: int = 1
    progress_deadline: timedelta = PROGRESS_DEADLINE


@dataclass(frozen=True)
class SetSpec:
    """A set."""

    replicas: int
    strategy: str
    cliques: tuple[CliqueSpec, ...]  # in the order of the set
    groups: tuple[GroupSpec, ...]
    startup: str
    termination_delay: timedelta
    publish_not_ready: bool
    priority_class: str
    generation_hash: str
    scheduler: str = DEFAULT_SCHEDULER

    @property
    def on_delete(self) -> bool:
        """Whether pods are only updated when somebody deletes them."""
        return self.strategy == ON_DELETE

    @cached_property
    def clique(self) -> Mapping[str, CliqueSpec]:
        """The cliques by name."""
        return {each.name: each for each in self.cliques}

    @cached_property
    def group(self) -> Mapping[str, GroupSpec]:
        """The groups by name."""
        return {each.name: each for each in self.groups}

    @cached_property
    def standalone(self) -> tuple[CliqueSpec, ...]:
        """The cliques that are in no group, in the order of the set."""
        return tuple(each for each in self.cliques if not each.group)

    @cached_property
    def hashes(self) -> Mapping[str, str]:
        """The template hash of each clique by its name."""
        return {each.name: each.hash for each in self.cliques}

    @cached_property
    def waits(self) -> bool:
        """Whether some clique starts after another one, so that its pods need the program that waits."""
        return any(each.starts_after for each in self.cliques)

    def members(self, group: GroupSpec) -> tuple[CliqueSpec, ...]:
        """Return the cliques of a group, in the order in which the group names them."""
        return tuple(self.clique[name] for name in group.clique_names)
