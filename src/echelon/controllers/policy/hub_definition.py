"""Which of Echelon's fields the hub keeps in policies, as its own definition of them says.

Nothing is planned before that is known. A hub without such a definition serves policies by itself, and whole.
"""

from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.keys import Key
from echelon.api.policy import POLICY
from echelon.controllers.context import ControllerContext
from echelon.engine.policy.kept_fields import OWN_FIELDS, STRATEGY, kept_fields
from echelon.kube.informer import Delta, Informer


class HubDefinition:
    """Follows the definition of policies."""

    def __init__(self, context: ControllerContext) -> None:
        self.informer: Informer[JSONObject] = context.informer(
            CUSTOM_RESOURCE_DEFINITION.untyped(), fields=f"metadata.name={POLICY.resource}"
        )
        self._known: tuple[str, frozenset[str]] = ("", frozenset(OWN_FIELDS))

    @property
    def keeps_strategy(self) -> bool:
        """Whether a strategy in the spec survives."""
        return STRATEGY in self._kept()

    @property
    def keeps_status(self) -> bool:
        """Whether everything survives that Echelon adds to a status."""
        return self._kept() >= frozenset(OWN_FIELDS) - {STRATEGY}

    def changed(self, delta: Delta[JSONObject]) -> bool:
        """Whether a change of the definition means anything."""
        before = self._known[1]
        return delta.old is None or before != self._kept()

    def _kept(self) -> frozenset[str]:
        definition = self.informer.get(Key("", POLICY.resource))
        if definition is None:
            return frozenset(OWN_FIELDS)
        version = definition["metadata"].get("resourceVersion", "")
        if self._known[0] != version:
            self._known = version, kept_fields(definition)
        return self._known[1]
