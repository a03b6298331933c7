"""When to look below an object that is not well.

Nobody is asked while all is well, and pods come and go by themselves for some seconds after every change. So a first
look is taken when something has not been well for a while, and the next ones ever later as long as nothing changes.
"""

from collections.abc import Awaitable, Callable

import msgspec
from msgspec.structs import replace

from echelon.api.base import JSONObject
from echelon.engine.work.health_state import number, part, text

FIRST_LOOK_SECONDS = 5.0
LAST_PAUSE_SECONDS = 60.0


class Look(msgspec.Struct, frozen=True):
    """What was found out about an object, as it was then, and when to look again."""

    identity: tuple[str, int]  # uid and generation: another spec may have another cause
    version: str
    due: float
    degraded: bool = False
    pause: float = FIRST_LOOK_SECONDS
    cause: str = ""

    @classmethod
    def first(cls, obj: JSONObject, due: float) -> "Look":
        """Return that nothing is known yet."""
        return cls(_identity(obj), _version(obj), due)

    def is_about(self, obj: JSONObject) -> bool:
        """Whether it was found out about what an object is to be now."""
        return self.identity == _identity(obj)

    async def again(self, obj: JSONObject, now: float, find: Callable[[], Awaitable[str | None]]) -> "Look":
        """Look again if it is time to. `find` returns the cause, None if nobody could be asked."""
        changed = self.version != _version(obj)
        due = min(self.due, now + FIRST_LOOK_SECONDS) if changed else self.due
        if now < due:
            return replace(self, due=due)
        cause = await find()
        pause = FIRST_LOOK_SECONDS if changed else min(self.pause * 2, LAST_PAUSE_SECONDS)
        said = self.cause if cause is None else cause
        return replace(self, version=_version(obj), due=now + pause, pause=pause, cause=said)


def _identity(obj: JSONObject) -> tuple[str, int]:
    meta = part(obj, "metadata")
    return text(meta, "uid"), number(meta, "generation")


def _version(obj: JSONObject) -> str:
    return text(part(obj, "metadata"), "resourceVersion")
