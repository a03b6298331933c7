"""Leases, which controllers elect their leader with."""

from typing import Annotated, Any

from echelon.api.base import APIStruct, field
from echelon.api.kinds import Column, Kind
from echelon.api.meta import ObjectMeta
from echelon.api.printing import AGE


class LeaseSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """Who holds the lease."""

    holder_identity: Annotated[str | None, field("Who holds it.")] = None
    lease_duration_seconds: Annotated[int | None, field("Seconds after which others may take it.", minimum=1)] = None
    acquire_time: Annotated[str, field("When the holder got it.", format="date-time")] = ""
    renew_time: Annotated[str, field("When the holder last renewed it.", format="date-time")] = ""
    lease_transitions: Annotated[int | None, field("How often it changed hands.", minimum=0)] = None
    strategy: Annotated[str | None, field("How holders are chosen.")] = None
    preferred_holder: Annotated[str | None, field("Who should get it next.")] = None


class Lease(APIStruct, frozen=True, gc=False, kw_only=True):
    """A lock that runs out."""

    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[LeaseSpec, field("Who holds it.")] = LeaseSpec()


LEASE = Kind(
    "coordination.k8s.io",
    "v1",
    "Lease",
    "leases",
    Lease,
    builtin=True,
    columns=(Column("Holder", ".spec.holderIdentity"), AGE),
)

KINDS: tuple[Kind[Any], ...] = (LEASE,)
