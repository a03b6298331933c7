"""Which objects of the cluster an object template is about, and so what has to be read before it can be judged."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from echelon.api.configuration_policy import NamespaceSelector
from echelon.api.kinds import Kind
from echelon.engine.configuration_policy.messages import ERROR
from echelon.engine.configuration_policy.namespaces import BadNamespaceSelector, NamespaceFacts, select_namespaces
from echelon.engine.configuration_policy.requests import RequestFailed, Steps, find_kind, list_namespaces
from echelon.engine.configuration_policy.templates import DEFINITION_ERROR, Template, TemplateProblem

MISSING_NAMESPACE = "K8s missing namespace"
NAMESPACE_SELECTOR_ERROR = "namespaceSelector error"

MOST_PLACES = 5000  # of one template: names times namespaces


@dataclass(frozen=True)
class Targets:
    """Where the objects of a template are: in which namespaces (an empty one where the kind has none)."""

    template: Template
    kind: Kind[Any]
    namespaces: tuple[str, ...]


@dataclass
class Namespaces:
    """The namespaces that a policy selects, asked for once and only if somebody needs them."""

    selector: NamespaceSelector
    selected: tuple[str, ...] | None = None

    def select(self) -> Steps[tuple[str, ...]]:
        """Return the selected namespaces. Raises `RequestFailed` and `BadNamespaceSelector`."""
        if self.selected is None:
            found: Sequence[NamespaceFacts] = yield from list_namespaces()
            self.selected = select_namespaces(self.selector, found)
        return self.selected


def find_targets(template: Template, namespaces: Namespaces) -> Steps[Targets | TemplateProblem]:
    """Find out where the objects of a template are."""
    try:
        kind = yield from find_kind(template.api_version, template.kind)
        if kind is None:
            return TemplateProblem(
                template.index,
                ERROR,
                f"couldn't find mapping resource with kind {template.kind} in API version {template.api_version},"
                " please check if you have CRD deployed",
            )
        if not kind.namespaced:
            return Targets(template, kind, ("",))
        if template.namespace:
            return Targets(template, kind, (template.namespace,))
        selected = yield from namespaces.select()
    except BadNamespaceSelector as error:
        return TemplateProblem(template.index, NAMESPACE_SELECTOR_ERROR, str(error))
    except RequestFailed as error:
        return TemplateProblem(template.index, ERROR, str(error))
    if not selected:
        named = f" {template.name}" if template.name else ""
        return TemplateProblem(
            template.index,
            MISSING_NAMESPACE,
            f"namespaced object{named} of kind {template.kind} has no namespace specified from the policy"
            " namespaceSelector nor the object metadata",
        )
    if len(selected) > MOST_PLACES:
        return TemplateProblem(
            template.index,
            DEFINITION_ERROR,
            f"{template.path} is about {len(selected)} namespaces; at most {MOST_PLACES} are possible",
        )
    return Targets(template, kind, selected)
