"""Plans: what a reconciler wants to be done, as data.

Because a plan is data, a dry run is a plan that nobody acts on, a crash test stops between any two actions, and a
simulation replays them. Actions are carried out in order, and the first one that fails is the last: what follows may
rely on it. The failure is a fact for the next plan.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias

from echelon.api.base import JSONObject
from echelon.api.kinds import Kind


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
class Together:
    """Writes that do not depend on each other and may be made at once, in any order, each to an object of its own.

    All of them are tried, whatever becomes of the others, because one cluster's trouble must not keep the rest waiting.
    What comes after them is done if none failed.
    """

    writes: tuple[Write, ...]


Action: TypeAlias = Write | Together | Emit


@dataclass(frozen=True)
class Plan:
    """Actions in order, then the status to write, and when to look again although nothing changed."""

    actions: tuple[Action, ...] = ()
    status: Patch | None = None
    look_again_after: timedelta | None = None

    @property
    def empty(self) -> bool:
        """Whether there is nothing to write."""
        return not self.actions and self.status is None


NOTHING = Plan()
