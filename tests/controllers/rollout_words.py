"""What people have said of a rollout, and what is noted of it where everybody finds it: annotations, read once more."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from echelon.api.base import JSONObject
from tests.controllers.rollout_selection import Group


def seconds(text: str) -> float:
    """Return a time as the API writes it, as seconds."""
    return datetime.fromisoformat(text).timestamp()


@dataclass(frozen=True)
class Words:
    """What people have told a rollout of a revision, which has a hash once it is stored."""

    told: Mapping[str, str]
    revision: str | None

    @property
    def paused(self) -> bool:
        return self.told.get("echelon.dev/paused", "false") != "false"

    @property
    def given_up(self) -> bool:
        return self.told.get("echelon.dev/aborted") == (self.revision or "not stored")

    @property
    def promoted(self) -> float | None:
        return self._time("promoted-at")

    @property
    def retried(self) -> float | None:
        return self._time("retried-at")

    def held(self, group: Group) -> bool:
        """Whether a group waits for an approval."""
        gated = set(self.told.get("echelon.dev/approval", "").split(",")) - {""}
        of, _, names = self.told.get("echelon.dev/approved", "").partition(":")
        given = set(names.split(",")) if of == self.revision else set()
        return ("all" in gated or bool(group.called & gated)) and not group.called & given

    def _time(self, name: str) -> float | None:
        value = self.told.get(f"echelon.dev/{name}")
        return seconds(value) if value is not None else None


@dataclass(frozen=True)
class Notes:
    """What is noted on the revision that is wanted, while it is the newest; under an older number it is history."""

    annotations: Mapping[str, str]
    number: str

    @classmethod
    def of(cls, wanted: JSONObject | None, revisions: Iterable[JSONObject]) -> "Notes":
        """Read the stored revision of what is wanted, one of all that there are."""
        if wanted is None:
            return cls({}, "none")
        newest = max(each["revision"] for each in revisions)
        number = str(wanted["revision"]) if wanted["revision"] == newest else "none"
        return cls(wanted["metadata"].get("annotations", {}), number)

    @property
    def was_complete(self) -> bool:
        """Whether the wanted revision had reached everybody."""
        return self.annotations.get("echelon.dev/completed-number") == self.number

    @property
    def completed(self) -> float:
        """When that content was complete, under whichever number."""
        found = self.annotations.get("echelon.dev/completed-at")
        return seconds(found) if found is not None else -math.inf

    @property
    def passed(self) -> list[str]:
        of, _, names = self.annotations.get("echelon.dev/completed-groups", "").partition(":")
        return names.split(",") if of == self.number else []
