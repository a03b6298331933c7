"""Which decisions of a placement count, and whether a cluster that is in none of them is really deselected.

Anybody who may write decisions in a namespace can label one. So the decisions that a placement owns count, and others
with its label only where it owns none, because some placement controllers don't own theirs. Those count when they have
been the same for a moment.

Whoever writes decisions writes them one by one and the placement's status after them, and each is seen some time later.
Numbers tell most of it, but not all: where a cluster comes and another goes, decisions that are half rewritten can have
just as many clusters as a status says, of now, of before or of later. A cluster that is moved is missing in them, and
must not lose what it has for that.

So before a cluster loses anything, decisions must be known to be complete: the status came after them, or they have
been the same for a moment, which is longer than rewriting takes. And they must be all that there are. A cache cannot
tell that; the server is asked. Echelon's own decisions do not have to be asked for when the status came after them: it
lists a cluster in the new decision before it takes it out of the old one, so while one is missing, another is listed
twice, and numbers do not agree.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from echelon.api.placement import Placement, PlacementDecision
from echelon.api.times import parse_time
from echelon.api.versions import newer
from echelon.engine.placement.current import STAMP_ANNOTATION
from echelon.engine.plan import ReadRequest
from echelon.engine.rollout.references import PlacementReference, believable

# How long decisions must have been the same where nothing else tells that they are complete. Rewriting takes less.
QUIET = timedelta(seconds=2)
_NAMED = 3


@dataclass(frozen=True, slots=True)
class DecisionState:
    """A decision as it is, and as it was when it had last been the same for a moment; None where there was none."""

    current: PlacementDecision | None
    steady: PlacementDecision | None
    changed: datetime

    def is_quiet(self, now: datetime) -> bool:
        """Whether it has been the same for a moment."""
        return now - self.changed >= QUIET

    def believed(self, now: datetime) -> PlacementDecision | None:
        """Return the newest state that lasted for a moment."""
        return self.current if self.is_quiet(now) else self.steady

    def changed_to(self, current: PlacementDecision | None, now: datetime) -> "DecisionState":
        """Return it after a change; None when it is gone."""
        return DecisionState(current, self.believed(now), now)


def first_seen(decision: PlacementDecision, now: datetime, *, initial: bool) -> DecisionState:
    """Return a decision that nobody knew. One that was there before us, and was not made just now, is believed."""
    made = parse_time(decision.metadata.creation_timestamp) if initial else None
    is_old = made is not None and now - made > QUIET
    return DecisionState(decision, decision if is_old else None, now)


@dataclass(frozen=True)
class KnownDecisions:
    """What is known of a placement and of all decisions with its label, at one moment."""

    placement: Placement | None
    states: tuple[DecisionState, ...] = ()
    changed: datetime | None = None  # when one of them changed last
    status_version: str | None = None  # the version in which the placement's status came, if that was seen
    unreadable: bool = False  # there is one that does not fit its type
    trusted: bool = False  # all of them count at once, whoever owns them

    @property
    def current(self) -> tuple[PlacementDecision, ...]:
        """The decisions that exist."""
        return tuple(state.current for state in self.states if state.current is not None)

    @property
    def ours(self) -> bool:
        """Whether Echelon wrote them."""
        return any(STAMP_ANNOTATION in each.metadata.annotations for each in self.current)

    @property
    def versions(self) -> dict[str, str]:
        """The version of each decision that exists, by name."""
        return {each.metadata.name: each.metadata.resource_version for each in self.current}


@dataclass(frozen=True)
class ConsistentRead:
    """What a server had of an object, its placements and their decisions; all of it at least as new as a version."""

    resource_version: str
    asked: datetime
    generation: int  # of the object
    placements: Mapping[str, str] = field(default_factory=dict)  # version by name; empty if it does not exist
    decisions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # by placement: version by name
    others: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # by resource: what else says who is meant


def counting(known: KnownDecisions, now: datetime) -> tuple[tuple[PlacementDecision, ...], bool]:
    """Return the decisions that count, and whether the placement owns them."""
    if known.placement is None:
        return (), False
    current = known.current
    own, owned = believable(known.placement, current)
    if known.trusted:
        return current, owned
    if owned:
        return own, True
    believed = (state.believed(now) for state in known.states)
    return tuple(each for each in believed if each is not None), False


def ignored(known: KnownDecisions) -> str:
    """Say which decisions have a placement's label and do not count, because it owns others."""
    if known.placement is None or known.trusted:
        return ""
    own, owned = believable(known.placement, known.current)
    strange = sorted(known.versions.keys() - {each.metadata.name for each in own})
    if not owned or not strange:
        return ""
    more = f" and {len(strange) - _NAMED} more" if len(strange) > _NAMED else ""
    listed = ", ".join(strange[:_NAMED])
    name = known.placement.metadata.name
    return f"{name}: {listed}{more} have its label, but it owns other decisions; they are ignored"


