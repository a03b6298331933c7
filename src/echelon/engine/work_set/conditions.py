"""The conditions of a work set: three of upstream's, and two that say what upstream does not."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from echelon.api.meta import Condition
from echelon.api.times import format_time, parse_time
from echelon.api.work_set import ManifestWorkReplicaSetSummary
from echelon.engine.conditions import set_condition
from echelon.engine.rollout.control import ABORTED, PAUSED
from echelon.engine.rollout.model import Phase, Standing, Wait
from echelon.engine.rollout.reasons import names, title
from echelon.engine.rollout.removal import Stay
from echelon.engine.rollout.strategy import Kind
from echelon.engine.work_set.leaving import held
from echelon.engine.work_set.named_groups import UNKNOWN, Missing
from echelon.engine.work_set.rollout import RefRollout, Rollout
from echelon.engine.work_set.sharing import Share
from echelon.engine.work_set.view import WorkSetView

VERIFIED, ROLLED_OUT, APPLIED = "PlacementVerified", "PlacementRolledOut", "ManifestworkApplied"
BLOCKED, TIMED_OUT = "RolloutBlocked", "ClustersTimedOut"
EMPTY = "PlacementDecisionEmpty"
AS_EXPECTED, NOT_AS_EXPECTED = "AsExpected", "NotAsExpected"
NOT_BOUND, REMOVAL_HELD = "ClusterNotBound", Stay.HELD.value
BREACH, APPROVAL, WRITE_FAILED = "MaxFailuresExceeded", "AwaitingApproval", "WriteFailed"
ABORT_IGNORED = f"{ABORTED} has no effect: the rollout was complete before; echelon rollout undo goes back"
_LAST = "the last deadline was "  # not cut to seconds: what came after it was not told yet


class Said(NamedTuple):
    """What a condition is to say."""

    type: str
    holds: bool
    reason: str
    message: str = ""


def conditions_of(view: WorkSetView, rollout: Rollout, total: ManifestWorkReplicaSetSummary) -> list[Said]:
    """Return all conditions of a set."""
    verified = verified_of(view, rollout)
    return [verified, _rolled_out(rollout), _applied(verified, total), blocked(rollout), _timed_out(rollout)]


def merged(before: Sequence[Condition], said: Sequence[Said], generation: int, now: datetime) -> list[Condition]:
    """Return conditions with some said anew. Their times move only when their status does."""
    found = list(before)
    for each in said:
        condition = Condition(
            type=each.type,
            status="True" if each.holds else "False",
            observed_generation=generation,
            last_transition_time=format_time(now),
            reason=each.reason,
            message=each.message,
        )
        found = set_condition(found, condition)
    return found


def turned_over(before: Sequence[Condition], after: Sequence[Condition]) -> bool:
    """Whether a condition says something else than before, and not only in other words."""
    return {_essence(each) for each in before} != {_essence(each) for each in after}


def _essence(condition: Condition) -> tuple[str, str, str, int]:
    return condition.type, condition.status, condition.reason, condition.observed_generation


def verified_of(view: WorkSetView, rollout: Rollout) -> Said:
    """Say whether it is clear which clusters are meant, and what is strange about it."""
    for ref in rollout.refs:
        if ref.share.trouble is not None:
            return Said(VERIFIED, False, ref.share.trouble.reason, ref.share.trouble.message)
    if (missing := missing_group(rollout)) is not None:
        return Said(VERIFIED, False, missing.reason, missing.message)
    notes = [note for ref in rollout.refs for note in _notes(ref)] + [note for _, note in warnings(rollout)]
    if rollout.strangers:
        return Said(VERIFIED, False, NOT_BOUND, "; ".join([strange(view, rollout), *notes]))
    if not rollout.has_clusters and all(ref.share.settled or not ref.standings for ref in rollout.refs):
        return Said(VERIFIED, False, EMPTY, "; ".join(notes))
    notes += _not_taken(view, rollout)
    return Said(VERIFIED, True, AS_EXPECTED, "; ".join(notes))


def _not_taken(view: WorkSetView, rollout: Rollout) -> list[str]:
    """Return what the server does not take, in its own words about the first cluster."""
    notes, failed = [], rollout.failed_writes
    if failed:
        notes.append(f"the works of {names(sorted(failed))} are not written: {failed[min(failed)].message}")
    other = {cluster: why for cluster, why in view.outcomes.other.items() if cluster in view.works}
    if other:
        notes.append(f"the works of {names(sorted(other))} are not relabelled or removed: {other[min(other)]}")
    return notes


def missing_group(rollout: Rollout) -> Missing | None:
    """Return a group that was named, and without which nothing starts, if that is certain."""
    return next((ref.missing for ref in rollout.refs if ref.missing is not None and ref.missing.certain), None)


def warnings(rollout: Rollout) -> list[tuple[str, str]]:
    """Return what is carried out to the letter and is hardly what somebody meant, each with a reason."""
    found = [("ConcurrencyNotLimited", _without_limit(ref.share)) for ref in rollout.refs]
    found.append((UNKNOWN, rollout.lost_approval))
    return [(reason, note) for reason, note in dict.fromkeys(found) if note]


def _without_limit(share: Share) -> str:
    """Say what a zero stands for. Clients in Go send one where nothing was set, so it cannot be refused."""
    strategy = share.strategy if share.strategy is not None and share.strategy.kind is Kind.PROGRESSIVE else None
    window = share.ref.strategy.progressive
    if strategy is None or window is None or window.max_concurrency is None or not strategy.max_concurrency.is_zero:
        return ""
    default = strategy.default_concurrency
    means = f"{default} at a time, the size of a decision group" if default else "all clusters at once"
    value = window.max_concurrency
    return f"{share.ref.name}: rolloutStrategy.progressive.maxConcurrency is {value}, which sets no limit: {means}"


def _notes(ref: RefRollout) -> list[str]:
    """Return what somebody should know who wonders why not more, or something else, happens."""
    notes = [ref.missing.message] if ref.missing is not None else []
    share = ref.share
    name, strategy = share.ref.name, share.ref.strategy
    if not share.settled:
        notes.append(f"the decisions of {name} do not agree with its status; nothing is removed until they do")
        if share.ref.placement is not None and share.ref.placement.short:
            first = title(min(share.ref.placement.short))
            notes.append(f"{name}: {first} has more clusters than are decided; no group after it begins")
    notes += filter(None, (share.ref.ignored, share.ref.note))
    if strategy.type == Kind.ALL.value and (strategy.progressive or strategy.progressive_per_group):
        notes.append(f"{name}: rolloutStrategy.type is All, so progressive and progressivePerGroup are not used")
    return notes


def strange(view: WorkSetView, rollout: Rollout) -> str:
    """Say which clusters are selected and get nothing."""
    namespace = view.work_set.metadata.namespace
    who = names(rollout.strangers)
    return f"{who}: selected, but in no cluster set that is bound to namespace {namespace}; nothing starts there"


def _rolled_out(rollout: Rollout) -> Said:
    if rollout.complete:
        return Said(ROLLED_OUT, True, "Complete")
    removal = rollout.sharing.removal
    if removal.held:
        return Said(ROLLED_OUT, False, REMOVAL_HELD, held(removal))
    if not rollout.has_clusters:
        return Said(ROLLED_OUT, False, EMPTY if rollout.decided else "Progressing", "no cluster is selected")
    standings = [standing for ref in rollout.refs for standing in ref.standings]
    done = sum(each.phase is Phase.SUCCEEDED and not each.in_flight for each in standings)
    message = f"{done} of {len(standings)} clusters are done"
    if rollout.was_complete:
        message = f"it was complete; {message} now"
    if removal.pending:
        message += f", {len(removal.pending)} are still to lose what they have"
    if rollout.control.aborted:
        message = f"aborted; {message} with the revision before" if rollout.back_to else "aborted"
    return Said(ROLLED_OUT, False, "Progressing", message)


def _applied(verified: Said, total: ManifestWorkReplicaSetSummary) -> Said:
    if total.total == 0:
        reason = EMPTY if verified.reason == EMPTY else NOT_AS_EXPECTED
        return Said(APPLIED, False, reason, verified.message)
    if total.available == total.total and not total.progressing and not total.degraded:
        return Said(APPLIED, True, AS_EXPECTED)
    if total.progressing and not total.degraded:
        return Said(APPLIED, False, "Processing", f"{total.progressing} of {total.total} works are progressing")
    missing = total.total - total.available
    message = f"{missing} of {total.total} works are not available, {total.degraded} are degraded"
    return Said(APPLIED, False, NOT_AS_EXPECTED, message)


def blocked(rollout: Rollout) -> Said:
    """Say what keeps the rollout from going on until somebody does something."""
    if rollout.control.aborted:
        if rollout.back_to is not None:
            message = f"{ABORTED} names the present revision: revision {rollout.back_to.revision} is put back"
        else:
            message = f"{ABORTED} names the present revision, and no revision before it was completed: nothing starts"
        return Said(BLOCKED, True, "Aborted", message)
    if rollout.malformed:
        return Said(
            BLOCKED, True, "Paused", f"nothing starts, because it is not clear what was meant: {rollout.malformed}"
        )
    if rollout.control.paused:
        return Said(BLOCKED, True, "Paused", f"annotation {PAUSED} is true")
    if rollout.not_stored:
        message = f"nothing starts, because the hub does not take what has to be stored before: {rollout.not_stored}"
        return Said(BLOCKED, True, WRITE_FAILED, message)
    message = ABORT_IGNORED if rollout.abort_ignored else ""
    missing = missing_group(rollout)
    held = missing.reason if missing is not None else Wait.HELD.value
    for wait, reason in ((Wait.BREACH, BREACH), (Wait.HELD, held), (Wait.APPROVAL, APPROVAL)):
        texts = [_text(ref) for ref in rollout.refs if ref.decision is not None and ref.decision.blocked is wait]
        if texts and not rollout.complete:
            return Said(BLOCKED, True, reason, "; ".join(filter(None, (*texts, message))))
    return Said(BLOCKED, False, "NotBlocked", message)


def _text(ref: RefRollout) -> str:
    return f"{ref.share.ref.name}: {ref.decision.blocked_message}" if ref.decision is not None else ""


def _timed_out(rollout: Rollout) -> Said:
    late = [each.cluster for each in timed_out(rollout)]
    if not late:
        return Said(TIMED_OUT, False, "NoneTimedOut")
    last = max((each.until for each in timed_out(rollout) if each.until is not None), default=None)
    message = names(late)
    if last is not None:
        message = f"{message}; {_LAST}{last.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    return Said(TIMED_OUT, True, "ProgressDeadlineExceeded", message)


def told_until(before: Sequence[Condition]) -> datetime | None:
    """Return up to when missed deadlines were told, as the condition about them says."""
    said = next((each.message for each in before if each.type == TIMED_OUT and each.status == "True"), "")
    return parse_time(said.rpartition(_LAST)[2]) if _LAST in said else None


def timed_out(rollout: Rollout) -> list[Standing]:
    """Return the clusters that missed their deadline."""
    return [each for ref in rollout.refs for each in ref.standings if each.phase is Phase.TIMED_OUT]
