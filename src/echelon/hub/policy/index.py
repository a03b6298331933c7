"""The policies that are in force in one cluster, found by what a request is about.

Most writes are about resources that no policy mentions, and they must not pay for those that do: what is asked of a
resource is worked out once, and again only when a policy, a binding or a CRD has changed.
"""

from dataclasses import dataclass, field
from typing import Final

from echelon.api.admissionregistration import GROUP, VALIDATING_ADMISSION_POLICY, VALIDATING_ADMISSION_POLICY_BINDING
from echelon.api.base import JSONObject
from echelon.hub.catalogue.catalogue import Catalogue
from echelon.hub.catalogue.resources import Resource
from echelon.hub.policy.expressions import Expressions, PolicyError, expressions_of
from echelon.hub.policy.matching import Choice, constraints_of

POLICIES: Final = VALIDATING_ADMISSION_POLICY.resource
BINDINGS: Final = VALIDATING_ADMISSION_POLICY_BINDING.resource


@dataclass(frozen=True)
class Binding:
    """A binding, as far as it matters for one resource."""

    name: str
    choice: Choice
    actions: tuple[str, ...]


@dataclass(frozen=True)
class Asked:
    """What one policy asks of requests for one resource."""

    policy: str
    choice: Choice
    bindings: tuple[Binding, ...]
    expressions: Expressions | None
    broken: str = ""  # why there are no expressions


@dataclass
class Policies:
    """Follows the policies and bindings of a cluster."""

    _policies: dict[str, JSONObject] = field(default_factory=dict)
    _bindings: dict[str, JSONObject] = field(default_factory=dict)
    _asked: dict[tuple[str, str, str, str], tuple[Asked, ...]] = field(default_factory=dict)
    _generation: int = -1

    def changed(self, resource: str, name: str, obj: JSONObject | None) -> None:
        """Take note of a policy or binding that was written, or with None deleted."""
        known = self._policies if resource == POLICIES else self._bindings
        if obj is None:
            known.pop(name, None)
        else:
            known[name] = obj["spec"]
        self._asked.clear()

    def about(self, resource: Resource, subresource: str, catalogue: Catalogue) -> tuple[Asked, ...]:
        """Return what is asked of requests for a resource, policies and bindings by name."""
        if not self._bindings:
            return ()
        if self._generation != catalogue.generation:
            self._asked.clear()
            self._generation = catalogue.generation
        kind = resource.kind
        key = (kind.group, kind.version, kind.plural, subresource)
        found = self._asked.get(key)
        if found is None:
            found = self._asked[key] = self._work_out(resource, subresource, catalogue)
        return found

    def _work_out(self, resource: Resource, subresource: str, catalogue: Catalogue) -> tuple[Asked, ...]:
        if resource.kind.group == GROUP:
            return ()  # a policy about policies could lock everybody out for ever
        same = [each for each in catalogue if each.stored_as == resource.stored_as and each is not resource]
        found = []
        for name, spec in sorted(self._policies.items()):
            choice = constraints_of(spec.get("matchConstraints")).about(resource, subresource, same)
            bindings = tuple(self._bound(name, resource, subresource, same)) if choice is not None else ()
            if choice is not None and bindings:
                found.append(_asked(name, spec, choice, bindings))
        return tuple(found)

    def _bound(self, policy: str, resource: Resource, subresource: str, same: list[Resource]) -> list[Binding]:
        found = []
        for name, spec in sorted(self._bindings.items()):
            if spec.get("policyName") != policy:
                continue
            choice = constraints_of(spec.get("matchResources"), binding=True).about(resource, subresource, same)
            if choice is not None:
                found.append(Binding(name, choice, tuple(spec.get("validationActions") or ())))
        return found


def _asked(name: str, spec: JSONObject, choice: Choice, bindings: tuple[Binding, ...]) -> Asked:
    try:
        return Asked(name, choice, bindings, expressions_of(spec))
    except PolicyError as error:  # it was stored when CEL was installed, or by somebody who could do more
        if spec.get("failurePolicy") == "Ignore":
            return Asked(name, choice, (), None)
        return Asked(name, choice, bindings, None, f"failed to configure policy: {error}")
