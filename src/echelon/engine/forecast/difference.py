"""What changes between two contents, line by line, without what Secrets hold."""

import difflib
from collections.abc import Callable, Iterator
from typing import Any

from echelon.api.base import JSONObject

_FIELDS = ("data", "stringData")
_HIDDEN, _CHANGED = "<hidden>", "<hidden, another value>"
Print = Callable[[JSONObject], str]


def difference(before: JSONObject | None, after: JSONObject | None, written: Print, context: int = 3) -> list[str]:
    """Return what leads from one content to another, as lines that begin with a sign; `written` puts one into text."""
    was, is_ = _hidden(before, after)
    lines = difflib.unified_diff(_lines(was, written), _lines(is_, written), n=context, lineterm="")
    return [line for line in lines if not line.startswith(("---", "+++"))]


def _lines(content: JSONObject | None, written: Print) -> list[str]:
    return [] if content is None else written(content).splitlines()


def _hidden(before: JSONObject | None, after: JSONObject | None) -> tuple[JSONObject | None, JSONObject | None]:
    """Return both without what Secrets hold; of a value that is another one it is said that it is."""
    texts = {str(value) for value in _values(before)}
    return _without(before, lambda _: _HIDDEN), _without(
        after, lambda value: _HIDDEN if str(value) in texts or not texts else _CHANGED
    )


def _values(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for each in value:
            yield from _values(each)
    elif isinstance(value, dict):
        if _is_secret(value):
            for field in _FIELDS:
                held = value.get(field)
                yield from held.values() if isinstance(held, dict) else ()
            return
        for each in value.values():
            yield from _values(each)


def _without(value: Any, word: Callable[[Any], str]) -> Any:
    if isinstance(value, list):
        return [_without(each, word) for each in value]
    if not isinstance(value, dict):
        return value
    if not _is_secret(value):
        return {name: _without(each, word) for name, each in value.items()}
    hidden = {
        field: {name: word(each) for name, each in value[field].items()}
        for field in _FIELDS
        if isinstance(value.get(field), dict)
    }
    return {**value, **hidden}


def _is_secret(value: JSONObject) -> bool:
    return value.get("kind") == "Secret" and value.get("apiVersion") == "v1"
