"""The tables of the page: of which kind each is, and what a row of it shows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from echelon.api.base import JSON
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.events import EVENT
from echelon.api.kinds import Kind
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.api.podgangs import POD_GANG
from echelon.api.rollout_ledger import ROLLOUT_LEDGER
from echelon.dashboard import rows
from echelon.engine.policy.names import ROOTS
from echelon.engine.policy.raw_policy import RAW_POLICY


@dataclass(frozen=True)
class Table:
    """Objects of one kind, as rows."""

    name: str
    kind: Kind[Any]
    row: Callable[[Any], JSON]
    labels: str = ""  # where only some of the objects belong into it


CLUSTERS: Final = "clusters"
EVENTS: Final = "events"

TABLES: Final = (
    Table(CLUSTERS, MANAGED_CLUSTER, rows.cluster_row),
    Table("placements", PLACEMENT, rows.placement_row),
    Table("decisions", PLACEMENT_DECISION, rows.decision_row),
    Table("policies", RAW_POLICY, rows.policy_row, ROOTS),
    Table("workloads", ROLLOUT_LEDGER, rows.ledger_row),
    Table("gangs", POD_GANG, rows.gang_row),
    Table(EVENTS, EVENT, rows.event_row),
)
