"""What telling a rollout something would do, before it is told: by the controller's own function, on a copy."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

import msgspec

from echelon.engine.rollout.evaluate import roll_out
from echelon.engine.rollout.model import ClusterDecision, Phase, Wait
from echelon.engine.rollout.state import Rollout
from echelon.engine.rollout.subject import Subject
from echelon.rollouts.picture import draw
from echelon.rollouts.reading import Found
from echelon.rollouts.steering import Change, Wish


@dataclass(frozen=True)
class Preview:
    """What would come of a wish."""

    state: str  # of the rollout, right after
    message: str
    clusters: tuple[str, ...]  # that it is about
    about: str  # what they have in common
    starts: tuple[str, ...] = ()  # that get their content at once then, and would not now
    notes: tuple[str, ...] = ()
    done: str = ""
    to_revision: int | None = None


def preview(wish: Wish, found: Found, change: Change, now: datetime) -> Preview:
    """Tell what the write of a wish would lead to."""
    to_revision = change.revision.number if change.revision is not None else None
    picture = found.picture(now)
    told = Preview(
        picture.state, picture.message, (), "", notes=change.notes, done=change.done, to_revision=to_revision
    )
    if found.drawn is not None or change.annotations is None:
        everywhere = tuple(line.name for group in picture.groups for line in group.clusters)
        about = f"all get revision {to_revision}, wave by wave as any change" if to_revision is not None else ""
        return replace(told, clusters=everywhere, about=about)
    before = roll_out(found.subject, now)
    subject = _told(found.subject, change)
    after = roll_out(subject, now)
    clusters, about = _concerned(wish, before, after)
    starting = {one.cluster for one in before.cluster_decisions if one.starts}
    starts = tuple(one.cluster for one in after.cluster_decisions if one.starts and one.cluster not in starting)
    then = draw(subject, found.objects, now, recalls=found.recalls)
    return replace(told, state=then.state, message=then.message, clusters=clusters, about=about, starts=starts)


def _told(subject: Subject, change: Change) -> Subject:
    annotations = dict(subject.metadata.annotations)
    for name, value in (change.annotations or {}).items():
        if value is None:
            annotations.pop(name, None)
        else:
            annotations[name] = value
    return replace(subject, metadata=msgspec.structs.replace(subject.metadata, annotations=annotations))


def _concerned(wish: Wish, before: Rollout, after: Rollout) -> tuple[tuple[str, ...], str]:
    """Return the clusters that a wish is about, and what they have in common."""
    decisions = [*before.cluster_decisions]
    waiting = _names(one for one in decisions if one.phase is Phase.TO_APPLY)
    match wish.verb:
        case "pause":
            return waiting, "have not started, and wait"
        case "resume":
            return _names(
                one for one in decisions if one.phase is Phase.TO_APPLY
            ), "have not started, and go on in turn"
        case "promote":
            return _names(one for one in decisions if one.wait is Wait.SOAK), "soak, and count as done at once"
        case "retry":
            return _names(one for one in decisions if one.failed), "failed, and are tried again"
        case "approve" if wish.removal:
            return tuple(before.allocations.removal.held), "lose what they have"
        case "approve":
            freed = (one for one in decisions if _is_freed(one, before, after))
            return _names(freed), "are in groups that may start then"
        case _:
            had = (one for one in decisions if (one.cluster in before.holdings and _has_it(one, before)))
            back = f"revision {after.rollback_to.number}" if after.rollback_to is not None else "nothing"
            return _names(had), f"have this revision; put back: {back}"


def _is_freed(one: ClusterDecision, before: Rollout, after: Rollout) -> bool:
    return before.control.holds_back(one.group) and not after.control.holds_back(one.group)


def _has_it(one: ClusterDecision, rollout: Rollout) -> bool:
    return rollout.is_current(rollout.holdings[one.cluster])


def _names(decisions: Iterable[ClusterDecision]) -> tuple[str, ...]:
    return tuple(one.cluster for one in decisions)
