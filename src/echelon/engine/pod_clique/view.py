"""What was observed of a set, frozen: the set, its cliques with their pods, its groups, its gangs, and the rest.

Whoever observes keeps a `CliqueView` for each clique and makes it anew (`read_clique`) only when the clique or one of
its pods has changed; the same for groups and gangs. So a plan finds everything read and counted, and what costs time is
paid for what changed and not for what is there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

import msgspec

from echelon.api.base import JSONObject
from echelon.api.grove import PodClique, PodCliqueScalingGroup
from echelon.api.grovestatus import PodCliqueScalingGroupStatus, PodCliqueSetStatus, PodCliqueStatus
from echelon.api.kinds import Kind
from echelon.api.meta import ObjectMeta
from echelon.api.podgangs import PodGang, PodGangStatus
from echelon.api.times import parse_time
from echelon.engine.pod_clique.accepting import Accepted, NotAccepted, accept
from echelon.engine.pod_clique.names import TEMPLATE_HASH
from echelon.engine.pod_clique.pod_facts import EPOCH, PodFacts
from echelon.engine.pod_clique.revisions import SetRevision, read_revision
from echelon.engine.pod_clique.set_spec import SetSpec, Settings
from echelon.engine.pod_clique.tally import NO_PODS, Tally, tally_of


@dataclass(frozen=True)
class CliqueView:
    """A PodClique and its pods."""

    body: JSONObject
    metadata: ObjectMeta
    name: str
    terminating: bool  # it is being deleted
    created: datetime
    replicas: int
    min_available: int
    hash: str  # of the template that it has, by its label
    status: PodCliqueStatus
    pods: tuple[PodFacts, ...] = ()
    tally: Tally = NO_PODS
    gone: Mapping[int, str] = field(default_factory=dict)  # uids of the last pods that are gone, by index, if known
    derived: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)  # what plans found out about it


@dataclass(frozen=True)
class GroupView:
    """A PodCliqueScalingGroup."""

    body: JSONObject
    metadata: ObjectMeta
    name: str
    terminating: bool  # it is being deleted
    created: datetime
    replicas: int
    min_available: int
    status: PodCliqueScalingGroupStatus
    derived: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)  # what plans found out about it


@dataclass(frozen=True)
class GangView:
    """A PodGang."""

    body: JSONObject
    metadata: ObjectMeta
    name: str
    terminating: bool  # it is being deleted
    listed: Mapping[str, frozenset[str]]  # names of pods by clique
    wanted: Mapping[str, int]  # how many of them start together, by clique
    status: PodGangStatus
    derived: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)  # what plans found out about it


@dataclass(frozen=True)
class FailedWrite:
    """A write of an earlier plan that was not taken; `message` has the server's words."""

    kind: Kind[Any]
    name: str
    verb: str  # create, patch, delete
    code: str  # the reason of the server's answer, or of having none
    message: str
    since: datetime


@dataclass(frozen=True)
class SetReading:
    """A PodCliqueSet with its stored revisions, and what it asks for."""

    body: JSONObject
    metadata: ObjectMeta
    status: PodCliqueSetStatus
    revisions: tuple[SetRevision, ...]
    accepted: Accepted | NotAccepted
    settings: Settings
    derived: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)  # what plans found out about it

    @property
    def spec(self) -> SetSpec | None:
        """What it asks for, or did when it was last accepted; None if that is not known."""
        return self.accepted.spec


@dataclass(frozen=True)
class SetView:
    """All that a plan for one set looks at. Children are those that the set owns, by name."""

    set: SetReading
    cliques: Mapping[str, CliqueView] = field(default_factory=dict)
    groups: Mapping[str, GroupView] = field(default_factory=dict)
    gangs: Mapping[str, GangView] = field(default_factory=dict)
    services: Mapping[str, JSONObject] = field(default_factory=dict)
    service_accounts: Mapping[str, JSONObject] = field(default_factory=dict)
    roles: Mapping[str, JSONObject] = field(default_factory=dict)
    role_bindings: Mapping[str, JSONObject] = field(default_factory=dict)
    secrets: Mapping[str, JSONObject] = field(default_factory=dict)
    autoscalers: Mapping[str, JSONObject] = field(default_factory=dict)
    reread: bool = True  # the set was read after the last of its pods that went had gone
    failed: tuple[FailedWrite, ...] = ()
    refused: frozenset[str] = frozenset()  # cliques whose pods the server does not take
    held: frozenset[str] = frozenset()  # those of them that are not due again yet


