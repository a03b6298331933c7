"""Which namespaces a policy is about, for objects that name none.

A namespace is selected if its labels match, a pattern includes it, and none excludes it. A policy that says neither
labels nor patterns selects nothing: to forget them must not mean every namespace. Namespaces that are being deleted are
left out, since nothing can be made there and what is there goes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from echelon.api.configuration_policy import NamespaceSelector
from echelon.api.labels import SelectorError, from_label_selector
from echelon.api.meta import LabelSelector
from echelon.engine.configuration_policy.globs import BadPattern, Globs, TooManyPatterns


@dataclass(frozen=True)
class NamespaceFacts:
    """What is to know of a namespace."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    terminating: bool = False


class BadNamespaceSelector(ValueError):
    """A selector that cannot be understood."""


def select_namespaces(selector: NamespaceSelector, namespaces: Iterable[NamespaceFacts]) -> tuple[str, ...]:
    """Return the names of the selected namespaces, sorted. Raises `BadNamespaceSelector`."""
    by_labels = selector.match_labels is not None or selector.match_expressions is not None
    if not by_labels and not selector.include:
        return ()
    labels = LabelSelector(match_labels=selector.match_labels or {}, match_expressions=selector.match_expressions or [])
    try:
        matching = from_label_selector(labels, "spec.namespaceSelector")
        included, excluded = Globs.of(selector.include), Globs.of(selector.exclude)
    except (SelectorError, BadPattern, TooManyPatterns) as error:
        raise BadNamespaceSelector(str(error)) from None
    return tuple(
        sorted(
            each.name
            for each in namespaces
            if not each.terminating
            and matching.matches(each.labels)
            and (not selector.include or included.matches(each.name))
            and not excluded.matches(each.name)
        )
    )
