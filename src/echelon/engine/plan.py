"""Plans: what a reconciler wants to be done, as data.

Because a plan is data, a dry run is a plan that nobody acts on, a crash test stops between any two actions, and a
simulation replays them. A plan says which actions wait for which: those of `InOrder`, and of the plan itself, wait for
the one before them, those of `Together` for nothing. An action that fails holds back those that wait for it and no
others. The failure is a fact for the next plan.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.api.meta import ObjectMeta


@dataclass(frozen=True)
class Reference:
    """An object that an event is about."""

    kind: Kind[Any]
    name: str
    namespace: str = ""
    uid: str = ""


@dataclass(frozen=True)
class Create:
    """Create an object; `body` is its wire form and has its name."""

    kind: Kind[Any]
    body: JSONObject
    namespace: str = ""

    @property
    def name(self) -> str:
        """The name that the object is to have."""
        name: str = self.body["metadata"]["name"]
        return name


@dataclass(frozen=True)
class Patch:
    """Merge fields into an object that is still the one, and in the state, that the plan was made for."""

    kind: Kind[Any]
    name: str
    body: JSONObject
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    subresource: str = ""

    @classmethod
    def of(cls, kind: Kind[Any], seen: ObjectMeta, body: JSONObject, subresource: str = "") -> "Patch":
        """Return a patch that fails if the object is no longer as it was seen."""
        return cls(kind, seen.name, body, seen.namespace, seen.uid, seen.resource_version, subresource)


@dataclass(frozen=True)
class Apply:
    """Server-side apply: all that we want of an object, whether it exists or not."""

    kind: Kind[Any]
    name: str
    body: JSONObject
    namespace: str = ""
    force: bool = True
    subresource: str = ""


@dataclass(frozen=True)
class Delete:
    """Delete an object that is still the one that the plan was made for."""

    kind: Kind[Any]
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    propagation: str = "Background"


@dataclass(frozen=True)
class Emit:
    """Tell people what happened. An event that cannot be written ends nothing."""

    regarding: Reference
    reason: str
    action: str
    note: str
    type: str = "Normal"
    related: Reference | None = None
    ends: bool = False  # it tells the end of something that people wait for

    @property
    def important(self) -> bool:
        """Whether it has to be told, however much else there is to tell."""
        return self.ends or self.type == "Warning"


Write: TypeAlias = Create | Patch | Apply | Delete


@dataclass(frozen=True)
class InOrder:
    """Actions each of which waits for the one before it, also if several follow together."""

    actions: tuple["Write | Emit | Together", ...]


@dataclass(frozen=True)
class Together:
    """Actions that do not wait for each other and may be carried out at once, in any order, each on other objects.

    All of them are tried, whatever becomes of the others, because one cluster's trouble must not keep the rest waiting.
    What comes after them waits for all of them.

    With `slow_start` one begins, and twice as many after each round that was taken: for many objects that are alike,
    such as pods, of which a server that refuses one refuses all. What waits its turn is written later than it was
    planned, so this is nothing for writes that belong to the moment of their plan.
    """

    actions: tuple[Write | InOrder, ...]
    slow_start: bool = False


Action: TypeAlias = Write | InOrder | Together | Emit


@dataclass(frozen=True)
class ReadRequest:
    """Ask the server, because no cache can tell whether it has everything. The answer is a fact for a later plan."""

    names: tuple[str, ...]  # of what the object refers to
    not_before: datetime | None = None  # an earlier answer would not help


@dataclass(frozen=True)
class Plan:
    """Actions in order, the status to write, and when to look again although nothing changed.

    The status is tried even if actions failed, because it tells what was observed. One that tells what the actions are
    to achieve would not be true then, so it waits for them (`status_waits`); the failure goes into the next plan, and
    the status of that one tells of it.
    """

    actions: tuple[Action, ...] = ()
    status: Patch | None = None
    look_again_after: timedelta | None = None
    status_waits: bool = False
    stops_at_failure: bool = False  # the rest of a burst is not wanted before the next plan has looked at a failure
    read: ReadRequest | None = None

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.actions and self.status is None and self.read is None


NOTHING = Plan()