def read_set(body: JSONObject, revisions: Sequence[JSONObject] = (), settings: Settings = Settings()) -> SetReading:  # noqa: B008 - frozen
    """Read a PodCliqueSet with its ControllerRevisions. Hashing costs, so do this only when one of them changed."""
    stored = tuple(found for each in revisions if (found := read_revision(each)) is not None)
    metadata, status = _read_status(body)
    return SetReading(
        body=body,
        metadata=metadata,
        status=status,
        revisions=stored,
        accepted=accept(body, stored, settings),
        settings=settings,
    )


def reread_set(before: SetReading, body: JSONObject) -> SetReading:
    """Read a PodCliqueSet of which an earlier state was read, with the same revisions.

    Mostly nothing but its status is new. Then what it asks for is the same, and so is what was found out about that.
    """
    metadata, status = _read_status(body)
    if _is_alike(before.body, body) and before.metadata.generation == metadata.generation:
        return replace(before, body=body, metadata=metadata, status=status)
    accepted = accept(body, before.revisions, before.settings)
    return SetReading(body, metadata, status, before.revisions, accepted, before.settings)


def _read_status(body: JSONObject) -> tuple[ObjectMeta, PodCliqueSetStatus]:
    status = body.get("status")
    return (
        msgspec.convert(body["metadata"], ObjectMeta),
        msgspec.convert(status if isinstance(status, dict) else {}, PodCliqueSetStatus),
    )


def read_clique(
    body: JSONObject, pods: Sequence[PodFacts] = (), gone: Mapping[int, str] = MappingProxyType({})
) -> CliqueView:
    """Read a PodClique with its pods, in any order, and the uids of pods that are gone, by index."""
    clique = msgspec.convert(body, PodClique)
    spec = clique.spec
    ordered = tuple(sorted(pods, key=lambda pod: pod.name))
    return CliqueView(
        body=body,
        metadata=clique.metadata,
        name=clique.metadata.name,
        terminating=bool(clique.metadata.deletion_timestamp),
        created=_created(clique.metadata),
        replicas=spec.replicas,
        min_available=spec.replicas if spec.min_available is None else spec.min_available,
        hash=clique.metadata.labels.get(TEMPLATE_HASH, ""),
        status=clique.status,
        pods=ordered,
        tally=tally_of(ordered),
        gone=gone,
    )


def reread_clique(
    before: CliqueView, body: JSONObject, pods: Sequence[PodFacts] | None, gone: Mapping[int, str]
) -> CliqueView:
    """Read a PodClique of which an earlier state, or other pods, were read; `pods` are None if they are the same.

    What costs time and has not changed is taken over: mostly it is its status that is new, or one of its pods.
    """
    clique = before if body is before.body else read_clique(body)
    if pods is None:
        ordered, tally = before.pods, before.tally
    else:
        ordered = tuple(sorted(pods, key=lambda pod: pod.name))
        tally = tally_of(ordered)
    kept = {"patch": before.derived["patch"]} if "patch" in before.derived and _is_alike(before.body, body) else {}
    return replace(clique, pods=ordered, tally=tally, gone=gone, derived=kept)


def _is_alike(one: JSONObject, other: JSONObject) -> bool:
    """Whether nothing but the status of an object is different, and what servers note of a write."""
    if one is other:
        return True
    mine, its = one["metadata"], other["metadata"]
    same = all(mine.get(each) == its.get(each) for each in ("uid", "labels", "annotations", "ownerReferences"))
    return same and one.get("spec") == other.get("spec")


def read_group(body: JSONObject) -> GroupView:
    """Read a PodCliqueScalingGroup."""
    group = msgspec.convert(body, PodCliqueScalingGroup)
    return GroupView(
        body=body,
        metadata=group.metadata,
        name=group.metadata.name,
        terminating=bool(group.metadata.deletion_timestamp),
        created=_created(group.metadata),
        replicas=group.spec.replicas,
        min_available=group.spec.min_available,
        status=group.status,
    )


def read_gang(body: JSONObject) -> GangView:
    """Read a PodGang."""
    gang = msgspec.convert(body, PodGang)
    return GangView(
        body=body,
        metadata=gang.metadata,
        name=gang.metadata.name,
        terminating=bool(gang.metadata.deletion_timestamp),
        listed={
            group.name: frozenset(reference.name for reference in group.pod_references)
            for group in gang.spec.pod_groups
        },
        wanted={group.name: group.min_replicas for group in gang.spec.pod_groups},
        status=gang.status,
    )


def _created(metadata: ObjectMeta) -> datetime:
    return parse_time(metadata.creation_timestamp) or EPOCH
