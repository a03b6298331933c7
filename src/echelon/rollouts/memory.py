"""What was made of objects, for whoever reads a rollout again when one of ten thousand has changed."""

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Memory:
    """Remembers from one reading of a rollout to the next, and no longer.

    A cache gives the same object for as long as nothing has changed in it, so objects are known by their identity;
    each is kept for as long as its result is, so no other one can have that.
    """

    def __init__(self) -> None:
        self._before: dict[tuple[int, int], tuple[Any, Any]] = {}
        self._now: dict[tuple[int, int], tuple[Any, Any]] = {}

    def turn(self) -> None:
        """Begin another reading."""
        self._before, self._now = self._now, {}

    def made(self, make: Callable[[T], R], obj: T) -> R:
        """Return what a pure function makes of an object."""
        what = id(make), id(obj)
        found = self._before.get(what)
        if found is None:
            found = obj, make(obj)
        self._now[what] = found
        result: R = found[1]
        return result
