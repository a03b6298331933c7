"""The keys that a document has twice in one object, by their paths.

A path is made when there is something to tell, and cut where nobody would read on: a document of many keys below a long
one has more text in its paths than memory has room for.
"""

from typing import Final

MOST: Final = 100  # as many as Kubernetes tells about
_LONGEST = 1024


class Repeated:
    """Follows a walk through a document."""

    def __init__(self) -> None:
        self._found: dict[str, None] = {}
        self._steps: list[str] = []

    @property
    def paths(self) -> list[str]:
        """The paths that were found, in the order of the text."""
        return list(self._found)

    def enter(self, step: str | int) -> None:
        """Go to a field of an object, or to an item of a list."""
        self._steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")

    def leave(self) -> None:
        """Go back."""
        self._steps.pop()

    def add(self, name: str) -> None:
        """Note that a key of the present object was there before."""
        if len(self._found) >= MOST:
            return
        path = ""
        for step in (*self._steps, f".{name}"):
            path += step[: _LONGEST - len(path)]
        self._found[path.removeprefix(".") + ("..." if len(path) == _LONGEST else "")] = None
