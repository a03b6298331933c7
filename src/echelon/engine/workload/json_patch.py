"""The three operations of a JSON patch that override policies have, on a document that is not changed itself."""

from collections.abc import Sequence

from echelon.api.base import JSON

_END = "-"  # after the last item of a list


class PatchError(ValueError):
    """A path that leads nowhere, or that is none."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")


def patched(document: JSON, operator: str, path: str, value: JSON = None) -> JSON:
    """Return the document after `add`, `remove` or `replace` at a path. What is beside the path is shared."""
    if not path.startswith("/"):
        raise PatchError(path, "a path begins with /")
    steps = [step.replace("~1", "/").replace("~0", "~") for step in path[1:].split("/")]
    return _patched(document, operator, steps, value, path)


def found_at(document: JSON, path: str) -> JSON:
    """Return what is at a path. Raises PatchError."""
    for step in (each.replace("~1", "/").replace("~0", "~") for each in path.removeprefix("/").split("/")):
        if isinstance(document, dict) and step in document:
            document = document[step]
        elif isinstance(document, list):
            document = document[_index(document, step, path)]
        else:
            raise PatchError(path, "there is no such field")
    return document


def _patched(document: JSON, operator: str, steps: Sequence[str], value: JSON, path: str) -> JSON:
    step, *rest = steps
    if isinstance(document, dict):
        if (rest or operator != "add") and step not in document:
            raise PatchError(path, "there is no such field")
        if rest:
            return {**document, step: _patched(document[step], operator, rest, value, path)}
        if operator == "remove":
            return {name: part for name, part in document.items() if name != step}
        return {**document, step: value}
    if not isinstance(document, list):
        raise PatchError(path, "there is no such field")
    if not rest and operator == "add":
        at = len(document) if step == _END else _index([*document, None], step, path)
        return [*document[:at], value, *document[at:]]
    at = _index(document, step, path)
    if rest:
        return [*document[:at], _patched(document[at], operator, rest, value, path), *document[at + 1 :]]
    return [*document[:at], *([] if operator == "remove" else [value]), *document[at + 1 :]]


def _index(items: Sequence[JSON], step: str, path: str) -> int:
    if not (step.isascii() and step.isdigit()) or len(step) > 9 or int(step) >= len(items):
        raise PatchError(path, f"there is no item {step}")
    return int(step)
