"""Templates of all kinds that are propagated, found by the name of their binding.

A binding is named after its template, `web-deployment`, and no kind has a dash: so that name alone says where the
template is, and one key is enough for both.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from echelon.api.apps import DAEMON_SET, DEPLOYMENT, STATEFUL_SET
from echelon.api.base import JSONObject
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.kruise import CLONE_SET
from echelon.controllers.context import ControllerContext
from echelon.engine.workload.names import binding_name
from echelon.kube.cache import key_of
from echelon.kube.informer import Informer

KINDS: tuple[Kind[Any], ...] = (DEPLOYMENT, STATEFUL_SET, DAEMON_SET)
CLONE_SET_V1BETA1: Kind[Any] = replace(CLONE_SET, version="v1beta1")
# Both versions are of the same objects: the first that the hub serves is enough.
CLONE_SETS: tuple[Kind[Any], ...] = (CLONE_SET, CLONE_SET_V1BETA1)


class Templates:
    """The caches of templates."""

    def __init__(self, context: ControllerContext) -> None:
        served = [*KINDS, *[each for each in CLONE_SETS if context.serves(each)][:1]]
        self.kinds: tuple[Kind[Any], ...] = tuple(served)
        self._caches = {kind.singular: (kind, context.informer(kind.untyped())) for kind in served}

    def informers(self) -> Iterator[tuple[Kind[Any], Informer[JSONObject]]]:
        """Return the kinds that the hub serves, each with its cache."""
        yield from self._caches.values()

    def find(self, key: Key) -> tuple[Kind[Any], JSONObject] | None:
        """Return the template whose binding has this key, if there is one."""
        name, _, kind = key.name.rpartition("-")
        known = self._caches.get(kind)
        template = known[1].get(Key(key.namespace, name)) if known is not None else None
        return (known[0], template) if known is not None and template is not None else None

    def keys(self, kind: Kind[Any], namespace: str = "") -> Iterator[Key]:
        """Return the keys of the templates of a kind, in a namespace or in all."""
        known = self._caches.get(kind.singular)
        for template in known[1].values(namespace) if known is not None else ():
            yield key_for(kind, template)


def key_for(kind: Kind[Any], template: JSONObject) -> Key:
    """Return where the binding of a template is."""
    namespace, name = key_of(template)
    return Key(namespace, binding_name(name, kind.kind))
