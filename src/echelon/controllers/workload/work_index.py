"""The works of each binding as views, kept up to date work by work.

A binding is planned whenever one of its clusters reports, so a work is read when it changes, and not when it is looked
at. The index is compared with the cache from time to time.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from itertools import chain

from echelon.api.karmada import Work
from echelon.api.keys import Key
from echelon.engine.workload.names import cluster_of
from echelon.engine.workload.works import WorkView, owner_of, read_work
from echelon.kube.informer import Delta, Informer

BATCH = 250  # so many are compared before others have their turn on the event loop


class WorkIndex:
    """The works of all bindings, by their own names: one binding has one work in each cluster."""

    def __init__(self, works: Informer[Work]) -> None:
        self._works = works
        self._views: dict[Key, dict[Key, WorkView]] = {}  # of each binding, by the key of the work

    def of(self, key: Key, name: str, taken: Callable[[str], bool]) -> Mapping[str, WorkView]:
        """Return the works of a binding by cluster, as they are now; where there are two, the one that has the name.

        One with another name is of a template that the binding named before, if its name says so and is not taken: no
        other binding has works of that name.
        """
        found: dict[str, WorkView] = {}
        for each in self._views.get(key, {}).values():
            if each.name == name or (each.cluster not in found and each.may_be_of(key) and not taken(each.name)):
                found[each.cluster] = each
        return found

    def strange(self, key: Key, name: str, taken: Callable[[str], bool]) -> tuple[str, ...]:
        """Return the works that say they are of a binding whose works have a name, and cannot be."""
        strange = (
            each
            for each in self._views.get(key, {}).values()
            if each.name != name and not (each.may_be_of(key) and not taken(each.name))
        )
        return tuple(sorted(f"{each.cluster}/{each.name}" for each in strange))

    def changed(self, delta: Delta[Work]) -> Collection[Key]:
        """Follow a work; return the bindings to which the change means something."""
        meta = delta.object.metadata
        here = Key(meta.namespace, meta.name)
        old = owner_of(delta.old) if delta.old is not None else None
        new = owner_of(delta.new) if delta.new is not None else None
        concerned: dict[Key, None] = {}
        if old is not None and new != old:
            self._put(old, here, None)
            concerned[old] = None
        if delta.new is not None and new is not None:
            before = self._views.get(new, {}).get(here)
            after = read_work(delta.new)
            self._put(new, here, after)
            if before is None or replace(before, version=after.version) != after:
                concerned[new] = None
        return tuple(concerned)

    def has_failed(self, key: Key, content: Work) -> bool:
        """Whether a work reports a failure."""
        view = self._views.get(key, {}).get(Key(content.metadata.namespace, content.metadata.name))
        return view is not None and view.report.failed

    def holding(self, cluster: str) -> list[Key]:
        """Return the bindings of which a cluster has a work."""
        return [key for key, views in self._views.items() if any(each.cluster == cluster for each in views.values())]

    def verify(self) -> Iterator[str | None]:
        """Compare with the cache of works; repair what is not the same, and yield what it was.

        Yields None when others may have their turn, so each work is looked at as it is at that moment.
        """
        listed = ((owner_of(each), Key(each.metadata.namespace, each.metadata.name)) for each in self._works.values())
        indexed = ((owner, key) for owner in list(self._views) for key in list(self._views.get(owner, ())))
        for number, (owner, key) in enumerate(chain(listed, indexed), start=1):
            if owner is not None and (difference := self._verify(owner, key)):
                yield difference
            if number % BATCH == 0:
                yield None

    def _verify(self, owner: Key, key: Key) -> str:
        known, work = self._views.get(owner, {}).get(key), self._works.get(key)
        if work is not None and owner_of(work) != owner:
            work = None
        has, should = (known.version if known else "none"), (work.metadata.resource_version if work else "none")
        if has == should:
            return ""
        self._put(owner, key, read_work(work) if work is not None else None)
        return f"work of {owner} in {cluster_of(key.namespace)}: {has} instead of {should}"

    def _put(self, owner: Key, key: Key, view: WorkView | None) -> None:
        views = self._views.setdefault(owner, {})
        if view is not None:
            views[key] = view
            return
        views.pop(key, None)
        if not views:
            del self._views[owner]
