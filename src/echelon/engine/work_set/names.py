"""What is written on works so that everybody finds them again: labels, annotations, names.

The labels are upstream's, and by them works of an upstream hub are taken over. The annotations are Echelon's; a work
without them is as good as one with them.
"""

import hashlib

from echelon.api.labels import label_value_errors
from echelon.api.work import GROUP

SET_LABEL = f"{GROUP}/manifestworkreplicaset"
PLACEMENT_LABEL = f"{GROUP}/placementname"
HASH_LABEL = f"{GROUP}/controller-hash"
FINALIZER = f"{GROUP}/manifest-work-cleanup"

LABELS_ANNOTATION = "echelon.dev/labels"  # on a work: which of its labels are those of the set

_OURS = frozenset((SET_LABEL, PLACEMENT_LABEL))


class BadSetName(ValueError):
    """No label can say which work set a work belongs to."""

    def __init__(self, value: str, rule: str) -> None:
        super().__init__(f"the works of this set cannot be labelled {SET_LABEL}={value}: {rule}")
        self.value = value


def label_of(namespace: str, name: str) -> str:
    """Return the label value by which the works of a set are found. Raises `BadSetName`."""
    value = f"{namespace}.{name}"
    if errors := label_value_errors(value):
        raise BadSetName(value, "; ".join(errors))
    return value


def set_of(label: str) -> tuple[str, str] | None:
    """Return namespace and name of the set that a label value is of. A namespace has no dots, a name may have some."""
    namespace, _, name = label.partition(".")
    return (namespace, name) if namespace and name else None


def work_name(namespace: str, name: str, *, name_conflict: bool) -> str:
    """Return how the work of a set is called: as the set, or, where somebody has that name, in a way nobody has."""
    if not name_conflict:
        return name
    return f"{name}-{hashlib.sha256(f'{namespace}/{name}'.encode()).hexdigest()[:10]}"


def foreign(labels: dict[str, str]) -> dict[str, str]:
    """Return the labels of a set that its works get, too: all but those that say whose works they are."""
    return {key: value for key, value in labels.items() if key not in _OURS}
