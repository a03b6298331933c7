"""What one person sees of a hub, kept up to date by watches that are opened when somebody first asks.

It reads like a client, so whatever reads a rollout from a server reads it from here. A kind is watched over all
namespaces where the person may list those, else in each namespace that is asked for; what is refused is refused here,
too, and asked for again later. A right that somebody loses takes what it showed with it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar, Unpack, cast

from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.kube.cache import Indexer, identity_of
from echelon.kube.client import Event, ListOptions, Page, Reader, WatchOptions
from echelon.kube.errors import ApiError, Forbidden, NotFound, Unauthorized, Unreadable
from echelon.kube.informer import Delta, Informer
from echelon.kube.misfits import Misfit

T = TypeVar("T")


class StillReading(Exception):
    """What was asked for is being listed for the first time."""


_BY_LABEL, _BY_NAME = "label", "name"
_NAME_FIELD = "metadata.name="
_LOST = (Forbidden, NotFound, Unauthorized)


@dataclass(frozen=True)
class _Place:
    """What one watch is about."""

    kind: Kind[Any]
    namespace: str
    labels: str


class Caches:
    """Everything that one person watches.

    `changed` hears of each change, and by which selector; `opened` when a watch has become complete, or is refused.
    """

    def __init__(
        self,
        reader: Reader,
        changed: Callable[[Kind[Any], str, Delta[Any]], None],
        opened: Callable[[], None],
        *,
        random: Random,
        only: Mapping[Kind[Any], str] | None = None,
    ) -> None:
        """`only` has selectors for kinds of which most objects are of no interest."""
        self._reader = reader
        self._changed = changed
        self._told_opened = opened
        self._random = random
        self._only = dict(only or {})
        self._informers: dict[_Place, Informer[Any]] = {}
        self._tasks: dict[_Place, asyncio.Task[None]] = {}
        self._opening: dict[_Place, asyncio.Task[Informer[Any]]] = {}
        self._refused: dict[_Place, ApiError] = {}

    async def get(self, kind: Kind[T], name: str, namespace: str = "") -> T:
        """Return one object."""
        informer = await self._informer(kind, namespace)
        key = Key(namespace, name)
        if (misfit := informer.unreadable.get(key)) is not None:
            raise Unreadable(f"{misfit.where} cannot be read: {misfit.why}")
        found = informer.get(key)
        if found is None:
            raise NotFound(f'{kind.resource} "{name}" not found')
        return cast("T", found)

    async def list(self, kind: Kind[T], namespace: str = "", **options: Unpack[ListOptions]) -> Page[T]:
        """Return the objects of a namespace, or of all when it is empty."""
        labels, fields = options.get("labels", ""), options.get("fields", "")
        if (fields and not fields.startswith(_NAME_FIELD)) or (fields and labels):
            return await self._reader.list(kind, namespace, **options)
        equality = is_equality(labels)
        informer = await self._informer(kind, namespace, "" if equality else labels)
        if fields:
            found = informer.by_index(_BY_NAME, fields.removeprefix(_NAME_FIELD))
        elif labels and equality:
            found = informer.by_index(_BY_LABEL, labels)
        else:
            found = informer.values(namespace)
        if namespace and informer.namespace != namespace:
            found = [each for each in found if identity_of(each).key.namespace == namespace]
        misfits = [each for each in informer.unreadable.values() if _fits(each, namespace, labels, fields)]
        ordered = sorted(found, key=lambda each: identity_of(each).key)
        return Page(ordered, informer.reached, unreadable=misfits)

    def watch(self, kind: Kind[T], namespace: str = "", **options: Unpack[WatchOptions]) -> AsyncIterator[Event[T]]:
        """Follow changes, as the reader behind this one does."""
        return self._reader.watch(kind, namespace, **options)

    async def follow(self, kind: Kind[Any], namespaces: Iterable[str], labels: str = "") -> ApiError | None:
        """Watch a kind as far as the person may. Return why nothing of it can be seen, if so."""
        try:
            await self._opened(_Place(kind, "", self._selector(kind, labels)))
        except NotFound as error:
            return error
        except ApiError as error:
            refusal: ApiError | None = error
        else:
            return None
        if not kind.namespaced:
            return refusal
        for namespace in namespaces:
            with suppress(Forbidden, NotFound):
                await self._opened(_Place(kind, namespace, self._selector(kind, labels)))
                refusal = None
        return refusal

    def require(self, kind: Kind[Any], namespace: str, labels: str = "") -> None:
        """Begin to watch what has to be known for an answer. Raises `StillReading` while it is not."""
        selector = self._selector(kind, "" if is_equality(labels) else labels)
        places = [_Place(kind, "", selector)]
        places += [_Place(kind, namespace, selector)] if namespace and kind.namespaced else []
        for place in places:
            refusal = self._refused.get(place)
            if place in self._informers or (refusal is not None and not isinstance(refusal, Forbidden)):
                return
            if refusal is None:
                self._begin(place)
                raise StillReading(kind.resource)

    async def check(self) -> None:
        """Ask again for what was refused, and let go of what would be by now. Raises `Unauthorized`."""
        self._refused.clear()
        for place in list(self._informers):
            try:
                await self._reader.list(place.kind, place.namespace, labels=place.labels, limit=1)
            except Unauthorized:
                raise
            except (Forbidden, NotFound) as error:
                self._refused[place] = error
                self._drop(place)
            except ApiError:
                continue  # the server is away, and the informer knows how to wait

    async def close(self) -> None:
        """End all watches."""
        tasks = [*self._tasks.values(), *self._opening.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _drop(self, place: _Place) -> None:
        informer = self._informers.pop(place)
        self._tasks.pop(place).cancel()
        for each in informer.values():
            self._changed(place.kind, place.labels, Delta(each, None))

    def _selector(self, kind: Kind[Any], labels: str) -> str:
        return labels or self._only.get(kind, "")

    async def _informer(self, kind: Kind[Any], namespace: str, labels: str = "") -> Informer[Any]:
        selector = self._selector(kind, labels)
        try:
            return await self._opened(_Place(kind, "", selector))
        except Forbidden:
            if not namespace or not kind.namespaced:
                raise
        return await self._opened(_Place(kind, namespace, selector))

    async def _opened(self, place: _Place) -> Informer[Any]:
        """Return what watches a place, once it knows everything there."""
        if (found := self._informers.get(place)) is not None:
            return found
        if (refusal := self._refused.get(place)) is not None:
            raise refusal
        return await asyncio.shield(self._begin(place))

    def _begin(self, place: _Place) -> asyncio.Task[Informer[Any]]:
        if place not in self._opening:
            opening = asyncio.create_task(self._open(place), name=f"opening {place.kind.resource}")
            opening.add_done_callback(_heed)
            self._opening[place] = opening
        return self._opening[place]

    async def _open(self, place: _Place) -> Informer[Any]:
        try:
            await self._reader.list(place.kind, place.namespace, labels=place.labels, limit=1)
            informer: Informer[Any] = Informer(
                self._reader,
                place.kind,
                place.namespace,
                labels=place.labels,
                indexers=_INDEXERS,
                random=self._random,
            )
            task = asyncio.create_task(informer.run(), name=f"watching {place.kind.resource}")
            self._tasks[place] = task
            await informer.wait_synced()
        except _LOST as error:
            self._refused[place] = error
            self._told_opened()
            raise
        finally:
            del self._opening[place]
        self._informers[place] = informer
        informer.on_change(lambda delta: self._changed(place.kind, place.labels, delta))
        self._told_opened()
        return informer


class AtOnce:
    """Reads what caches have, and waits for nothing that they have yet to list. Raises `StillReading`."""

    def __init__(self, caches: Caches) -> None:
        self._caches = caches

    async def get(self, kind: Kind[T], name: str, namespace: str = "") -> T:
        """Return one object."""
        self._caches.require(kind, namespace)
        return await self._caches.get(kind, name, namespace)

    async def list(self, kind: Kind[T], namespace: str = "", **options: Unpack[ListOptions]) -> Page[T]:
        """Return the objects of a namespace, or of all when it is empty."""
        self._caches.require(kind, namespace, options.get("labels", ""))
        return await self._caches.list(kind, namespace, **options)

    def watch(self, kind: Kind[T], namespace: str = "", **options: Unpack[WatchOptions]) -> AsyncIterator[Event[T]]:
        """Follow changes, as the reader behind this one does."""
        return self._caches.watch(kind, namespace, **options)


def _heed(opening: asyncio.Task[Informer[Any]]) -> None:
    """Take note of a failure that perhaps nobody waits for: whoever asks next tries again."""
    if not opening.cancelled():
        opening.exception()


def is_equality(labels: str) -> bool:
    """Whether a selector names one label and its value, so that an index answers it."""
    key, equals, value = labels.partition("=")
    return not labels or (bool(equals) and not {*"!,=() "} & {*key, *value})


def labels_of(obj: Any) -> Mapping[str, str]:
    """Return the labels of an object, be it typed or a plain document."""
    found = obj["metadata"].get("labels") if isinstance(obj, dict) else obj.metadata.labels
    return found or {}


def _by_label(obj: Any) -> Iterable[str]:
    return (f"{key}={value}" for key, value in labels_of(obj).items())


def _by_name(obj: Any) -> Iterable[str]:
    return (identity_of(obj).key.name,)


_INDEXERS: Mapping[str, Indexer[Any]] = {_BY_LABEL: _by_label, _BY_NAME: _by_name}


def _fits(misfit: Misfit, namespace: str, labels: str, fields: str) -> bool:
    meta = misfit.metadata
    key, _, value = labels.partition("=")
    return (
        (not namespace or meta.namespace == namespace)
        and (not fields or meta.name == fields.removeprefix(_NAME_FIELD))
        and (not labels or not is_equality(labels) or meta.labels.get(key) == value)
    )
