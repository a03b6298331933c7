"""Tells a rollout how to go on: verbs write annotations, or the spec for undo, and the controller does the rest.

What a verb writes is a value, made from what was read. So the same write can be shown before it is made, tried on the
hub without an effect, or made; and it is the same whether it is asked for on a command line or in a browser.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from echelon.api.kinds import Kind
from echelon.engine.placement.decisions import GroupKey
from echelon.engine.rollout import control
from echelon.engine.rollout.actions import note_action
from echelon.engine.rollout.control import Annotations
from echelon.engine.rollout.departures import listed
from echelon.engine.rollout.evaluate import roll_out
from echelon.engine.rollout.history import load
from echelon.engine.rollout.model import group_names
from echelon.engine.rollout.removal import approve_removal
from echelon.engine.rollout.secret_data import SECRET_DATA
from echelon.engine.rollout.stored_revision import StoredRevision
from echelon.kube.client import Client, JSONPatch, MergePatch, WriteOptions
from echelon.kube.errors import Conflict
from echelon.rollouts.kinds import RolloutKind, find
from echelon.rollouts.picture import COMPLETE, FAILED, LEFT, PAUSED, ROLLING_OUT, SOAKING, STOPPED, TIMED_OUT
from echelon.rollouts.reading import Found
from echelon.rollouts.recording import Noted, records_of, user_of, write_down
from echelon.rollouts.refusals import NotThere, Refused

PAUSE, RESUME, PROMOTE, APPROVE, ABORT, RETRY, UNDO = "pause", "resume", "promote", "approve", "abort", "retry", "undo"
VERBS = (PAUSE, RESUME, PROMOTE, APPROVE, ABORT, RETRY, UNDO)
_TRIES = 8
_DONE = {
    PAUSE: "is paused; echelon rollout resume lets it go on",
    RESUME: "goes on",
    PROMOTE: "is promoted: what succeeded has soaked enough",
    RETRY: "tries again what failed",
    ABORT: "is aborted; a new revision or echelon rollout retry ends that",
    APPROVE: "has its approval",
}
_ALREADY = {
    PAUSE: "it is paused already",
    RESUME: "it goes on already",
    PROMOTE: "it is promoted already",
    RETRY: "it is tried again already",
    ABORT: "it is aborted already",
    APPROVE: "that is approved already",
}


@dataclass(frozen=True)
class Wish:
    """What somebody wants of a rollout."""

    verb: str
    groups: tuple[str, ...] = ()  # to approve; all that wait if none is named
    removal: bool = False  # to approve what is removed instead of what starts
    to_revision: int | None = None  # to undo to; the last that was complete if none is named
    revision: str = ""  # that it is about; whatever is there if none is named


@dataclass(frozen=True)
class Change:
    """The write that makes a wish come true."""

    kind: Kind[Any]
    name: str
    namespace: str
    patch: MergePatch | JSONPatch
    done: str  # what has become of the rollout then
    notes: tuple[str, ...] = ()  # what whoever asked should know before
    annotations: Annotations | None = None
    revision: StoredRevision | None = None  # that is brought back
    idle: bool = False  # it would change nothing, so nothing is written
    records: tuple[Noted, ...] = ()  # what is written after it, of who did it and why


class UnknownGroup(NotThere):
    """Somebody names a group that no placement of the rollout has."""


def change_for(wish: Wish, found: Found, entry: RolloutKind, now: datetime, by: str = "") -> Change:
    """Return what to write for a wish of a user. Raises `Refused` where it makes no sense."""
    if wish.verb == UNDO:
        return _by_patch(_undo(found, entry, wish.to_revision), UNDO, found, now, by)
    if wish.verb == ABORT and found.undo is not None:
        return _by_patch(_abort_by_undo(found, entry, now), ABORT, found, now, by)
    _refuse(found, wish.verb)
    told, notes = _annotations(wish, found, now)
    meta = found.subject.metadata
    if why := idle(wish, found, told, now):
        return Change(
            found.subject.kind,
            meta.name,
            meta.namespace,
            MergePatch({}),
            f"is as it was: {why}",
            idle=True,
            notes=notes,
        )
    detail = (
        "removal" if wish.removal else ", ".join(wish.groups) or (told.get(control.APPROVED) or "").partition(":")[2]
    )
    told |= note_action(meta.annotations, wish.verb, by, now, revision=found.subject.revision, detail=detail)
    # They may depend on what was read, so nobody may have changed the object since.
    body = {"metadata": {"annotations": told, "uid": meta.uid, "resourceVersion": meta.resource_version}}
    kind, done = found.subject.kind, _DONE[wish.verb]
    return Change(kind, meta.name, meta.namespace, MergePatch(body), done, notes, annotations=told)


async def steer(
    client: Client, named: str, namespace: str, wish: Wish, *, dry_run: bool = False
) -> tuple[Found, Change]:
    """Make a wish come true; once more if somebody was faster, as the controller is with its status."""
    by = await user_of(client)
    for _ in range(_TRIES - 1):
        with suppress(Conflict):
            return await _try(client, named, namespace, wish, by, dry_run=dry_run)
    return await _try(client, named, namespace, wish, by, dry_run=dry_run)


async def _try(
    client: Client, named: str, namespace: str, wish: Wish, by: str, *, dry_run: bool
) -> tuple[Found, Change]:
    entry, found = await find(client, named, namespace)
    if wish.revision and wish.revision != found.subject.revision:
        raise Refused(f"{found.title} has another revision by now: look at it again before you tell it anything")
    change = change_for(wish, found, entry, datetime.now(UTC), by)
    if change.idle:
        return found, change
    options = WriteOptions(dry_run=dry_run)
    await client.patch(change.kind.untyped(), change.name, change.patch, change.namespace, options=options)
    trouble = "" if dry_run else await write_down(client, change.namespace, change.records)
    return found, replace(change, notes=(*change.notes, trouble)) if trouble else change


def idle(wish: Wish, found: Found, told: Annotations, now: datetime) -> str:
    """Return why a verb would have no effect; nothing where it may have one, or where not all can be seen."""
    said = found.subject.metadata.annotations
    if told and all(said.get(name) == value for name, value in told.items()):
        return _ALREADY[wish.verb]
    if found.note or found.drawn is not None:
        return ""
    picture = found.picture(now)
    match wish.verb:
        case "resume" if control.PAUSED not in said and picture.state not in (STOPPED, PAUSED):
            return "it is neither paused nor stopped"
        case "promote" if not picture.counts.get(SOAKING):
            return "nothing soaks"
        case "retry" if not (picture.counts.get(FAILED) or picture.counts.get(TIMED_OUT) or control.ABORTED in said):
            return "nothing has failed" if picture.state in (COMPLETE, ROLLING_OUT) else ""
    return ""


def pick(
    stored: Sequence[StoredRevision], number: int | None, default: StoredRevision | None, title: str
) -> StoredRevision:
    """Return the revision of a number, or the default."""
    if number is None:
        if default is None:
            raise Refused(f"{title} has no earlier revision")
        return default
    for each in stored:
        if each.number == number:
            return each
    there = ", ".join(str(each.number) for each in stored) or "none"
    raise NotThere(f"{title} has no revision {number}; there are {there}")


def _annotations(wish: Wish, found: Found, now: datetime) -> tuple[Annotations, tuple[str, ...]]:
    match wish.verb:
        case "pause":
            return control.pause(), ()
        case "resume":
            return control.resume(now), ()
        case "promote":
            return control.promote(now), ()
        case "retry":
            return control.retry(now), ()
        case "abort":
            return _abort(found, now)
        case "approve" if wish.removal:
            return removal_of(found, now)
        case "approve":
            return _approve(found, wish.groups, now), ()
    raise Refused(f"there is no verb {wish.verb}; there are {', '.join(VERBS)}")


def _abort(found: Found, now: datetime) -> tuple[Annotations, tuple[str, ...]]:
    rollout = roll_out(found.subject, now)
    if rollout.complete or rollout.was_complete:
        raise _nothing_to_abort(found)
    last, note = _last_complete(found.subject.revisions, found.subject.revision), ""
    if last is not None and last.content is None:
        back = rollout.history.completed
        instead = f"revision {back.number} is put back instead" if back is not None else "nothing new starts"
        note = f"{_unusable(last)}: {instead}"
    elif rollout.history.completed is None:
        rest = "released clusters are held again" if found.recalls else "nothing is put back"
        note = f"no earlier revision was ever complete: {rest}, nothing new starts"
    return control.abort(found.subject.revision), (note,) if note else ()


def _nothing_to_abort(found: Found) -> Refused:
    return Refused(
        f"{found.title} is complete, so there is nothing to abort; "
        f"echelon rollout undo {found.name} -n {found.subject.metadata.namespace} brings an earlier revision back"
    )


def _approve(found: Found, groups: Sequence[str], now: datetime) -> Annotations:
    known = _names(found)
    if unknown := [group for group in groups if group not in known]:
        raise UnknownGroup(f"there is no group {unknown[0]}; there are {', '.join(known)}")
    existing = found.subject.metadata.annotations.get(control.APPROVED, "")
    return control.approve(found.subject.revision, groups or _waiting(found, now), existing)


def removal_of(found: Found, now: datetime) -> tuple[Annotations, tuple[str, ...]]:
    """Approve what is held now, and say whom that is about; refuse if nothing is held."""
    held = tuple(roll_out(found.subject, now).allocations.removal.held) or found.losing
    if not held:
        raise Refused("no removal is held")
    return approve_removal(held), (f"{len(held)} clusters lose what they have: {listed(held)}",)


def _groups(found: Found) -> list[GroupKey]:
    """Return the groups of all placements, which say of which one they are if there are several."""
    refs = found.subject.references
    return [
        replace(key, placement=ref.name) if len(refs) > 1 else key
        for ref in refs
        if ref.placement is not None
        for key in sorted(ref.placement.groups.groups)
    ]


def _names(found: Found) -> list[str]:
    return list(dict.fromkeys(name for key in _groups(found) for name in sorted(group_names(key), reverse=True)))


def _waiting(found: Found, now: datetime) -> list[str]:
    """Return the groups that need an approval; refuse if none does."""
    told = roll_out(found.subject, now).control
    held = [control.approval_name(key) for key in _groups(found) if told.holds_back(key)]
    if not held:
        raise Refused("no group waits for an approval")
    return list(dict.fromkeys(held))


def _refuse(found: Found, verb: str) -> None:
    """Say why a verb means nothing for a rollout, if so."""
    if why := found.refused.get(verb):
        raise Refused(f"{verb} does nothing for {found.kind.singular} {found.title}: {why}")


def _by_patch(change: Change, verb: str, found: Found, now: datetime, by: str) -> Change:
    """Add who does it, which cannot be part of a patch of the spec."""
    return replace(change, records=records_of(found, verb, change.revision, now, by))


def _abort_by_undo(found: Found, entry: RolloutKind, now: datetime) -> Change:
    """Abort what has no way back of its own: write the revision before the present one."""
    if found.picture(now).state in (COMPLETE, LEFT):
        raise _nothing_to_abort(found)
    back = _undo(found, entry, None)
    number = back.revision.number if back.revision is not None else 0
    return replace(back, done=f"is aborted: it goes back to revision {number}")


def _undo(found: Found, entry: RolloutKind, number: int | None) -> Change:
    _refuse(found, UNDO)
    stored, meta = found.subject.revisions, found.subject.metadata
    present = found.subject.revision
    earlier = found.previous or _last_complete(stored, present)
    if number is None and earlier is None:
        there = ", ".join(str(each.number) for each in stored if each.revision != present) or "none"
        raise Refused(
            f"no earlier revision of {found.title} was complete; --to-revision names one that was not: {there}"
        )
    chosen = pick(stored, number, earlier, found.title)
    if chosen.revision == present:
        raise Refused(f"revision {chosen.number} is the present one")
    if chosen.content is None:
        others = [str(each.number) for each in stored if each.revision != present and each.content is not None]
        there = f"--to-revision names another: {', '.join(others)}" if others else "there is no other"
        raise Refused(f"{_unusable(chosen)}; {there}")
    unchanged = {"op": "test", "path": "/metadata/generation", "value": meta.generation}
    patch = JSONPatch([unchanged, *(found.undo or entry.undo)(chosen)])
    done = f"goes back to revision {chosen.number}"
    return Change(found.kind, found.name, meta.namespace, patch, done, revision=chosen)


def _last_complete(stored: Sequence[StoredRevision], present: str) -> StoredRevision | None:
    """Return the last revision before the present one that was complete, whether or not it can be put back."""
    found = load([replace(each, content={}) for each in stored], present).completed
    return next((each for each in stored if found is not None and each.name == found.name), None)


def _unusable(revision: StoredRevision) -> str:
    """Say why a revision cannot be put back."""
    if not revision.secrets_lost:
        return f"revision {revision.number} cannot be read: {revision.name} has no content"
    return (
        f"revision {revision.number} cannot be put back: what the Secrets in it held is no longer kept "
        f"in the annotation {SECRET_DATA}"
    )
