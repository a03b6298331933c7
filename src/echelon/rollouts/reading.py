"""Reads a rollout from a hub: all that a controller would look at, once, so that both come to the same conclusions."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.controller_revisions import CONTROLLER_REVISION, ControllerRevision
from echelon.api.kinds import Kind
from echelon.api.meta import Condition, ObjectMeta
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.api.rollout import RolloutStrategy, RolloutSummary
from echelon.engine.placement.current import PLACEMENT_LABEL
from echelon.engine.rollout.conditions import BLOCKED, NOT_BOUND, WRITE_FAILED
from echelon.engine.rollout.failed_writes import FAILED_WRITES, decode
from echelon.engine.rollout.references import PlacementReference, believable, read_placement
from echelon.engine.rollout.secret_data import restored
from echelon.engine.rollout.stored_revision import StoredRevision
from echelon.engine.rollout.subject import Subject, WriteOutcomes
from echelon.kube.client import Reader
from echelon.kube.errors import NotFound
from echelon.rollouts.picture import DELETING, DISABLED, ObjectLine, Picture, draw


@dataclass(frozen=True)
class Template:
    """An object that people write, and that another one brings to clusters."""

    kind: Kind[Any]
    name: str


@dataclass(frozen=True)
class Found:
    """What is rolled out, as it is on the hub, and the objects on each cluster, as far as they are known."""

    subject: Subject
    objects: Mapping[str, Sequence[ObjectLine]] = field(default_factory=dict)
    disabled: str = ""  # why no cluster is to have it
    recalls: bool = False  # an abort that has nothing to put back takes back what was released
    note: str = ""  # what could not be seen
    budget: str = ""  # of a budget over all clusters, how much is spent
    losing: tuple[str, ...] = ()  # clusters that lose it if whoever chose them is told that this is meant
    template: Template | None = None  # what people call it by, and undo writes, where that is not its own object
    drawn: Callable[[datetime], Picture] | None = None  # of what is not rolled out over clusters
    refused: Mapping[str, str] = field(default_factory=dict)  # verbs that mean nothing here, and why
    undo: Callable[[StoredRevision], list[JSONObject]] | None = None  # where a revision alone does not tell
    previous: StoredRevision | None = None  # where revisions do not tell whether they were complete: what to go back to

    @property
    def name(self) -> str:
        """What people call it."""
        return self.template.name if self.template else self.subject.metadata.name

    @property
    def kind(self) -> Kind[Any]:
        """Of what people call it."""
        return self.template.kind if self.template else self.subject.kind

    @property
    def title(self) -> str:
        """Where it is, and what people call it."""
        return f"{self.subject.metadata.namespace}/{self.name}"

    def picture(self, now: datetime) -> Picture:
        """Draw it as it is now."""
        if self.drawn is not None:
            return self.drawn(now)
        drawn = draw(self.subject, self.objects, now, recalls=self.recalls)
        drawn = replace(drawn, note=self.note, budget=self.budget, name=self.name, kind=self.kind.singular)
        if self.disabled and drawn.state != DELETING:
            return replace(drawn, state=DISABLED, message=self.disabled)
        return drawn


async def references(
    client: Reader, namespace: str, asked: Iterable[tuple[str, RolloutStrategy]]
) -> tuple[PlacementReference, ...]:
    """Return placements with their decisions, each with the strategy for its clusters."""
    return tuple(await asyncio.gather(*(_reference(client, namespace, *each) for each in asked)))


async def _reference(client: Reader, namespace: str, name: str, strategy: RolloutStrategy) -> PlacementReference:
    try:
        placement = await client.get(PLACEMENT, name, namespace)
    except NotFound:
        return PlacementReference(name, strategy, None)
    decisions = (await client.list(PLACEMENT_DECISION, namespace, labels=f"{PLACEMENT_LABEL}={name}")).items
    counting, owned = believable(placement, decisions)
    return PlacementReference(name, strategy, read_placement(placement, counting, owned=owned))


async def stored_revisions(
    client: Reader, meta: ObjectMeta, labels: str, read: Callable[[ControllerRevision], StoredRevision]
) -> tuple[StoredRevision, ...]:
    """Return the stored revisions of an object, which have a label, oldest first."""
    stored = (await client.list(CONTROLLER_REVISION, meta.namespace, labels=labels)).items
    return restored(sorted(map(read, stored), key=lambda each: each.number), meta.annotations)


def outcomes_of(meta: ObjectMeta, conditions: Iterable[Condition]) -> WriteOutcomes:
    """Return what the controller has told of its writes that failed."""
    content = decode(meta.annotations.get(FAILED_WRITES, ""))
    for each in conditions:
        if (each.type, each.status, each.reason) == (BLOCKED, "True", WRITE_FAILED):
            return WriteOutcomes(content, own=each.message, next_try=datetime.max.replace(tzinfo=UTC))
    return WriteOutcomes(content)


def unbound_clusters(told: RolloutSummary | None) -> frozenset[str]:
    """Return the clusters that the controller may not write; asking for their sets takes rights that few have."""
    listed = told.clusters if told else []
    return frozenset(name for each in listed if each.reason == NOT_BOUND for name in each.names)
