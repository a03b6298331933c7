"""YAML of files that strangers wrote: a fleet that somebody sent, a change that somebody proposes.

The fast loader follows nesting with the stack of the machine and ends the process when it is used up, and an alias
stands for a whole tree, or for itself. So nesting is counted before anything is loaded, and a document that has more
parts than its text has characters is none: without aliases each part takes at least one.
"""

from typing import Any, Final

import yaml

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEEPEST: Final = 200
_OPENING = (yaml.SequenceStartEvent, yaml.MappingStartEvent)
_CLOSING = (yaml.SequenceEndEvent, yaml.MappingEndEvent)


class UnreadableYaml(ValueError):
    """A text that is no YAML, or one that is larger than it looks."""


def read_documents(text: str) -> list[Any]:
    """Return the documents of a text. Raises UnreadableYaml."""
    try:
        _check_depth(text)
        found = list(yaml.load_all(text, Loader=_LOADER))
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        raise UnreadableYaml(str(error)) from error
    _check_size(found, len(text))
    return found


def _check_depth(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, _OPENING):
            depth += 1
            if depth > _DEEPEST:
                raise UnreadableYaml(f"it is nested deeper than {_DEEPEST} levels")
        elif isinstance(event, _CLOSING):
            depth -= 1


def _check_size(documents: list[Any], most: int) -> None:
    left, parts = list(documents), 0
    while left:
        value = left.pop()
        parts += 1
        if parts > most + len(documents):
            raise UnreadableYaml("its aliases stand for more than its text has characters")
        if isinstance(value, dict):
            left.extend(value.values())
        elif isinstance(value, list):
            left.extend(value)
