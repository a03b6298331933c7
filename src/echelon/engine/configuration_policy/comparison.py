"""A definition against a live object: what the object would be if it did what the definition says.

Of the metadata only labels and annotations count, and of those not what a server or kubectl keeps there for itself.
The status is looked at and never written: it is for controllers to report.
"""

from dataclasses import dataclass
from typing import Any

from echelon.api.base import JSONObject
from echelon.engine.configuration_policy.effort import Effort
from echelon.engine.configuration_policy.equality import compare_values
from echelon.engine.configuration_policy.matching import Merged, merge
from echelon.engine.configuration_policy.scalars import Likeness
from echelon.engine.configuration_policy.templates import Must, Template
from echelon.engine.work.updating import with_plain_data

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

_IDENTITY = ("apiVersion", "kind")
_SCC_PREFIX = "openshift.io/sa.scc."
# Top-level keys that stay although a definition which must have nothing else does not mention them.
_KEPT = frozenset({*_IDENTITY, "metadata", "status"})
_KEPT_OF_ACCOUNTS = _KEPT | {"secrets", "imagePullSecrets"}


@dataclass(frozen=True)
class Comparison:
    """What an object would be, and how that differs from what it is.

    `differs`: it is certainly another one; `doubt`: a server may see no difference where the texts have one.
    """

    wanted: JSONObject
    differs: bool
    doubt: bool
    status_differs: bool

    @property
    def matches(self) -> bool:
        """Whether the object is as specified, as far as that can be told without the server."""
        return not self.differs and not self.status_differs


def desired_content(template: Template) -> JSONObject:
    """Return a definition as it can be compared: `stringData`, which no server shows, is part of the data."""
    definition = template.definition
    return with_plain_data(definition) if (template.api_version, template.kind) == ("v1", "Secret") else definition


def compare(template: Template, live: JSONObject) -> Comparison:
    """Compare an object with the definition of a template. Raises `TooMuchEffort`."""
    effort, definition = Effort(), desired_content(template)
    wanted, differs, doubt, status_differs = dict(live), False, False, False
    for key, value in definition.items():
        if key in _IDENTITY:
            continue
        if key == "metadata":
            found = _metadata(template, value or {}, live.get("metadata") or {}, effort)
        else:
            found = _field(template.must, live.get(key), value, effort)
        if key == "status":
            status_differs = found.differs
        elif found.changed:
            wanted[key] = found.value
            differs, doubt = differs or found.differs, doubt or found.doubt
    if template.must is Must.ONLY_HAVE:
        kept = _KEPT_OF_ACCOUNTS if template.kind == "ServiceAccount" else _KEPT
        surplus = [key for key in live if key not in definition and key not in kept]
        wanted = {key: value for key, value in wanted.items() if key not in surplus}
        differs = differs or bool(surplus)
    return Comparison(wanted, differs, doubt, status_differs)


def _field(must: Must, existing: Any, desired: Any, effort: Effort) -> Merged:
    if must is not Must.ONLY_HAVE:
        return merge(existing, desired, effort)
    found = compare_values(existing, desired, effort)
    if found is Likeness.SAME:
        return Merged(existing)
    return Merged(desired, found is Likeness.OTHER, found is Likeness.DOUBTFUL)


def _metadata(template: Template, desired: JSONObject, existing: JSONObject, effort: Effort) -> Merged:
    value, differs, doubt = dict(existing), False, False
    for part in ("labels", "annotations"):
        if part not in desired:
            continue
        there, wanted = existing.get(part), desired[part] or {}
        if part == "annotations":
            ignored = {key: each for key, each in (there or {}).items() if _is_ignored(template, key)}
            wanted = {**{key: each for key, each in wanted.items() if key != LAST_APPLIED}, **ignored}
        found = _field(template.metadata_must, there, wanted, effort)
        if found.changed:
            value[part] = found.value
            differs, doubt = differs or found.differs, doubt or found.doubt
    return Merged(value, differs, doubt) if differs or doubt else Merged(existing)


def _is_ignored(template: Template, annotation: str) -> bool:
    """Whether an annotation belongs to a tool or to the platform, whatever a definition says."""
    return annotation == LAST_APPLIED or (template.kind == "Namespace" and annotation.startswith(_SCC_PREFIX))