def believed_after(known: KnownDecisions, now: datetime) -> timedelta | None:
    """Return after which time other decisions count than now, if nothing changes."""
    if not _must_last(known):
        return None
    fresh = (state.changed + QUIET - now for state in known.states if state.believed(now) is not state.current)
    return min(fresh, default=None)


def may_be_torn(known: KnownDecisions, read: ConsistentRead | None, now: datetime) -> bool:
    """Whether decisions may be half rewritten, or older than a status, although they agree with it.

    `read` is what the server said when it was last asked.
    """
    if known.unreadable:
        return True
    placement, current = known.placement, known.current
    if placement is None:
        return False
    if not current:  # they are gone, and that may not be believed yet
        return not known.trusted and not all(state.is_quiet(now) for state in known.states)
    if _must_last(known) and any(state.believed(now) is not state.current for state in known.states):
        return True
    is_last = _status_is_last(known)
    if is_last and known.ours:
        return False
    if read is None or not has_the_same(read, placement.metadata.name, known):
        return True
    if is_last and known.status_version is not None:
        return newer(known.status_version, read.resource_version)
    return known.changed is None or read.asked - known.changed < QUIET


def has_the_same(read: ConsistentRead, placement: str, known: KnownDecisions) -> bool:
    """Whether the server had just the decisions that are known."""
    return read.decisions.get(placement) == known.versions


def confirms(
    read: ConsistentRead,
    generation: int,
    known: Mapping[str, KnownDecisions],
    others: Mapping[str, Mapping[str, str]],
) -> bool:
    """Whether the server had just what is known of an object, its placements, their decisions and what else counts."""
    if read.generation != generation or read.placements.keys() != known.keys() or read.others != others:
        return False
    versions = {
        name: each.placement.metadata.resource_version if each.placement is not None else ""
        for name, each in known.items()
    }
    return versions == read.placements and all(has_the_same(read, name, each) for name, each in known.items())


def read_request(known: Mapping[str, KnownDecisions], torn: Sequence[str], *, stale: bool) -> ReadRequest | None:
    """Return what to ask the server for, when clusters lose what they have if what is known is all there is.

    `torn` are the placements whose decisions agree with their status and may be torn; `stale`: what is known may be
    older than what those clusters have.
    """
    if not torn and not stale:
        return None
    settled = [each for name in torn if (each := _settles_at(known[name])) is not None]
    return ReadRequest(tuple(known), max(settled, default=None))


def questions(
    known: Mapping[str, KnownDecisions],
    references: Iterable[PlacementReference],
    stale: Collection[str],
    losing: Collection[str],
    now: datetime,
) -> tuple[ReadRequest | None, timedelta | None]:
    """Return what to ask the server for, and after which time other decisions count than now.

    `losing` are the uids of what clusters would lose, and the clusters of which it would be forgotten that they failed;
    `stale` those uids of which more may have been known when they were written.
    """
    settled = {ref.name for ref in references if ref.uncertain and ref.placement is not None and ref.placement.settled}
    torn = [name for name in known if name in settled]
    waits = (believed_after(each, now) for each in known.values())
    asked = read_request(known, torn, stale=not frozenset(stale).isdisjoint(losing)) if losing else None
    return asked, min((each for each in waits if each is not None), default=None)


def _settles_at(known: KnownDecisions) -> datetime | None:
    """Return from when on the server can tell whether decisions are complete; None if it can now."""
    if _status_is_last(known) or known.changed is None:
        return None
    return known.changed + QUIET


def _must_last(known: KnownDecisions) -> bool:
    """Whether decisions count only when they have been the same for a moment."""
    return not known.trusted and known.placement is not None and not believable(known.placement, known.current)[1]


def _status_is_last(known: KnownDecisions) -> bool:
    """Whether the status, if it tells of decisions, was seen to come after all of them."""
    placement, version = known.placement, known.status_version
    if placement is None or version is None or not placement.status.decision_groups:
        return False
    return not any(newer(each.metadata.resource_version, version) for each in known.current)
