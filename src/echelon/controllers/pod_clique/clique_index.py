"""The pods of each clique, read and counted: a clique is counted anew when it or one of its pods has changed.

A set may have ten thousand pods of which one changes at a time. A pod is read when it changes and not when somebody
plans, and what was counted of a clique stays until it is no longer true. The index is compared with the caches from
time to time.

It also knows when pods went. A pod is made from a set that was read after its predecessor had gone: whoever edits a
template and then deletes a pod expects one of the new template, and the caches of both do not come equally far. And it
is made only if the pods of its clique were once compared with those of the server: a first list may be of the past, and
what somebody made since then would be made again.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain

import msgspec

from echelon.api.base import JSONObject
from echelon.api.grove import POD_CLIQUE
from echelon.api.keys import Key
from echelon.api.versions import newer
from echelon.controllers.pod_clique.ownership import Owner, owner_of, sets_of, uid_of
from echelon.engine.pod_clique.pod_facts import PodFacts, read_pod
from echelon.engine.pod_clique.view import CliqueView, read_clique, reread_clique
from echelon.kube.cache import key_of
from echelon.kube.informer import Delta, Informer

BATCH = 250  # so many are compared before others have their turn on the event loop


class CliqueIndex:
    """The pods of all cliques, and the cliques as they were last read."""

    def __init__(self, cliques: Informer[JSONObject], pods: Informer[JSONObject]) -> None:
        self._cliques = cliques
        self._pods = pods
        self._owners: dict[Key, Owner] = {}  # of each pod
        self._facts: dict[str, dict[str, PodFacts]] = {}  # by the uid of the clique, and by name
        self._uids: dict[Key, dict[str, None]] = {}  # of cliques that have pods, by the name that these know them by
        self._views: dict[str, CliqueView] = {}  # by uid
        self._last: dict[str, dict[int, str]] = {}  # by the uid of the clique: of each index the last pod that is gone
        self._recount: set[str] = set()  # uids of cliques whose view has other pods than they have
        self._gone: dict[Key, str] = {}  # of each set: the version at which the last of its pods went
        self._lost: dict[Key, int] = {}  # of each set: how many pods stopped serving
        self._confirmed: set[str] = set()  # uids of cliques whose pods were compared with those of the server
        self._era, self._began = 0, ""

    def view(self, clique: JSONObject) -> CliqueView:
        """Return a clique with its pods; raise `msgspec.ValidationError` if it does not fit its type."""
        uid = uid_of(clique)
        known, changed = self._views.get(uid), uid in self._recount
        if known is not None and known.body is clique and not changed:
            return known
        pods, gone = tuple(self._facts.get(uid, {}).values()), dict(self._last.get(uid, {}))
        if known is None:
            view = read_clique(clique, pods, gone)
        else:
            view = reread_clique(known, clique, pods if changed else None, gone)
        self._views[uid] = view
        self._recount.discard(uid)
        return view

    def has_leftovers(self, namespace: str, cliques: Iterable[CliqueView]) -> bool:
        """Whether earlier cliques of some names have live pods, which the garbage collector has yet to take."""
        uids = self._uids
        for clique in cliques:
            uid, known = clique.metadata.uid, uids.get(Key(namespace, clique.metadata.name))
            if known is None or (len(known) == 1 and uid in known):
                continue
            if any(pod.live for other in known if other != uid for pod in self._facts[other].values()):
                return True
        return False

    def gone_at(self, key: Key) -> str:
        """Return the version at which all pods of a set were gone that are known to be gone."""
        self._see_era()
        self._began = self._began or self._pods.reached
        gone = self._gone.get(key, "")
        return gone if gone and newer(gone, self._began) else self._began

    def is_confirmed(self, uid: str) -> bool:
        """Whether the pods of a clique were once those of the server: since then the cache has brought all of them."""
        self._see_era()
        return uid in self._confirmed

    def confirm(self, uid: str, pods: Mapping[str, str]) -> bool:
        """Compare the pods of a clique with what the server says, uids by name; return whether they are the same."""
        same = {name: each.uid for name, each in self._facts.get(uid, {}).items()} == pods
        if same:
            self._confirmed.add(uid)
        return same

    def _see_era(self) -> None:
        if self._era != self._pods.went_back:  # what is known is of a past that never was
            self._era, self._began = self._pods.went_back, ""
            self._gone.clear()
            self._confirmed.clear()

    def lost(self, key: Key) -> int:
        """Return a number that changes when a pod of a set stops serving."""
        return self._lost.get(key, 0)

    def pod_changed(self, delta: Delta[JSONObject], ours: Container[str] = ()) -> list[Key]:
        """Follow a pod; return the sets to which the change means something.

        `ours` has the uids of pods that we delete: that these stop serving is nothing that a plan did not know.
        """
        here, sets = key_of(delta.object), self.sets(delta)
        known, before = self._owners.get(here), self._drop(here)
        if delta.new is None and known is not None and before is not None and before.index is not None:
            self._last.setdefault(known.uid, {})[before.index] = before.uid
        owner = owner_of(delta.new) if delta.new is not None else None
        after = None
        if delta.new is not None and owner is not None and owner.kind == POD_CLIQUE.kind:
            after = read_pod(delta.new)
            self._put(here, owner, after)
        version = after.version if after is not None else self._pods.seen(here)
        if (after is None and before is not None) or (after is not None and after.terminating):
            self._note_gone(sets, version)
        if before is not None and before.serves and before.uid not in ours and not (after and after.serves):
            for key in sets:
                self._lost[key] = self.lost(key) + 1
        if before is not None and after is not None and _same(before, after):
            return []
        return sets if before is not None or after is not None else []

    def clique_changed(self, delta: Delta[JSONObject]) -> None:
        """Follow a clique. It is read when it changes: after a start a plan would have to read all of them at once."""
        if delta.new is not None:
            with suppress(msgspec.ValidationError):  # the plan tells of it
                self.view(delta.new)
        else:
            uid = uid_of(delta.object)
            self._views.pop(uid, None)
            self._last.pop(uid, None)
            self._recount.discard(uid)
            self._confirmed.discard(uid)

    def verify(self) -> Iterator[str | None]:
        """Compare with the caches; repair what is not the same, and yield what it was.

        Yields None when others may have their turn, so each pod is looked at as it is at that moment.
        """
        pods = chain((key_of(each) for each in self._pods.values()), list(self._owners))
        checks = chain(map(self._verify, pods), map(self._verify_view, list(self._views)))
        for number, difference in enumerate(checks, start=1):
            if difference:
                yield difference
            if number % BATCH == 0:
                yield None

    def _verify(self, key: Key) -> str:
        pod, known = self._pods.get(key), self._owners.get(key)
        owner = owner_of(pod) if pod is not None else None
        if owner is not None and owner.kind != POD_CLIQUE.kind:
            owner = None
        facts = self._facts[known.uid][key.name] if known is not None else None
        should = read_pod(pod) if pod is not None and owner is not None else None
        if (known, facts) == (owner, should):
            return ""
        self._drop(key)
        if owner is not None and should is not None:
            self._put(key, owner, should)
        return f"pod {key}: {_told(known, facts)} instead of {_told(owner, should)}"

    def _verify_view(self, uid: str) -> str:
        view = self._views.get(uid)
        if view is None or uid in self._recount:
            return ""
        if view.pods == tuple(sorted(self._facts.get(uid, {}).values(), key=_name)):
            return ""
        self._recount.add(uid)
        return f"clique {view.name} was counted with other pods than it has"

    def sets(self, delta: Delta[JSONObject]) -> list[Key]:
        """Return the sets that a pod is or was about, by what it says and by the clique that controls it."""
        found: dict[Key, None] = {}
        for pod in (delta.old, delta.new):
            if pod is None:
                continue
            found |= dict.fromkeys(sets_of(pod))
            owner = owner_of(pod)
            clique = self._cliques.get(Key(key_of(pod).namespace, owner.name)) if owner is not None else None
            if clique is not None and owner is not None and uid_of(clique) == owner.uid:
                found |= dict.fromkeys(sets_of(clique))
        return list(found)

    def _note_gone(self, sets: Iterable[Key], version: str) -> None:
        for key in sets:
            known = self._gone.get(key, "")
            if version and (not known or newer(version, known)):
                self._gone[key] = version

    def _put(self, pod: Key, owner: Owner, facts: PodFacts) -> None:
        self._owners[pod] = owner
        self._facts.setdefault(owner.uid, {})[pod.name] = facts
        self._uids.setdefault(Key(pod.namespace, owner.name), {})[owner.uid] = None
        self._recount.add(owner.uid)

    def _drop(self, pod: Key) -> PodFacts | None:
        owner = self._owners.pop(pod, None)
        if owner is None:
            return None
        facts = self._facts[owner.uid]
        found = facts.pop(pod.name)
        self._recount.add(owner.uid)
        if not facts:
            del self._facts[owner.uid]
            clique = Key(pod.namespace, owner.name)
            self._uids[clique].pop(owner.uid, None)
            if not self._uids[clique]:
                del self._uids[clique]
        return found


def _name(pod: PodFacts) -> str:
    return pod.name


def _same(before: PodFacts, after: PodFacts) -> bool:
    """Whether nothing but the version of a pod is different: somebody wrote what nobody here looks at."""
    return msgspec.structs.replace(before, version=after.version) == after


def _told(owner: Owner | None, facts: PodFacts | None) -> str:
    return f"version {facts.version} of clique {owner.name}" if owner is not None and facts is not None else "none"
