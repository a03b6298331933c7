"""Reads all that is known of a set into one value that does not change any more.

What was read of an object is kept for as long as the cache has the very same object, so a plan costs what has changed
and not what is there.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Generic, TypeVar

from echelon.api.autoscaling import HORIZONTAL_POD_AUTOSCALER
from echelon.api.base import JSONObject
from echelon.api.core import SERVICE
from echelon.api.grove import POD_CLIQUE_SET
from echelon.api.keys import Key
from echelon.api.rbac import ROLE, ROLE_BINDING
from echelon.api.service_accounts import SERVICE_ACCOUNT
from echelon.controllers.pod_clique.caches import Caches
from echelon.controllers.pod_clique.clique_index import CliqueIndex
from echelon.controllers.pod_clique.ownership import owner_of, uid_of
from echelon.controllers.pod_clique.refusals import Refusals
from echelon.controllers.pod_clique.set_reader import SetReader
from echelon.engine.pod_clique.set_spec import Settings
from echelon.engine.pod_clique.view import (
    CliqueView,
    GangView,
    GroupView,
    SetReading,
    SetView,
    read_gang,
    read_group,
    read_set,
    reread_set,
)
from echelon.kube.cache import key_of
from echelon.kube.informer import Delta

V = TypeVar("V")


class _Read(Generic[V]):
    """Objects of a kind as they were read, by uid, with what they were read from."""

    def __init__(self, read: Callable[[JSONObject], V]) -> None:
        self._read = read
        self._known: dict[str, tuple[JSONObject, V]] = {}

    def of(self, obj: JSONObject) -> V:
        uid = uid_of(obj)
        known = self._known.get(uid)
        if known is None or known[0] is not obj:
            known = self._known[uid] = obj, self._read(obj)
        return known[1]

    def follow(self, delta: Delta[JSONObject]) -> None:
        if delta.new is None:
            self._known.pop(uid_of(delta.object), None)


class SetObserver:
    """Observes sets."""

    def __init__(
        self, caches: Caches, index: CliqueIndex, reader: SetReader, refusals: Refusals, settings: Settings
    ) -> None:
        self._caches = caches
        self._index = index
        self._reader = reader
        self._refusals = refusals
        self._settings = settings
        self.groups: _Read[GroupView] = _Read(read_group)
        self.gangs: _Read[GangView] = _Read(read_gang)
        self._sets: dict[Key, tuple[JSONObject, Sequence[JSONObject], SetReading]] = {}

    def observe(self, key: Key, found: JSONObject, now: datetime) -> SetView:
        """Return what is known of a set; raise `msgspec.ValidationError` if an object of it does not fit its type."""
        caches, uid = self._caches, uid_of(found)
        groups = sorted(caches.groups.by_index("owner", uid), key=_name)
        cliques = {view.name: view for view in self._cliques(found, groups)}
        return SetView(
            set=self._reading(key, found, uid),
            cliques=cliques,
            groups={_name(each): self.groups.of(each) for each in groups},
            gangs={_name(each): self.gangs.of(each) for each in sorted(caches.gangs.by_index("owner", uid), key=_name)},
            services=caches.children(SERVICE, uid),
            service_accounts=caches.children(SERVICE_ACCOUNT, uid),
            roles=caches.children(ROLE, uid),
            role_bindings=caches.children(ROLE_BINDING, uid),
            secrets=caches.secrets_of(uid),
            autoscalers=caches.children(HORIZONTAL_POD_AUTOSCALER, uid),
            reread=self._is_reread(key, cliques.values()),
            failed=self._refusals.facts(key),
            refused=self._refusals.cliques(key),
            held=self._refusals.held(key, now),
        )

    def forget(self, key: Key) -> None:
        """Let go of a set that is gone."""
        self._sets.pop(key, None)

    def _is_reread(self, key: Key, cliques: Iterable[CliqueView]) -> bool:
        """Whether pods may be made.

        The set was read after others went, the pods of cliques that lack some are those that the server has, and none
        of an earlier clique of such a name is there.
        """
        if not self._reader.is_read(key, self._index.gone_at(key)):
            return False
        lacking = [each for each in cliques if each.tally.live < each.replicas]
        return not self.unconfirmed(lacking) and not self._index.has_leftovers(key.namespace, lacking)

    def unconfirmed(self, cliques: Iterable[CliqueView]) -> dict[str, str]:
        """Return the cliques that lack pods, as far as is known, and of which the server has not been asked yet.

        They are uids by name.
        """
        return {
            each.name: each.metadata.uid
            for each in cliques
            if each.tally.live < each.replicas and not self._index.is_confirmed(each.metadata.uid)
        }

    def _cliques(self, found: JSONObject, groups: Sequence[JSONObject]) -> Iterator[CliqueView]:
        """Return the cliques of a set and of its groups, in the order of their names."""
        owned = [each for owner in (found, *groups) for each in self._caches.cliques.by_index("owner", uid_of(owner))]
        for each in sorted(owned, key=_name):
            yield self._index.view(each)

    def _reading(self, key: Key, found: JSONObject, uid: str) -> SetReading:
        """Return a set with its revisions; hashing a large one costs, so it is read once for each state of both."""
        revisions = sorted(self._caches.revisions.by_index("owner", uid), key=_name)
        known = self._sets.get(key)
        if known is None or not _are_same(known[1], revisions):
            known = self._sets[key] = found, revisions, read_set(found, revisions, self._settings)
        elif known[0] is not found:
            known = self._sets[key] = found, revisions, reread_set(known[2], found)
        return known[2]


def sets_of_clique(caches: Caches, clique: JSONObject) -> list[Key]:
    """Return the set that a clique belongs to by its owners, of whom one may be a scaling group."""
    owner, namespace = owner_of(clique), key_of(clique).namespace
    if owner is None:
        return []
    if owner.kind == POD_CLIQUE_SET.kind:
        return [Key(namespace, owner.name)]
    group = caches.groups.get(Key(namespace, owner.name))
    above = owner_of(group) if group is not None and uid_of(group) == owner.uid else None
    return [Key(namespace, above.name)] if above is not None and above.kind == POD_CLIQUE_SET.kind else []


def _name(obj: JSONObject) -> str:
    name: str = obj["metadata"]["name"]
    return name


def _are_same(known: Sequence[JSONObject], found: Sequence[JSONObject]) -> bool:
    return len(known) == len(found) and all(one is other for one, other in zip(known, found, strict=True))
