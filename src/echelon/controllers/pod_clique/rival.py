"""Whether Grove's own operator is at work on the cluster: two that look after the same pods work against each other.

It holds a lease while it works, whose times are those of another machine's clock. So nobody compares them with ours: a
lease is held for as long as it says after the last change that was seen of it.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from echelon.api.coordination import LEASE, Lease
from echelon.api.keys import Key
from echelon.controllers.context import ControllerContext
from echelon.kube.cache import key_of
from echelon.kube.informer import Delta

LEASE_NAME = "grove-operator-leader-election"  # in whichever namespace the operator was installed
_SECONDS = 15  # of a lease that does not say for how long it is held

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class HeldLease:
    """Who holds such a lease, and until when if it is not renewed."""

    holder: str
    lease: Key
    until: datetime

    def __str__(self) -> str:
        return f"{self.holder} holds the lease {self.lease}"


class Rival:
    """The leases of Grove's operators, and since when each has been as it is."""

    def __init__(self, context: ControllerContext) -> None:
        self._clock = context.clock
        self._since: dict[Key, datetime] = {}
        self._told = ""
        self.leases = context.informer(LEASE, fields=f"metadata.name={LEASE_NAME}")

    def changed(self, delta: Delta[Lease]) -> Iterable[Key]:
        """Follow a lease. No set has to be looked at for it: those that wait look again by themselves."""
        key, now = key_of(delta.object), self._clock.now()
        if delta.new is None:
            self._since.pop(key, None)
        elif delta.old is None or delta.old.spec != delta.new.spec:
            self._since[key] = now
        holding = self.current(now)
        holder = holding.holder if holding is not None else ""
        if holder and holder != self._told:
            _log.error("nothing is done about PodCliqueSets while Grove's own operator works: %s", holding)
        self._told = holder
        return ()

    def current(self, now: datetime) -> HeldLease | None:
        """Return who holds such a lease; None if nobody does."""
        for lease in self.leases.values():
            spec, key = lease.spec, key_of(lease)
            until = self._since.get(key, now) + timedelta(seconds=spec.lease_duration_seconds or _SECONDS)
            if spec.holder_identity and until > now:
                return HeldLease(spec.holder_identity, key, until)
        return None
