"""What the reconcilers of one agent share: clients of both sides, a clock, an event recorder, caches and watches.

A kind is listed and kept once, however many reconcilers look at it, and the limit to watches is that of the agent.
"""

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Protocol, TypedDict, TypeVar, Unpack

from echelon.agent.discovery import ServedKinds
from echelon.agent.executor import ActAs
from echelon.agent.keyed_workers import KeyedWorkers
from echelon.agent.object_watches import ObjectWatches
from echelon.agent.settings import HUB_MANAGER, MANAGER, Settings
from echelon.api.kinds import Kind
from echelon.engine.work.identity import Identity
from echelon.kube.cache import Indexer
from echelon.kube.client import Client, Documents
from echelon.kube.clock import Clock
from echelon.kube.controller import Controller
from echelon.kube.events import EventRecorder
from echelon.kube.informer import Informer
from echelon.kube.metrics import Metrics
from echelon.kube.reconciler import Reconciler
from echelon.kube.turns import Turns

T = TypeVar("T")

_LAST_RETRY_SECONDS = 60.0


class Selectors(TypedDict, total=False):
    """Which objects of a kind are meant."""

    labels: str
    fields: str


class Runnable(Protocol):
    """Something that works until it is cancelled; if it raises, the agent ends."""

    @property
    def name(self) -> str:
        """What to call it."""
        ...

    async def run(self) -> None:
        """Work until cancelled."""
        ...


@dataclass(frozen=True)
class Family:
    """The reconcilers of one capability: what runs, and which kinds the cluster has to serve before that."""

    controllers: Sequence[Runnable]
    member_kinds: Sequence[Kind[Any]] = ()


@dataclass
class AgentContext:
    """Makes informers, controllers and workers, and keeps what they have in common."""

    hub: Client
    member: Client
    server: Documents  # of the member: its version and its kinds
    cluster: str
    identity: Identity
    clock: Clock
    random: Random
    metrics: Metrics
    settings: Settings
    act_as: ActAs | None = None
    turns: Turns | None = None  # shared by all agents of a process, if there are many
    make_informer: Callable[..., Informer[Any]] = Informer  # for whoever knows that streams need not end
    _informers: dict[Hashable, Informer[Any]] = field(default_factory=dict)  # by side, kind and selection

    def __post_init__(self) -> None:
        self.kinds = ServedKinds(self.server)
        self.object_watches = ObjectWatches(
            self.member,
            limit=self.settings.max_watches,
            random=self.random,
            metrics=self.metrics,
            make_informer=self.make_informer,
        )
        self.recorder = EventRecorder(
            self.hub, self.clock, HUB_MANAGER, self.cluster, random=self.random, metrics=self.metrics
        )

    @property
    def informers(self) -> list[Informer[Any]]:
        """All informers that were asked for."""
        return list(self._informers.values())

    def branch(self) -> "AgentContext":
        """Return a context for what runs only at times, with informers and watches of its own that end with it."""
        return replace(self, _informers={})

    def hub_informer(self, kind: Kind[T]) -> Informer[T]:
        """Return the informer of what the hub has of a kind for this cluster."""
        return self._informer("hub", kind, self.cluster)

    def member_informer(
        self,
        kind: Kind[T],
        indexers: Mapping[str, Indexer[T]] | None = None,
        namespace: str = "",
        **selectors: Unpack[Selectors],
    ) -> Informer[T]:
        """Return the informer of a kind on the cluster, or of some of it. Whoever needs indexes is the first to ask."""
        return self._informer("member", kind, namespace, indexers, **selectors)

    def member_controller(self, name: str, reconciler: Reconciler) -> Controller:
        """Return a controller that writes to the cluster; it watches nothing yet."""
        return Controller(
            name,
            reconciler,
            self.member,
            self.clock,
            recorder=self.recorder,
            random=self.random,
            manager=MANAGER,
            metrics=self.metrics,
            strict=self.settings.strict,
        )

    def workers(
        self,
        name: str,
        handler: Callable[[str], Awaitable[float | None]],
        *,
        concurrency: int,
        after: Sequence[Informer[Any]],
    ) -> KeyedWorkers:
        """Return workers on keys of names, which begin when the caches `after` are full."""
        return KeyedWorkers(
            name,
            handler,
            random=self.random,
            metrics=self.metrics,
            concurrency=concurrency,
            last_retry=_LAST_RETRY_SECONDS,
            after=after,
            turns=self.turns,
        )

    def _informer(
        self,
        side: str,
        kind: Kind[T],
        namespace: str,
        indexers: Mapping[str, Indexer[T]] | None = None,
        **selectors: Unpack[Selectors],
    ) -> Informer[T]:
        asked = (side, kind.resource, kind.type, namespace, tuple(sorted(selectors.items())))
        made = self._informers.get(asked)
        if made is not None:
            if indexers:
                raise ValueError(f"{kind.resource} has an informer already, and it may be without these indexes")
            return made
        client = self.hub if side == "hub" else self.member
        made = self.make_informer(
            client, kind, namespace, indexers=indexers, random=self.random, metrics=self.metrics, **selectors
        )
        self._informers[asked] = made
        return made
