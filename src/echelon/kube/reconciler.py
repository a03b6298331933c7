"""What a controller asks: a reconciler, which decides and does nothing."""

from datetime import datetime
from typing import Protocol

from echelon.api.keys import Key
from echelon.engine.plan import Plan


class TerminalError(Exception):
    """There is no use in trying again before something changes."""


class Reconciler(Protocol):
    """Decides what is to be done about one object."""

    def plan(self, key: Key, now: datetime) -> Plan:
        """Read caches and return what is to be done; nothing is written here, and nothing awaited or remembered.

        Planning again, with nothing done in between, gives an equal plan. `act` carries the plan out. With
        `look_again_after` the key comes back although nothing changed. An exception is logged and the key tried again,
        later each time; after a `TerminalError` it is left alone until something changes.
        """
        ...
