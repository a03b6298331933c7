"""The worst that a cluster can come to, whatever it acts on.

A reach starts at the last snapshot and is extended grant by grant, in the order of the pushes: a later push acts
after the earlier ones. `floor` is the lowest availability that the member can bring about by choice, `ceiling` the
most pods that it can have, `updated` the most pods of the wanted revision. All three are sound, not exact: pods that
die by themselves are nobody's choice, and the next snapshot tells of them.
"""

from typing import NamedTuple, Protocol

from echelon.engine.align.clone_set_bounds import CloneSetReach
from echelon.engine.align.contract import Family
from echelon.engine.align.deployment_bounds import DeploymentReach
from echelon.engine.align.grant import Grant, Outstanding
from echelon.engine.align.ledger import ClusterLedger
from echelon.engine.align.stateful_set_bounds import StatefulSetReach


class Bounds(NamedTuple):
    """What a cluster is charged with."""

    floor: int
    ceiling: int
    updated: int


class Reach(Protocol):
    """How far a member can get under the grants so far."""

    @property
    def floor(self) -> int:
        """The lowest availability."""

    @property
    def ceiling(self) -> int:
        """The most pods."""

    @property
    def updated(self) -> int:
        """The most updated pods."""

    def under(self, grant: Grant) -> "Reach":
        """Return how far it can get if it may act on one more grant."""

    def after(self, replaced: Outstanding) -> "Reach":
        """Return how far it can get by what it decided under a grant that was replaced."""


_REACHES = {
    Family.DEPLOYMENT: DeploymentReach.of,
    Family.CLONE_SET: CloneSetReach.of,
    Family.STATEFUL_SET: StatefulSetReach.of,
}


def reach_of(entry: ClusterLedger, family: Family, revision: str) -> Reach:
    """Return how far a member can get under all its outstanding grants; `revision` is the one that is rolled out."""
    reach: Reach = _REACHES[family](entry, revision)
    for each in entry.grants:
        reach = reach.under(each.grant) if each.replaced_at is None else reach.after(each)
    return reach


def bounds_of(entry: ClusterLedger, family: Family, revision: str) -> Bounds:
    """Return the bounds of a cluster."""
    reach = reach_of(entry, family, revision)
    return Bounds(reach.floor, reach.ceiling, reach.updated)
