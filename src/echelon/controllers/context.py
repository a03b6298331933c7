"""What the controllers of one process stand on together: a client, a clock, metrics, and caches that they share.

A fleet is listed and kept once, however many controllers look at it.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, TypedDict, TypeVar, Unpack

from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.controllers.queued_recorder import QueuedRecorder
from echelon.controllers.settings import DEFAULTS, ControllerSettings
from echelon.engine.plan import Emit, Plan, Reference
from echelon.kube.act import Failed, Recorder, Written
from echelon.kube.cache import Indexer
from echelon.kube.checking import Verify
from echelon.kube.client import Client, Writer
from echelon.kube.clock import Clock
from echelon.kube.controller import Controller
from echelon.kube.events import EventRecorder
from echelon.kube.informer import Informer
from echelon.kube.metrics import Metrics
from echelon.kube.misfits import Misfit
from echelon.kube.queue import Debounce
from echelon.kube.reconciler import Reconciler

T = TypeVar("T")


class ControllerOptions(TypedDict, total=False):
    """What a controller may be given beside what all have in common; `Controller` tells what each is."""

    workers: int
    manager: str
    routine_seconds: float
    guard_seconds: float
    debounce: Debounce
    on_plan: Callable[[Key, Plan], None]
    on_written: Callable[[Key, Written], None]
    on_failed: Callable[[Key, Failed], bool]
    basis: Callable[[Key], object]
    verify: Verify


@dataclass
class ControllerContext:
    """Makes informers, recorders and controllers."""

    client: Client
    clock: Clock
    random: Random
    metrics: Metrics
    instance: str  # of this process, in the events that it writes
    settings: ControllerSettings = DEFAULTS
    absent: frozenset[Kind[Any]] = frozenset()  # optional kinds that the hub does not serve
    recorders: list[QueuedRecorder] = field(default_factory=list)
    background: list[Callable[[], Awaitable[None]]] = field(default_factory=list)  # what else runs with the controllers
    _informers: dict[tuple[str, str], Informer[Any]] = field(default_factory=dict)
    _indexed: dict[tuple[str, str], Mapping[str, Indexer[Any]]] = field(default_factory=dict)
    _of_informers: QueuedRecorder = field(init=False)  # tells of objects that cannot be read

    def __post_init__(self) -> None:
        self._of_informers = self.recorder("informers")

    def informer(
        self,
        kind: Kind[T],
        *,
        labels: str = "",
        fields: str = "",
        indexers: Mapping[str, Indexer[T]] | None = None,
    ) -> Informer[T]:
        """Return the informer of a kind. Whoever needs indexes asks first, or for those that it has."""
        which = (kind.resource, f"{labels};{fields}")
        made = self._informers.get(which)
        if made is None:
            made = Informer(
                self.client,
                kind,
                labels=labels,
                fields=fields,
                indexers=indexers,
                random=self.random,
                metrics=self.metrics,
            )
            made.on_unreadable(partial(self._tell_unreadable, made))
            self._informers[which] = made
            self._indexed[which] = indexers or {}
        elif made.kind.type != kind.type:
            raise ValueError(f"{kind.resource} has an informer already, and it reads them otherwise")
        elif indexers and indexers != self._indexed[which]:
            raise ValueError(f"{kind.resource} has an informer already, and it is without these indexes")
        return made

    def serves(self, kind: Kind[Any]) -> bool:
        """Whether the hub serves a kind that is among the `OPTIONAL_KINDS` of a controller: ask before its informer."""
        return kind not in self.absent

    @property
    def informers(self) -> list[Informer[Any]]:
        """All informers that were asked for."""
        return list(self._informers.values())

    def _tell_unreadable(self, informer: Informer[Any], misfit: Misfit) -> None:
        """Tell people of an object that no controller here can read."""
        meta = misfit.metadata
        if Key(meta.namespace, meta.name) not in informer.unreadable:
            return
        regarding = Reference(informer.kind, meta.name, meta.namespace, meta.uid)
        note = f"it does not fit its type and counts neither as changed nor as gone: {misfit.why}"
        self._of_informers.put(Emit(regarding, "Unreadable", "Read", note, "Warning"))

    def recorder(self, reporting_controller: str) -> QueuedRecorder:
        """Return what writes events in the name of a controller."""
        direct = EventRecorder(
            self.client, self.clock, reporting_controller, self.instance, random=self.random, metrics=self.metrics
        )
        recorder = QueuedRecorder(direct, self.metrics)
        self.recorders.append(recorder)
        return recorder

    def controller(
        self,
        name: str,
        reconciler: Reconciler,
        *,
        client: Writer | None = None,
        clock: Clock | None = None,
        recorder: Recorder | None = None,
        **options: Unpack[ControllerOptions],
    ) -> Controller:
        """Return a controller, which watches nothing yet."""
        return Controller(
            name,
            reconciler,
            client or self.client,
            clock or self.clock,
            recorder=recorder or self.recorder(name),
            random=self.random,
            metrics=self.metrics,
            strict=self.settings.strict,
            **options,
        )
