"""The conditions that every rollout has: two of upstream's work sets, and two that say what upstream does not."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from echelon.api.meta import Condition
from echelon.api.times import parse_time
from echelon.engine.conditions import condition_stamp, set_condition
from echelon.engine.rollout.allocation import Allocation
from echelon.engine.rollout.control import ABORTED, PAUSED
from echelon.engine.rollout.departures import held
from echelon.engine.rollout.model import ClusterDecision, Phase, Wait
from echelon.engine.rollout.named_groups import UNKNOWN, MissingGroup
from echelon.engine.rollout.reasons import names, title
from echelon.engine.rollout.removal import Stay
from echelon.engine.rollout.state import ReferenceRollout, Rollout
from echelon.engine.rollout.strategy import StrategyType

VERIFIED, ROLLED_OUT = "PlacementVerified", "PlacementRolledOut"
BLOCKED, TIMED_OUT = "RolloutBlocked", "ClustersTimedOut"
EMPTY = "PlacementDecisionEmpty"
FINISHED, FAILED = "CompleteWithFailures", "Failed"  # states: nobody waits, and what failed is tolerated or is not
AS_EXPECTED = "AsExpected"
NOT_BOUND, REMOVAL_HELD = "ClusterNotBound", Stay.HELD.value
STRANGE_REVISION = "RevisionIgnored"
BREACH, APPROVAL, WRITE_FAILED = "MaxFailuresExceeded", "AwaitingApproval", "WriteFailed"
ABORT_IGNORED = f"{ABORTED} has no effect: the rollout was complete before; echelon rollout undo goes back"
_LAST = "the last deadline was "  # not cut to seconds: what came after it was not told yet


class ConditionDraft(NamedTuple):
    """What a condition is to say."""

    type: str
    holds: bool
    reason: str
    message: str = ""


def conditions_of(rollout: Rollout) -> list[ConditionDraft]:
    """Return the conditions that every rollout has."""
    return [verified_of(rollout), _rolled_out(rollout), blocked(rollout), _timed_out(rollout)]


def merge_conditions(
    before: Sequence[Condition], drafts: Sequence[ConditionDraft], generation: int, now: datetime
) -> list[Condition]:
    """Return conditions with some said anew. Their times move only when their status does."""
    found, stamp = list(before), condition_stamp(generation, now)
    for each in drafts:
        found = set_condition(found, stamp.condition(each.type, each.holds, each.reason, each.message))
    return found


def status_changed(before: Sequence[Condition], after: Sequence[Condition]) -> bool:
    """Whether a condition says something else than before, and not only in other words."""
    return {_substance(each) for each in before} != {_substance(each) for each in after}


def _substance(condition: Condition) -> tuple[str, str, str, int]:
    return condition.type, condition.status, condition.reason, condition.observed_generation


def verified_of(rollout: Rollout) -> ConditionDraft:
    """Say whether it is clear which clusters are meant, and what is strange about it."""
    said = [ref.allocation.reference.note for ref in rollout.references]
    for ref in rollout.references:
        if (error := ref.allocation.error) is not None:
            return ConditionDraft(VERIFIED, False, error.reason, "; ".join(filter(None, (error.message, *said))))
    if (missing := missing_group(rollout)) is not None:
        return ConditionDraft(VERIFIED, False, missing.reason, "; ".join(filter(None, (missing.message, *said))))
    notes = [note for ref in rollout.references for note in _notes(ref)] + [note for _, note in warnings(rollout)]
    if rollout.unbound:
        return ConditionDraft(VERIFIED, False, NOT_BOUND, "; ".join([unbound_clusters(rollout), *notes]))
    if not rollout.has_clusters and all(
        ref.allocation.settled or not ref.cluster_decisions for ref in rollout.references
    ):
        return ConditionDraft(VERIFIED, False, EMPTY, "; ".join(notes))
    notes += _rejected(rollout)
    return ConditionDraft(VERIFIED, True, AS_EXPECTED, "; ".join(notes))


def _rejected(rollout: Rollout) -> list[str]:
    """Return what the server does not take, in its own words about the first cluster."""
    subject, failed = rollout.subject, rollout.failed_writes
    notes = []
    if failed:
        who = names(sorted(failed))
        notes.append(f"the {subject.noun}s of {who} are not written: {failed[min(failed)].message}")
    other = {cluster: why for cluster, why in subject.outcomes.other.items() if cluster in subject.holdings}
    if other:
        who = names(sorted(other))
        notes.append(f"the {subject.noun}s of {who} are not changed or removed: {other[min(other)]}")
    return notes


def missing_group(rollout: Rollout) -> MissingGroup | None:
    """Return a group that was named, and without which nothing starts, if that is certain."""
    return next((ref.missing for ref in rollout.references if ref.missing is not None and ref.missing.certain), None)


def warnings(rollout: Rollout) -> list[tuple[str, str]]:
    """Return what is carried out to the letter and is hardly what somebody meant, each with a reason."""
    found = [("ConcurrencyNotLimited", _without_limit(ref.allocation)) for ref in rollout.references]
    found.append((UNKNOWN, rollout.unknown_approval))
    strange = [each for each in rollout.subject.revisions if each.strange]
    found += [(STRANGE_REVISION, f"ControllerRevision {each.name} is not believed: {each.strange}") for each in strange]
    return [(reason, note) for reason, note in dict.fromkeys(found) if note]


def _without_limit(allocation: Allocation) -> str:
    """Say what a zero stands for. Clients in Go send one where nothing was set, so it cannot be refused."""
    strategy, ref = allocation.strategy, allocation.reference
    window = ref.strategy.progressive
    if (
        strategy is None
        or strategy.type is not StrategyType.PROGRESSIVE
        or window is None
        or window.max_concurrency is None
        or not strategy.max_concurrency.is_zero
    ):
        return ""
    default = strategy.default_concurrency
    of_group = ref.placement is not None and default == ref.placement.group_size
    means = (
        f"{default} at a time{', the size of a decision group' if of_group else ''}"
        if default
        else "all clusters at once"
    )
    value = window.max_concurrency
    return f"{ref.name}: rolloutStrategy.progressive.maxConcurrency is {value}, which sets no limit: {means}"


def _notes(ref: ReferenceRollout) -> list[str]:
    """Return what somebody should know who wonders why not more, or something else, happens."""
    notes = [ref.missing.message] if ref.missing is not None else []
    reference, strategy = ref.allocation.reference, ref.allocation.reference.strategy
    if not ref.allocation.settled:
        notes.append(f"the decisions of {ref.name} do not agree with its status; nothing is removed until they do")
        if ref.allocation.incomplete_groups:
            first = title(min(ref.allocation.incomplete_groups))
            notes.append(f"{ref.name}: {first} has more clusters than are decided; no group after it begins")
    notes += filter(None, (reference.ignored, reference.note))
    if strategy.type == StrategyType.ALL.value and (strategy.progressive or strategy.progressive_per_group):
        notes.append(f"{ref.name}: rolloutStrategy.type is All, so progressive and progressivePerGroup are not used")
    return notes


def unbound_clusters(rollout: Rollout) -> str:
    """Say which clusters are selected and get nothing."""
    namespace, who = rollout.subject.namespace, names(rollout.unbound)
    return f"{who}: selected, but in no cluster set that is bound to namespace {namespace}; nothing starts there"


def _rolled_out(rollout: Rollout) -> ConditionDraft:
    if rollout.complete:
        return ConditionDraft(ROLLED_OUT, True, "Complete")
    removal = rollout.allocations.removal
    if removal.held:
        return ConditionDraft(ROLLED_OUT, False, REMOVAL_HELD, held(removal))
    if not rollout.has_clusters:
        return ConditionDraft(ROLLED_OUT, False, EMPTY if rollout.decided else "Progressing", "no cluster is selected")
    cluster_decisions = list(rollout.cluster_decisions)
    done = sum(each.phase is Phase.SUCCEEDED and not each.in_flight for each in cluster_decisions)
    message = f"{done} of {len(cluster_decisions)} clusters are done"
    if rollout.was_complete:
        message = f"it was complete; {message} now"
    if removal.pending:
        message += f", {len(removal.pending)} are still to lose what they have"
    if rollout.control.aborted:
        message = f"aborted; {message} with the revision before" if rollout.rollback_to else "aborted"
    return ConditionDraft(ROLLED_OUT, False, "Progressing", message)


def blocked(rollout: Rollout) -> ConditionDraft:
    """Say what keeps the rollout from going on until somebody does something."""
    if rollout.control.aborted:
        if rollout.rollback_to is not None:
            message = f"{ABORTED} names the present revision: revision {rollout.rollback_to.revision} is put back"
        else:
            message = f"{ABORTED} names the present revision, and no revision before it was completed: nothing starts"
        return ConditionDraft(BLOCKED, True, "Aborted", message)
    if rollout.malformed:
        return ConditionDraft(
            BLOCKED, True, "Paused", f"nothing starts, because it is not clear what was meant: {rollout.malformed}"
        )
    if rollout.control.paused:
        return ConditionDraft(BLOCKED, True, "Paused", f"annotation {PAUSED} is true")
    if rollout.not_stored:
        message = f"nothing starts, because the hub does not take what has to be stored before: {rollout.not_stored}"
        return ConditionDraft(BLOCKED, True, WRITE_FAILED, message)
    message = ABORT_IGNORED if rollout.abort_ignored else ""
    missing = missing_group(rollout)
    held = missing.reason if missing is not None else Wait.HELD.value
    for wait, reason in ((Wait.BREACH, BREACH), (Wait.HELD, held), (Wait.APPROVAL, APPROVAL)):
        texts = [_text(ref) for ref in rollout.references if ref.decision is not None and ref.decision.blocked is wait]
        if texts and not rollout.complete:
            return ConditionDraft(BLOCKED, True, reason, "; ".join(filter(None, (*texts, message))))
    return ConditionDraft(BLOCKED, False, "NotBlocked", message)


def state_of(rollout: Rollout) -> str:
    """Return where a rollout stands, as one word: what holds it up comes before how far it is."""
    verified, held_up, rolled_out = verified_of(rollout), blocked(rollout), _rolled_out(rollout)
    if held_up.holds and not rolled_out.holds:
        return held_up.reason
    if not verified.holds and not rolled_out.holds and rolled_out.reason == "Progressing":
        return verified.reason
    if rolled_out.reason == "Progressing" and rollout.finished and not rollout.all_had_it:
        return FINISHED if rollout.tolerates_failures else FAILED
    return rolled_out.reason


def _text(ref: ReferenceRollout) -> str:
    return f"{ref.name}: {ref.decision.blocked_message}" if ref.decision is not None else ""


def _timed_out(rollout: Rollout) -> ConditionDraft:
    late = [each.cluster for each in timed_out(rollout)]
    if not late:
        return ConditionDraft(TIMED_OUT, False, "NoneTimedOut")
    last = max((each.until for each in timed_out(rollout) if each.until is not None), default=None)
    message = names(late)
    if last is not None:
        message = f"{message}; {_LAST}{last.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    return ConditionDraft(TIMED_OUT, True, "ProgressDeadlineExceeded", message)


def told_until(before: Sequence[Condition]) -> datetime | None:
    """Return up to when missed deadlines were told, as the condition about them says."""
    said = next((each.message for each in before if each.type == TIMED_OUT and each.status == "True"), "")
    return parse_time(said.rpartition(_LAST)[2]) if _LAST in said else None


def timed_out(rollout: Rollout) -> list[ClusterDecision]:
    """Return the clusters that missed their deadline."""
    return [each for each in rollout.cluster_decisions if each.phase is Phase.TIMED_OUT]
