"""What every rollout writes besides its content: failed writes and revisions before it, milestones after it.

Before, because no budget may forget whose write failed, and whatever reaches a cluster must be there to go back to.
"""

from datetime import datetime, timedelta
from operator import attrgetter

from echelon.engine.plan import Patch, Write
from echelon.engine.rollout import history, secret_data
from echelon.engine.rollout.failed_writes import FAILED_WRITES, encode
from echelon.engine.rollout.state import Rollout
from echelon.engine.rollout.subject import Subject

LOOK_AGAIN = timedelta(seconds=2)  # when what is known is too old to act on


def before_content(rollout: Rollout) -> tuple[Write, ...]:
    """Return the writes that come before any cluster gets its content."""
    return (*_store_failed_writes(rollout), *_store_secrets(rollout), *history.store(rollout.subject, rollout.history))


def after_content(rollout: Rollout, now: datetime) -> tuple[Write, ...]:
    """Return the writes that come when the clusters have got their content."""
    namespace, present = rollout.subject.namespace, rollout.history.present
    writes = history.prune(rollout.history, namespace)
    if present is not None and (notes := rollout.to_note(now)):
        writes = (*writes, history.note(present, namespace, notes))
    return writes


def look_again_after(rollout: Rollout, now: datetime) -> timedelta | None:
    """Return when something is due although nothing changes."""
    outcomes = rollout.subject.outcomes
    rechecks = [each.decision.recheck_after for each in rollout.references if each.decision is not None]
    if rollout.allocations.uncertain:
        rechecks.append(LOOK_AGAIN)
    rechecks.append(rollout.allocations.removal.recheck_after)
    if outcomes.next_try is not None:
        rechecks.append(outcomes.next_try - now)
    elif outcomes.own:  # nothing has shown yet that it is over: what is known may be older than what was said of it
        rechecks.append(LOOK_AGAIN)
    return min((each for each in rechecks if each is not None), default=None)


def patch_of(subject: Subject, body: dict[str, object], subresource: str = "") -> Patch:
    """Return a patch of the object itself, as it was seen."""
    return Patch.of(subject.kind, subject.metadata, body, subresource)


def _store_secrets(rollout: Rollout) -> tuple[Write, ...]:
    """Return what keeps on the object what the Secrets in its stored revisions hold, if it says something else."""
    subject, past = rollout.subject, rollout.history
    known = subject.metadata.annotations.get(secret_data.SECRET_DATA)
    if past.present is not None and known is None:
        return ()  # it was stored with nothing to keep
    kept = sorted((each for each in subject.revisions if each not in past.obsolete), key=attrgetter("number"))
    held = secret_data.encode(subject.revision, subject.content, kept)
    if held == known:
        return ()
    return (patch_of(subject, {"metadata": {"annotations": {secret_data.SECRET_DATA: held}}}),)


def _store_failed_writes(rollout: Rollout) -> tuple[Write, ...]:
    """Return what keeps on the object whose writes failed, if it says something else."""
    subject = rollout.subject  # what cannot be read, nobody has to remember
    failed = encode({name: each for name, each in rollout.failed_writes.items() if name not in subject.unreadable})
    if failed == subject.metadata.annotations.get(FAILED_WRITES):
        return ()
    return (patch_of(subject, {"metadata": {"annotations": {FAILED_WRITES: failed}}}),)
