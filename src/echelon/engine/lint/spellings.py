"""Words that were called otherwise in proposals and early versions, wherever they stand."""

from collections.abc import Iterator
from typing import Any

from echelon.api.cluster import GROUP
from echelon.engine.lint.documents import Document, Finding, mapping

_LABELS = {
    f"{GROUP}/decisiongroupindex": f"{GROUP}/decision-group-index",
    f"{GROUP}/decisiongroupname": f"{GROUP}/decision-group-name",
}
# What the clusters get is not ours to judge.
_FOR_CLUSTERS = ("manifestWorkTemplate", "policy-templates")


def older_words(one: Document) -> Iterator[Finding]:
    """Walk over everything but what the clusters get."""
    return _older_words(one, one.spec, "spec")


def _older_words(one: Document, value: Any, at: str) -> Iterator[Finding]:
    if isinstance(value, list):
        for number, each in enumerate(value):
            yield from _older_words(one, each, f"{at}[{number}]")
    for key, each in mapping(value).items():
        field = f"{at}.{key}"
        if key in _FOR_CLUSTERS:
            continue
        if key == "operator" and each == "Exist":
            yield one.is_now(field, "Exists")
        if key in _LABELS:
            yield one.is_now(field, _LABELS[key])
        if key == "key" and isinstance(each, str) and each in _LABELS:
            yield one.is_now(field, _LABELS[each])
        yield from _older_words(one, each, field)
