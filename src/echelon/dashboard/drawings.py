"""Every rollout that one person may see, drawn, and drawn anew when something around it has changed.

A rollout that is seen for the first time is told by its own status, for its clusters may take seconds to list; it is
drawn to the last cluster as soon as they are there. Drawings take turns: those that somebody has opened come first, the
others as far as the time reaches.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, TypeAlias

from echelon.api.base import JSON, JSONObject
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.dashboard.caches import AtOnce, Caches, StillReading
from echelon.dashboard.noting import NotingReader, Readings
from echelon.dashboard.rows import glance_row, rollout_row, unread_row
from echelon.dashboard.waves import Waves
from echelon.kube.cache import key_of
from echelon.kube.errors import ApiError, Unavailable
from echelon.kube.informer import Delta
from echelon.rollouts.glance import glance
from echelon.rollouts.kinds import ROLLOUT_KINDS, RolloutKind, find_document, readable
from echelon.rollouts.memory import Memory
from echelon.rollouts.names import called
from echelon.rollouts.picture import Picture
from echelon.rollouts.reading import Found
from echelon.rollouts.refusals import Refused

_OPEN_SECONDS = 300.0  # for which a rollout that a page has asked for counts as open
_PATIENCE_SECONDS = 30.0

Name: TypeAlias = tuple[str, Key]  # resource, and where the object is
Title: TypeAlias = tuple[str, str, str]  # kind, namespace and name that people know


@dataclass
class Drawing:
    """One rollout, as it was last drawn."""

    entry: RolloutKind
    document: JSONObject
    memory: Memory = field(default_factory=Memory)
    found: Found | None = None
    picture: Picture | None = None
    error: Refused | ApiError | None = None  # why it cannot be drawn
    waves: Waves | None = None  # its clusters, while somebody looks at them
    asked: float = float("-inf")  # when somebody did, on the loop's clock
    drawn: asyncio.Event = field(default_factory=asyncio.Event)  # to the last cluster, or found out why not

    @property
    def title(self) -> Title:
        """What people call it."""
        kind, name = called(self.entry, self.document)
        return kind, self.document["metadata"]["namespace"], name

    def row(self) -> JSONObject:
        """Return what lists show of it. Its version is another one when a cluster that pages show has changed."""
        made = self.document["metadata"].get("creationTimestamp") or ""
        if self.error is not None:
            row = unread_row(*self.title, self.error.message, made)
        elif self.picture is None:
            row = glance_row(*self.title, glance(self.document), made)
        else:
            row = rollout_row(self.picture, made)
        return {**row, "version": self.waves.version if self.waves is not None else ""}


class Drawings:
    """All rollouts. `wake` is called when there is something to draw."""

    def __init__(self, reader: Caches, wake: Callable[[], None], now: Callable[[], datetime]) -> None:
        self._reader = reader
        self._wake = wake
        self._now = now
        self._kinds = {(each.kind.untyped(), each.labels): each for each in ROLLOUT_KINDS}
        self._drawings: dict[Name, Drawing] = {}
        self._readings = Readings()
        self._stale: dict[Name, None] = {}  # the one that waits longest first
        self._called: dict[Title, Name] = {}
        self._glanced: set[Name] = set()  # those that wait for something to be listed
        self._under_way: set[Name] = set()

    @property
    def stale(self) -> bool:
        """Whether there is something to draw."""
        return bool(self._stale)

    def changed(self, kind: Kind[Any], labels: str, delta: Delta[Any]) -> None:
        """Hear of a change."""
        if (entry := self._kinds.get((kind, labels))) is not None:
            self._put((kind.resource, key_of(delta.object)), entry, delta.new)
        self._mark(self._readings.concerned(kind, delta))

    def opened(self) -> None:
        """Hear that something was listed."""
        self._mark(self._glanced)

    def clock(self) -> None:
        """Draw those anew that are under way: soaks and deadlines pass by themselves."""
        self._mark(self._under_way)

    async def details(self, kind: str, namespace: str, name: str) -> Drawing:
        """Return a rollout, drawn to the last cluster. Raises what keeps the person from it."""
        known = self._called.get((kind, namespace, name))
        if known is None:
            entry, document = await find_document(self._reader, f"{kind}/{name}", namespace)
            known = entry.kind.resource, key_of(document)
            if known not in self._drawings:  # it is there, and its change is about to be heard of
                self._put(known, entry, document)
        drawing = self._drawings[known]
        if not drawing.drawn.is_set():
            drawing.asked = asyncio.get_running_loop().time()  # so that it comes first
            self._wake()
            try:
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    await drawing.drawn.wait()
            except TimeoutError:
                raise Unavailable("the clusters of the rollout are still being read; try again in a moment") from None
        if drawing.error is not None:
            raise drawing.error
        return drawing

    def watch(self, drawing: Drawing) -> Waves:
        """Return the rows of a rollout's clusters, which are kept up to date from now on."""
        drawing.asked = asyncio.get_running_loop().time()
        if drawing.waves is None and drawing.picture is not None:
            drawing.waves = Waves()
            drawing.waves.put(drawing.picture)
        return drawing.waves or Waves()

    def glances(self) -> dict[str, JSON]:
        """Return those that were never drawn as their own status tells of them."""
        return {_id(name): self._row(name) for name in self._stale if not self._is_drawn(name)}

    async def redraw(self, seconds: float) -> dict[str, JSON]:
        """Draw what has changed for so long, the open ones first. Return their rows; none for one that is gone."""
        began, rows = time.perf_counter(), dict[str, JSON]()
        for name in sorted(self._stale, key=self._is_open, reverse=True):  # which keeps the order of all others
            if not self._is_open(name) and time.perf_counter() - began > seconds:
                break
            self._stale.pop(name, None)
            await self._draw(name)
            rows[_id(name)] = self._row(name)
            await asyncio.sleep(0)  # whoever else waits gets a turn between two rollouts
        return rows

    async def _draw(self, name: Name) -> None:
        self._under_way.discard(name)
        self._glanced.discard(name)
        drawing = self._drawings.get(name)
        if drawing is None:
            self._readings.drop(name)
            return
        reader, now = NotingReader(AtOnce(self._reader), partial(self._readings.add, name)), self._now()
        drawing.memory.turn()
        try:
            with readable(drawing.entry.kind, drawing.document):
                drawing.found = await drawing.entry.read(reader, drawing.document, now, drawing.memory)
            drawing.picture, drawing.error = drawing.found.picture(now), None
        except StillReading:
            self._glanced.add(name)
            self._under_way.add(name)
            return
        except (Refused, ApiError) as error:
            drawing.error = error
            self._under_way.add(name)
        else:
            self._show(drawing, drawing.picture)
            if not drawing.picture.over:
                self._under_way.add(name)
        finally:
            self._readings.put(name, reader.notes)
        drawing.drawn.set()

    def _show(self, drawing: Drawing, picture: Picture) -> None:
        if drawing.waves is None:
            return
        if self._is_recent(drawing):
            drawing.waves.put(picture)
        else:
            drawing.waves = None

    def _put(self, name: Name, entry: RolloutKind, document: JSONObject | None) -> None:
        self._stale[name] = None
        if (before := self._drawings.get(name)) is not None:
            self._called.pop(before.title, None)
        if document is None:
            self._drawings.pop(name, None)
            return
        drawing = self._drawings.setdefault(name, before or Drawing(entry, document))
        drawing.document = document
        self._called[drawing.title] = name

    def _mark(self, names: Iterable[Any]) -> None:
        for name in names:
            self._stale.setdefault(name)

    def _row(self, name: Name) -> JSON:
        drawing = self._drawings.get(name)
        return drawing.row() if drawing is not None else None

    def _is_drawn(self, name: Name) -> bool:
        return name not in self._drawings or self._drawings[name].drawn.is_set()

    def _is_open(self, name: Name) -> bool:
        return name in self._drawings and self._is_recent(self._drawings[name])

    def _is_recent(self, drawing: Drawing) -> bool:
        return asyncio.get_running_loop().time() - drawing.asked < _OPEN_SECONDS


def _id(name: Name) -> str:
    return f"{name[0]}/{name[1]}"
