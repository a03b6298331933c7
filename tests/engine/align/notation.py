"""Ledgers, views and workloads, in few words."""

from collections.abc import Mapping

from echelon.engine.align.budgets import Budgets
from echelon.engine.align.contract import CLONE_SET, DEPLOYMENT, Contract, Family
from echelon.engine.align.decisions import Round
from echelon.engine.align.grant import Grant
from echelon.engine.align.ledger import ClusterLedger, Ledger
from echelon.engine.align.retire import observe
from echelon.engine.align.round import align, pushed
from echelon.engine.align.view import MemberView
from echelon.engine.align.workload import OnDeficit, Target, Workload


def view(
    grant: Grant,
    pods: int,
    available: int,
    updated: int,
    *,
    generation: int | None = None,
    observed: int | None = None,
    version: int | None = None,
    settled: bool | None = True,
    told: int | None = None,
    missing: int = 0,
) -> MemberView:
    """Return a snapshot of a member that has a grant; unless said otherwise it has observed it, and is settled."""
    seen = grant.id if generation is None else generation
    return MemberView(
        uid="uid",
        version=10 * grant.id if version is None else version,
        push_id=grant.id,
        generation=seen,
        observed_generation=seen if observed is None else observed,
        replicas=grant.replicas,
        pods=pods,
        available=available,
        updated=updated,
        missing=missing,
        told=told,
        settled=settled,
    )


def entry(family: Family, *events: Grant | MemberView, now: float = 0.0) -> ClusterLedger:
    """Return the ledger of a cluster after grants and snapshots, in order."""
    found = ClusterLedger()
    for event in events:
        found = pushed(found, event) if isinstance(event, Grant) else observe(found, event, family, now)
    return found


def complete(grant: Grant) -> MemberView:
    """Return a snapshot of a member that has come to all that a grant asks for."""
    return view(grant, grant.replicas, grant.replicas, grant.replicas)


def workload(
    template: str,
    sizes: Mapping[str, int],
    *,
    unavailable: int = 1,
    surge: int = 0,
    partition: int = 0,
    stable: str = "",
    contract: Contract = DEPLOYMENT,
    paused: bool = False,
    on_deficit: OnDeficit = OnDeficit.RECLAIM,
) -> Workload:
    """Return a workload whose clusters are all reachable, in one open group, without overrides."""
    budgets = Budgets(sum(sizes.values()), unavailable, surge, partition)
    targets = {name: Target(size, template, stable) for name, size in sizes.items()}
    return Workload(template, contract, budgets, targets, paused=paused, on_deficit=on_deficit)


def ledger(contract: Contract = DEPLOYMENT, stable: str = "", **clusters: tuple[Grant | MemberView, ...]) -> Ledger:
    """Return a ledger in which each cluster has had its events."""
    entries = {name: entry(contract.family, *events) for name, events in clusters.items()}
    last = max(each.grants[-1].grant.id for each in entries.values())
    return Ledger(next_push=last + 1, clusters=entries, stable=stable)


class Clusters:
    """Clusters that report what a test says, and the ledger between the rounds."""

    def __init__(self, wanted: Workload) -> None:
        first = align(wanted, Ledger(), {}, 0.0)
        self.views = {name: complete(grant) for name, grant in first.pushes.items()}
        self.ledger = align(wanted, first.ledger, self.views, 1.0).ledger
        self.version = 1_000

    def report(self, name: str, pods: int, available: int, updated: int) -> None:
        grant = self.ledger.clusters[name].newest
        assert grant is not None
        self.version += 1
        self.views[name] = view(grant, pods, available, updated, version=self.version)

    def round(self, wanted: Workload, now: float = 2.0) -> Round:
        found = align(wanted, self.ledger, self.views, now)
        self.ledger = found.ledger
        return found


__all__ = ["CLONE_SET", "DEPLOYMENT", "Clusters", "complete", "entry", "ledger", "view", "workload"]
