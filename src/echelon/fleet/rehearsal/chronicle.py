"""What happens in a rehearsal: which cluster gets what and when, how far each rollout is told to be, how it ends.

It is read from what is committed on the hub, and so is the same for everybody who looks.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from echelon.api.base import JSONObject
from echelon.api.karmada import RESOURCE_BINDING
from echelon.api.policy import POLICY
from echelon.api.rollout_ledger import ROLLOUT_LEDGER
from echelon.api.work import MANIFEST_WORK
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.engine.policy.names import HELD_ANNOTATION, ROOT_LABEL
from echelon.engine.rollout.conditions import BLOCKED, ROLLED_OUT
from echelon.engine.work_set.names import SET_LABEL
from echelon.hub.storage.store import Change
from echelon.kube.client import EventType

_COUNTED = ("toApply", "progressing", "succeeded", "failed", "timedOut", "skipped")
_TOLD = (MANIFEST_WORK_REPLICA_SET.resource, POLICY.resource)


class RolloutName(NamedTuple):
    """Which rollout: the object that is rolled out."""

    resource: str
    namespace: str
    name: str


class Counts(NamedTuple):
    """How many clusters are in which phase, as a status tells."""

    to_apply: int = 0
    progressing: int = 0
    succeeded: int = 0
    failed: int = 0
    timed_out: int = 0
    skipped: int = 0

    @property
    def bad(self) -> int:
        """Those that have failed."""
        return self.failed + self.timed_out


@dataclass
class Story:
    """What happened in one rollout, in seconds since the change."""

    starts: dict[str, float] = field(default_factory=dict)  # by cluster, when it first got the new content
    removals: dict[str, float] = field(default_factory=dict)  # by cluster, when it began to lose it
    told: list[tuple[float, Counts]] = field(default_factory=list)
    done: float | None = None  # when it was said to be everywhere
    blocked: str = ""  # why nothing goes on, while that is so
    blocked_at: float = 0.0

    def waves(self, apart: float) -> list[frozenset[str]]:
        """Return the clusters that started together: those that nothing happened between for less than so long."""
        return waves_of(self.starts, apart)


def waves_of(starts: Mapping[str, float], apart: float) -> list[frozenset[str]]:
    """Group clusters by the time of their starts."""
    found: list[set[str]] = []
    last = 0.0
    for cluster, at in sorted(starts.items(), key=lambda pair: pair[1]):
        if not found or at - last >= apart:
            found.append(set())
        found[-1].add(cluster)
        last = at
    return [frozenset(each) for each in found]


class Chronicle:
    """Follows the commits of a hub from the moment in which it is made."""

    def __init__(self, now: Callable[[], float], wanted: Iterable[RolloutName] = ()) -> None:
        """`wanted` are the rollouts to follow; without any, all."""
        self._now, self._began = now, now()
        self._wanted = frozenset(wanted)
        self.stories: dict[RolloutName, Story] = {}
        self._granted: dict[tuple[RolloutName, str], str] = {}

    def of(self, rollout: RolloutName) -> Story:
        """Return what happened in a rollout."""
        return self.stories.setdefault(rollout, Story())

    def committed(self, change: Change) -> None:
        """Take note of a commit."""
        entry, before = change.entry, change.previous.object if change.previous is not None else None
        resource, obj = entry.key.resource, entry.object
        gone = change.type is EventType.DELETED
        if resource == MANIFEST_WORK.resource:
            self._held(_named(MANIFEST_WORK_REPLICA_SET.resource, obj, SET_LABEL), obj, before, gone=gone)
        elif resource == POLICY.resource and (root := _named(POLICY.resource, obj, ROOT_LABEL)) is not None:
            waits = (obj["metadata"].get("annotations") or {}).get(HELD_ANNOTATION) == "true"
            self._held(root, obj, before, gone=gone, waits=waits)
        elif resource == ROLLOUT_LEDGER.resource and not gone:
            self._ledger(RolloutName(RESOURCE_BINDING.resource, entry.key.namespace, entry.key.name), obj)
        elif resource in _TOLD and not gone:
            self._status(RolloutName(resource, entry.key.namespace, entry.key.name), obj, obj.get("status") or {})
        elif resource == RESOURCE_BINDING.resource and not gone:
            self._conditions(RolloutName(resource, entry.key.namespace, entry.key.name), obj)

    def _is_followed(self, rollout: RolloutName | None) -> bool:
        return rollout is not None and (not self._wanted or rollout in self._wanted)

    def _at(self) -> float:
        return self._now() - self._began

    def _held(
        self,
        rollout: RolloutName | None,
        obj: JSONObject,
        before: JSONObject | None,
        *,
        gone: bool,
        waits: bool = False,
    ) -> None:
        if rollout is None or not self._is_followed(rollout):
            return
        meta, story = obj["metadata"], self.of(rollout)
        cluster = meta["namespace"]
        if gone or meta.get("deletionTimestamp"):
            story.removals.setdefault(cluster, self._at())
            return
        old = before["metadata"] if before is not None else {}
        if not waits and (old.get("generation") != meta.get("generation")):
            story.starts.setdefault(cluster, self._at())

    def _ledger(self, rollout: RolloutName, obj: JSONObject) -> None:
        if not self._is_followed(rollout):
            return
        status, story = obj.get("status") or {}, self.of(rollout)
        for each in status.get("clusters") or ():
            name, revision = each["name"], each.get("revision", "")
            known = self._granted.get((rollout, name))
            if known is not None and known != revision:
                story.starts.setdefault(name, self._at())
            self._granted[rollout, name] = revision
        self._told(story, status)

    def know(self, ledgers: Iterable[JSONObject]) -> None:
        """Take what was granted before as known."""
        for obj in ledgers:
            meta = obj["metadata"]
            rollout = RolloutName(RESOURCE_BINDING.resource, meta["namespace"], meta["name"])
            for each in (obj.get("status") or {}).get("clusters") or ():
                self._granted[rollout, each["name"]] = each.get("revision", "")

    def _status(self, rollout: RolloutName, obj: JSONObject, status: JSONObject) -> None:
        if self._is_followed(rollout) and ROOT_LABEL not in (obj["metadata"].get("labels") or {}):
            self._told(self.of(rollout), status)
            self._conditions(rollout, obj)

    def _told(self, story: Story, status: JSONObject) -> None:
        told = status.get("rollout")
        if isinstance(told, dict):
            counts = Counts(*(int(told.get(name) or 0) for name in _COUNTED))
            if not story.told or story.told[-1][1] != counts:
                story.told.append((self._at(), counts))

    def _conditions(self, rollout: RolloutName, obj: JSONObject) -> None:
        if not self._is_followed(rollout):
            return
        story, generation = self.of(rollout), obj["metadata"].get("generation")
        said = {each["type"]: each for each in (obj.get("status") or {}).get("conditions") or ()}
        rolled_out, blocked = said.get(ROLLED_OUT), said.get(BLOCKED)
        if not _is_present(rolled_out, generation):
            return
        if _holds(rolled_out):
            story.done = self._at() if story.done is None else story.done
        else:
            story.done = None
        why = str(blocked.get("reason") or "") if blocked is not None and _holds(blocked) else ""
        if why != story.blocked:
            story.blocked, story.blocked_at = why, self._at()


def _named(resource: str, obj: JSONObject, label: str) -> RolloutName | None:
    namespace, _, name = str((obj["metadata"].get("labels") or {}).get(label) or "").partition(".")
    return RolloutName(resource, namespace, name) if name else None


def _is_present(condition: Any, generation: Any) -> bool:
    return condition is not None and condition.get("observedGeneration") == generation


def _holds(condition: Any) -> bool:
    return bool(condition.get("status") == "True")
