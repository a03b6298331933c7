"""Mistakes that a rollout of policies must not make, each put into the product on purpose.

An oracle that has never said no proves nothing. So each mistake is made in the place where somebody could make it, and
the lives of policies have to notice.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from echelon.engine.plan import InOrder
from echelon.engine.policy.content import INFORM
from echelon.engine.policy.replica import Replica
from echelon.engine.policy.writes import ReplicaWrite, ReplicaWrites
from echelon.engine.policy_member import sync
from echelon.engine.policy_member.documents import PolicyDocument
from echelon.engine.rollout.model import ClusterDecision

Mutation = Callable[[pytest.MonkeyPatch], None]

_BRING, _IN_TURNS = ReplicaWrites._bring, ReplicaWrites._in_turns


def status_before_spec(patch: pytest.MonkeyPatch) -> None:
    """Say where a cluster stands with what it does not have yet."""

    def bring(self: ReplicaWrites, cluster: str, replica: Replica | None, *rest: Any, **options: Any) -> ReplicaWrite:
        found = _BRING(self, cluster, replica, *rest, **options)
        return found if replica is None else replace(found, writes=InOrder(tuple(reversed(found.writes.actions))))

    patch.setattr(ReplicaWrites, "_bring", bring)


def demotion(patch: pytest.MonkeyPatch) -> None:
    """Take the walk's answer for the list of those who may be enforced, and not for a leave to start."""

    def in_turns(self: ReplicaWrites, entry: ClusterDecision, replica: Replica | None) -> ReplicaWrite | None:
        found = _IN_TURNS(self, entry, replica)
        released = replica is not None and not replica.held and replica.digest == self._full_digest
        if not released or entry.in_flight or entry.starts:
            return found
        return self._bring(entry.cluster, replica, INFORM, held=True)

    patch.setattr(ReplicaWrites, "_in_turns", in_turns)


def no_hold(patch: pytest.MonkeyPatch) -> None:
    """Give everybody the content in force, before anybody has looked at it."""

    def bring(self: ReplicaWrites, cluster: str, replica: Replica | None, action: str, *, held: bool) -> ReplicaWrite:
        return _BRING(self, cluster, replica, self._content.action if held else action, held=False)

    patch.setattr(ReplicaWrites, "_bring", bring)


def pruning_while_held(patch: pytest.MonkeyPatch) -> None:
    """Delete the objects of templates that have left, also on a cluster that waits for its turn."""

    def is_held(_: PolicyDocument) -> bool:
        return False

    patch.setattr(sync, "is_held", is_held)
