"""Which bindings were made from which policy, so that a change of one is not looked for among all of the other."""

from collections.abc import Iterable, Iterator

from echelon.api.karmada import ResourceBinding
from echelon.api.keys import Key
from echelon.engine.workload.names import PLACEMENT
from echelon.engine.workload.propagation_view import holder_of
from echelon.engine.workload.selecting import Claimant
from echelon.kube.cache import key_of
from echelon.kube.informer import Delta, Informer

BATCH = 250  # so many are compared before others have their turn on the event loop


class Claims:
    """Bindings by their policy and by their placement."""

    def __init__(self, bindings: Informer[ResourceBinding]) -> None:
        self._bindings = bindings
        self._held: dict[Claimant, set[Key]] = {}
        self._holders: dict[Key, Claimant] = {}

    def binding_changed(self, delta: Delta[ResourceBinding]) -> None:
        """Follow a binding."""
        self._put(key_of(delta.object), holder_of(delta.new))

    def of(self, claimant: Claimant) -> Iterable[Key]:
        """Return the bindings that were made from a policy."""
        return tuple(self._held.get(claimant, ()))

    def within(self, namespaces: Iterable[str]) -> list[Key]:
        """Return the bindings of some namespaces that were made from any policy."""
        wanted = frozenset(namespaces)
        return [key for key in self._holders if key.namespace in wanted] if wanted else []

    def placed_by(self, placement: Key) -> list[Key]:
        """Return the bindings that follow a placement."""
        return [
            key_of(each)
            for each in self._bindings.values(placement.namespace)
            if each.metadata.annotations.get(PLACEMENT) == placement.name
        ]

    def placed(self) -> list[Key]:
        """Return the bindings that follow any placement."""
        found = ((key, self._bindings.get(key)) for key in self._holders)
        return [key for key, each in found if each is not None and PLACEMENT in each.metadata.annotations]

    def verify(self) -> Iterator[str | None]:
        """Compare with the cache; repair what is not the same, and yield what it was, or None to rest."""
        keys = dict.fromkeys((*(key_of(each) for each in self._bindings.values()), *self._holders))
        for number, key in enumerate(keys, start=1):
            holder = holder_of(self._bindings.get(key))
            if self._holders.get(key) != holder:
                self._put(key, holder)
                yield f"the policy of binding {key}"
            if number % BATCH == 0:
                yield None
        if sum(map(len, self._held.values())) != len(self._holders):
            self._held = {}
            for key, claimant in self._holders.items():
                self._held.setdefault(claimant, set()).add(key)
            yield "policies have other bindings than bindings have policies"

    def _put(self, key: Key, holder: Claimant | None) -> None:
        before = self._holders.pop(key, None)
        if before is not None:
            held = self._held[before]
            held.discard(key)
            if not held:
                del self._held[before]
        if holder is not None:
            self._holders[key] = holder
            self._held.setdefault(holder, set()).add(key)
