"""The ledger of a federated workload: everything that some cluster might still act on.

One object holds the whole ledger of a binding, so that writing it is one compare-and-swap: of two leaders only one can
spend a unit of a budget. Its spec is for programs, and opaque: nobody edits it, and whoever deletes it makes the
rollout stand still until every cluster has reported anew. Its status is for people: what the budgets are, what is left
of them, and what each cluster has of them and waits for.
"""

from typing import Annotated, Any

import msgspec

from echelon.api.base import APIStruct, field
from echelon.api.kinds import Column, Kind
from echelon.api.meta import ObjectMeta
from echelon.api.printing import AGE
from echelon.api.rollout import RolloutSummary

GROUP = "echelon.dev"


class RolloutLedgerSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """The ledger itself."""

    format: Annotated[int, field("Version of the format of the content.", minimum=1)]
    content: Annotated[str, field("The ledger, as JSON. It is written by controllers only.")]


class Budget(APIStruct, frozen=True, gc=False, kw_only=True):
    """The budgets, as numbers of pods over all clusters."""

    total: Annotated[int, field("Pods that are wanted.")] = msgspec.field(default_factory=int)
    unavailable: Annotated[int, field("Pods that may be missing.")] = msgspec.field(default_factory=int)
    surge: Annotated[int, field("Pods that may be too many.")] = msgspec.field(default_factory=int)
    partition: Annotated[int, field("Pods that keep the old template.")] = msgspec.field(default_factory=int)


class BudgetLeft(APIStruct, frozen=True, gc=False, kw_only=True):
    """What is left of the budgets if the worst happens that was granted; less than nothing where pods died."""

    unavailable: Annotated[int, field("Pods that may yet be taken away.")] = msgspec.field(default_factory=int)
    surge: Annotated[int, field("Pods that may yet be made beside the others.")] = msgspec.field(default_factory=int)
    updates: Annotated[int | None, field("Pods that may yet be updated, where a partition keeps some.")] = None


class ClusterGrant(APIStruct, frozen=True, gc=False, kw_only=True):
    """One cluster: what it was granted last, what it might do with all that it was granted, and what it waits for."""

    name: Annotated[str, field("The cluster.")]
    push_id: Annotated[int, field("Number of the last push.", format="int64")] = msgspec.field(default_factory=int)
    revision: Annotated[str, field("Hash of the pod template that it was sent, after overrides.")] = ""
    replicas: Annotated[int, field("Replicas that it was granted.")] = msgspec.field(default_factory=int)
    unavailable: Annotated[int, field("maxUnavailable that it was granted.")] = msgspec.field(default_factory=int)
    surge: Annotated[int, field("maxSurge that it was granted.")] = msgspec.field(default_factory=int)
    partition: Annotated[int, field("Pods that it keeps old.")] = msgspec.field(default_factory=int)
    paused: Annotated[bool, field("Whether it is paused.")] = False
    floor: Annotated[int, field("Available pods below which it does not go by itself.")] = msgspec.field(
        default_factory=int
    )
    ceiling: Annotated[int, field("Pods beyond which it makes none.")] = msgspec.field(default_factory=int)
    outstanding: Annotated[int, field("Pushes on which it might still act.")] = msgspec.field(default_factory=int)
    pods: Annotated[int, field("Pods that it reported.")] = msgspec.field(default_factory=int)
    available: Annotated[int, field("Available pods that it reported.")] = msgspec.field(default_factory=int)
    updated: Annotated[int, field("Pods of its last template that it reported.")] = msgspec.field(default_factory=int)
    wait: Annotated[str, field("What it waits for, as one word; empty if it is complete.")] = ""
    message: Annotated[str, field("The same as a sentence.", max_length=1024)] = ""
    complete_since: Annotated[str, field("Since when it is complete; empty if it is not.", format="date-time")] = ""


class RolloutLedgerStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """The ledger in figures."""

    complete: Annotated[bool, field("Whether every cluster has come to all that was asked.")] = False
    stalled_since: Annotated[
        str, field("Since when nothing moves although too few pods are available.", format="date-time")
    ] = ""
    budget: Annotated[Budget | None, field("The budgets of the workload.")] = None
    left: Annotated[BudgetLeft | None, field("What is left of them.")] = None
    available: Annotated[int, field("Available pods, as last reported.")] = msgspec.field(default_factory=int)
    updated: Annotated[int, field("Updated pods, as last reported.")] = msgspec.field(default_factory=int)
    clusters: Annotated[list[ClusterGrant], field("Each cluster.", list_map_keys=("name",))] = []
    rollout: Annotated[RolloutSummary | None, field("Where the clusters stand in the rollout.")] = None


class RolloutLedger(APIStruct, frozen=True, gc=False, kw_only=True):
    """What was granted to the clusters of a federated workload. It has the name of its ResourceBinding."""

    api_version: str = f"{GROUP}/v1alpha1"
    kind: str = "RolloutLedger"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[RolloutLedgerSpec, field("The ledger.")]
    status: Annotated[RolloutLedgerStatus, field("The ledger in figures.")] = RolloutLedgerStatus()


ROLLOUT_LEDGER = Kind(
    GROUP,
    "v1alpha1",
    "RolloutLedger",
    "rolloutledgers",
    RolloutLedger,
    status=True,
    columns=(
        Column("Total", ".status.budget.total", type="integer"),
        Column("Updated", ".status.updated", type="integer"),
        Column("Available", ".status.available", type="integer"),
        Column("MaxUnavailable", ".status.budget.unavailable", type="integer"),
        Column("MaxSurge", ".status.budget.surge", type="integer"),
        Column("Complete", ".status.complete", type="boolean"),
        AGE,
    ),
)

KINDS: tuple[Kind[Any], ...] = (ROLLOUT_LEDGER,)
