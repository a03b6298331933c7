"""The works of each set as views, kept up to date work by work.

A set of ten thousand works is planned whenever one of them says something, so a work is read into a view when it
changes, and not when it is looked at. The views are compared with the cache from time to time.
"""

from collections.abc import Collection, Iterator, Mapping
from itertools import chain

from echelon.api.keys import Key
from echelon.api.work import ManifestWork
from echelon.engine.rollout.model import Phase
from echelon.engine.work_set.names import SET_LABEL, set_of
from echelon.engine.work_set.view import WorkView, read_work
from echelon.kube.informer import Delta, Informer

BATCH = 250  # so many are compared before others have their turn on the event loop


class WorkIndex:
    """The works of all sets."""

    def __init__(self, works: Informer[ManifestWork]) -> None:
        self._works = works
        self._views: dict[Key, dict[str, tuple[WorkView, ...]]] = {}  # of each set, by cluster

    def of(self, key: Key) -> Mapping[str, tuple[WorkView, ...]]:
        """Return the works of a set by cluster, as they are now."""
        return dict(self._views.get(key, {}))

    def changed(self, delta: Delta[ManifestWork]) -> Collection[Key]:
        """Follow a work; return the sets to which the change means something."""
        old = owner_of(delta.old) if delta.old is not None else None
        meta = delta.object.metadata
        concerned: dict[Key, None] = {}
        if old is not None and (delta.new is None or owner_of(delta.new) != old):
            self._put(old, meta.namespace, meta.name, None)
            concerned[old] = None
        if delta.new is not None and (new := owner_of(delta.new)) is not None:
            before = self._get(new, meta.namespace, meta.name)
            view = read_work(delta.new, before)
            self._put(new, meta.namespace, meta.name, view)
            if before is None or _is_material(before, view):
                concerned[new] = None
        return tuple(concerned)

    def has_failed(self, key: Key, work: ManifestWork) -> bool:
        """Whether a work of a set reports a failure."""
        view = self._get(key, work.metadata.namespace, work.metadata.name)
        return view is not None and view.progress.phase is Phase.FAILED

    def verify(self) -> Iterator[str | None]:
        """Compare with the cache of works; repair what is not the same, and yield what it was.

        Yields None when others may have their turn, so each work is looked at as it is at that moment.
        """
        listed = ((owner_of(each), each.metadata.namespace, each.metadata.name) for each in self._works.values())
        indexed = (
            (owner, cluster, view.name)
            for owner in list(self._views)
            for cluster, views in list(self._views.get(owner, {}).items())
            for view in views
        )
        for number, (owner, cluster, name) in enumerate(chain(listed, indexed), start=1):
            if owner is not None and (difference := self._verify(owner, cluster, name)):
                yield difference
            if number % BATCH == 0:
                yield None

    def _verify(self, owner: Key, cluster: str, name: str) -> str:
        view, work = self._get(owner, cluster, name), self._works.get(Key(cluster, name))
        if work is not None and owner_of(work) != owner:
            work = None
        has, should = (view.version if view else "none"), (work.metadata.resource_version if work else "none")
        if has == should:
            return ""
        self._put(owner, cluster, name, read_work(work, view) if work is not None else None)
        return f"work {cluster}/{name} of set {owner}: {has} instead of {should}"

    def _get(self, key: Key, cluster: str, name: str) -> WorkView | None:
        return next((each for each in self._views.get(key, {}).get(cluster, ()) if each.name == name), None)

    def _put(self, key: Key, cluster: str, name: str, view: WorkView | None) -> None:
        works = self._views.setdefault(key, {})
        others = tuple(each for each in works.get(cluster, ()) if each.name != name)
        after = others if view is None else (*others, view)
        if after:
            works[cluster] = after
            return
        works.pop(cluster, None)
        if not works:
            del self._views[key]


def owner_of(work: ManifestWork) -> Key | None:
    """Return the set that a work is labelled with."""
    found = set_of(work.metadata.labels.get(SET_LABEL, ""))
    return Key(*found) if found is not None else None


def _is_material(before: WorkView, after: WorkView) -> bool:
    """Whether a plan may depend on a change of a work."""
    return _planned_from(before) != _planned_from(after)


def _planned_from(view: WorkView) -> tuple[object, ...]:
    """Return all of a work that a plan depends on, but for its version."""
    return (
        view.uid,
        view.revision,
        view.progress,
        view.placement,
        view.labels,
        view.set_labels,
        view.written,
        view.retried,
        view.terminating,
        view.turned,
        view.turned_noted,
    )
