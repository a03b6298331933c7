"""How much one user, and all users together, may ask of the hub at a time."""

import math
from dataclasses import dataclass
from typing import Self

from echelon.hub.web.shares import Shares

# What takes long is done beside the event loop, for each user one after the other. With more threads than these the
# loop would wait for all of them each time it needs the interpreter.
_LARGE_AT_ONCE = 2
# Of the bytes of an answer, a second: who is slower holds too much for too long.
_SLOWEST = 64 * 1024


@dataclass(frozen=True)
class Bounds:
    """What can be set."""

    request_seconds: float = 60.0  # for a body to come, and for an answer to be taken, as in kube-apiserver
    requests: int = 256  # in flight, watches aside
    requests_each: int = 10
    waiting_each: int = 256  # requests of one user that may wait for others of the same user
    watches_each: int = 1000


@dataclass(frozen=True)
class Limits:
    """The places that are left."""

    request_seconds: float
    requests: Shares
    watches: Shares
    large: Shares

    @classmethod
    def of(cls, bounds: Bounds) -> Self:
        """Make room for as many as the bounds say."""
        seconds, waiting = bounds.request_seconds, bounds.waiting_each
        return cls(
            seconds,
            Shares(bounds.requests, bounds.requests_each, waiting=waiting, patience=seconds),
            Shares(math.inf, bounds.watches_each, waiting=0, patience=seconds),
            Shares(_LARGE_AT_ONCE, 1, waiting=waiting, patience=seconds),
        )

    @staticmethod
    def earned(size: int) -> float:
        """Return how many seconds a client gets for each so many bytes that it takes."""
        return size / _SLOWEST
