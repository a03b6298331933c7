"""What is to be done about a binding: the ledger, the works, and what is told of it.

The order of writes is the whole of its safety. The ledger comes first, by compare-and-swap on the state that it was
decided from; whoever loses that race writes nothing. Then the works, which spend what the ledger has reserved. A crash
in between leaves a grant that is counted and not spent, and the next plan sends it with the same id.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import msgspec

from echelon.api.base import JSONObject
from echelon.api.karmada import RESOURCE_BINDING
from echelon.api.rollout_ledger import ROLLOUT_LEDGER
from echelon.engine.align import BadStrategy, Interpreter, Ledger, RollingStrategy, interpreter_of
from echelon.engine.plan import NOTHING, Action, Create, Emit, Patch, Plan, Together, Write
from echelon.engine.rollout.bookkeeping import LOOK_AGAIN, after_content, before_content, look_again_after, patch_of
from echelon.engine.rollout.conditions import ConditionDraft, conditions_of
from echelon.engine.rollout.departures import listed
from echelon.engine.rollout.evaluate import roll_out
from echelon.engine.rollout.events import ACTION, announcements, regarding_of
from echelon.engine.rollout.listing import summary_of
from echelon.engine.rollout.state import Rollout
from echelon.engine.work.health_state import part, text
from echelon.engine.workload.alignment import Aligned, Alignment, Wanted
from echelon.engine.workload.conditions import (
    BAD_STRATEGY,
    HUB_RUNS_TEMPLATE,
    NAME_TOO_LONG,
    NO_TEMPLATE,
    OVERRIDE_CONFLICT,
    OVERRIDE_FAILED,
    SECOND_BINDING,
    aligned_conditions,
    held_conditions,
    ignored_fields,
    ignored_works,
    karmada_conditions,
    passing_conditions,
)
from echelon.engine.workload.hub_runs import hub_runs
from echelon.engine.workload.names import ALIGN, BINDING_FINALIZER
from echelon.engine.workload.removal import delete_ledger, finalize, remove_all
from echelon.engine.workload.silence import Silence, silence_of
from echelon.engine.workload.status import binding_status, ledger_status
from echelon.engine.workload.subject import holdings_of, passed_through, subject_of
from echelon.engine.workload.template_status import template_status
from echelon.engine.workload.templates import Templates
from echelon.engine.workload.view import WorkloadView
from echelon.engine.workload.writes import WorkWrites, delete_works, pass_works, push_works

_LONGEST_LABEL = 63
_NAMED = 3


def plan(view: WorkloadView, now: datetime, *, brief: bool = False) -> Plan:
    """Plan a binding. With `brief` statuses are left alone unless one of the conditions, or a clock, changes."""
    if not view.is_ours:
        return NOTHING
    meta = view.binding.metadata
    if meta.deletion_timestamp:
        return finalize(view, now)
    if view.template is None and not view.template_problem:
        return _without_template(view, now)
    if view.settling is not None:
        return Plan(look_again_after=view.settling)
    if refusal := refusal_of(view):
        return _held(view, *refusal, now)
    if BINDING_FINALIZER not in meta.finalizers:
        body = {"metadata": {"finalizers": [*meta.finalizers, BINDING_FINALIZER]}}
        return Plan((Patch.of(RESOURCE_BINDING, meta, body),))
    if view.may_miss_works:
        return Plan(look_again_after=LOOK_AGAIN)
    template = view.template or {}
    interpreter, strategy, why = aligned_as(template)
    aligned = interpreter if strategy is not None else None
    templates = Templates.of(template, aligned, view.revisions, view.override)
    if failed := templates.failed(templates.revision, view.targets):
        said = "; ".join(f"{name}: {why}" for name, why in sorted(failed.items())[:_NAMED])
        return _held(view, OVERRIDE_FAILED, f"overrides cannot be made: {said}", now)
    if interpreter is None or strategy is None:
        return _pass_through(view, templates, why, now, brief=brief)
    if touched := templates.touched(templates.revision, view.targets):
        said = "; ".join(f"{name}: {why}" for name, why in sorted(touched.items())[:_NAMED])
        more = f", and {len(touched) - _NAMED} more clusters" if len(touched) > _NAMED else ""
        return _held(view, OVERRIDE_CONFLICT, f"overrides touch fields that budgets are made of: {said}{more}", now)
    try:
        alignment = Alignment.of(view, templates, interpreter, strategy)
    except BadStrategy as error:
        return _held(view, BAD_STRATEGY, f"{interpreter.strategy_path}.{error}", now)
    return _align(alignment, now, brief=brief)


def _align(alignment: Alignment, now: datetime, *, brief: bool) -> Plan:
    view, templates = alignment.view, alignment.templates
    standing = alignment.as_it_is(now)
    holdings = holdings_of(alignment, standing.round, now)
    subject = subject_of(view, templates, holdings)
    rollout = roll_out(subject, now)
    if rollout.history.generation > view.template_generation:
        # Somebody has rolled out a newer template than the one that we see. Ours would take the fleet back.
        return Plan(look_again_after=LOOK_AGAIN)
    revision = rollout.revision if rollout.revision in templates else templates.revision
    silence = silence_of(view, rollout, now, alignment)
    alignment = alignment.without(silence.written_off)
    starting = {each.cluster for ref in rollout.references for each in ref.starting}
    having = {each for each in view.targets if alignment.has(revision, each)}
    having |= {each.cluster for each in rollout.holdings.values() if rollout.is_current(each)}
    open_ = having | starting
    wanted = Wanted(
        revision=revision,
        open=open_,
        groups=_groups(rollout),
        staying=[each for each in rollout.allocations.removal.stays if each in alignment.begun.ledger.clusters],
        held=silence.why,
        paused=_is_paused(rollout),
    )
    aligned = alignment.round(wanted, now, standing=standing)
    unwritten = rollout.failed_writes.keys() - rollout.retries
    ended = _ended(aligned, rollout, silence)
    silent = silence.why.keys() | unwritten | ended
    pushed = push_works(alignment, aligned.round, open_=open_, silent=silent)
    gone = [each for each in ended if each in view.works and each not in silence.put_off]
    ledger = pushed.ledger.without(each for each in ended if each not in view.works)
    waiting = view.targets.keys() - aligned.round.decisions.keys()
    if waiting:  # what is complete without them has not been everywhere
        ledger = msgspec.structs.replace(ledger, stable=alignment.begun.ledger.stable)
    works = (
        *WorkWrites(view, silence.suspended, now).of(pushed.carried, leave=unwritten),
        *delete_works(view.works[each] for each in gone),
    )
    drafts = [
        *_drafts(view, rollout),
        *aligned_conditions(
            aligned.round,
            aligned.budgets,
            alignment.strategy,
            lost=alignment.begun.lost,
            waiting=waiting,
            foreign=view.foreign,
            unknown=pushed.unknown,
            causes={name: work.cause for name, work in view.works.items()},
            removal=rollout.allocations.removal,
        ),
    ]
    statuses = (
        binding_status(view, drafts, now, standing=aligned.round.decisions, brief=brief),
        ledger_status(
            view,
            aligned.round,
            ledger=ledger,
            budgets=aligned.budgets,
            holdings=holdings,
            summary=summary_of(rollout, now),
            brief=brief,
        ),
        None if brief else template_status(view, view.targets),
    )
    due = _soonest(look_again_after(rollout, now), _after(aligned, now), silence.look_again_after)
    first = (*_told(view, rollout, alignment, silence), *_store(view, ledger))
    return _Writes(first, works, statuses).plan(view, _leaving(rollout, view, gone), due, now)


def _pass_through(view: WorkloadView, templates: Templates, why: str, now: datetime, *, brief: bool) -> Plan:
    """Send the template as it is: no ledger, no grants; groups still come one after the other."""
    rollout = roll_out(subject_of(view, templates, passed_through(view, templates)), now)
    if rollout.history.generation > view.template_generation:
        return Plan(look_again_after=LOOK_AGAIN)
    revision = rollout.revision if rollout.revision in templates else templates.revision
    having = {each.cluster for each in rollout.holdings.values() if rollout.is_current(each)}
    silence = silence_of(view, rollout, now)
    open_ = having | {each.cluster for ref in rollout.references for each in ref.starting}
    unwritten = rollout.failed_writes.keys() - rollout.retries
    carried = pass_works(view, templates, revision, open_=open_, silent=silence.why.keys() | unwritten)
    going = [each for each in rollout.allocations.to_delete if each in view.works and each not in silence.put_off]
    works = (
        *WorkWrites(view, silence.suspended, now).of(carried, leave=unwritten),
        *delete_works(view.works[each] for each in going),
    )
    done = sum(
        view.works[each].report.applied is True and view.works[each].health != "Unhealthy"
        for each in having & view.works.keys()
    )
    removal = rollout.allocations.removal
    drafts = [*_drafts(view, rollout), *passing_conditions(why, done=done, total=len(view.targets), removal=removal)]
    statuses = (binding_status(view, drafts, now, brief=brief), None if brief else template_status(view, view.targets))
    due = _soonest(look_again_after(rollout, now), silence.look_again_after)
    first = delete_ledger(view)  # what comes now is not in it
    return _Writes(first, works, statuses).plan(view, _leaving(rollout, view, going), due, now)


@dataclass(frozen=True)
class _Writes:
    """What a plan writes, in its order: what the works rely on, the works, and what is told of them."""

    first: tuple[Write | Emit, ...]
    works: tuple[Write, ...]
    statuses: tuple[Patch | None, ...]  # the binding's is the first

    def plan(self, view: WorkloadView, rollout: Rollout, due: timedelta | None, now: datetime) -> Plan:
        told = tuple(each for each in self.statuses if each is not None)
        if rollout.not_stored:
            # The rest would rely on it.
            return Plan(told, look_again_after=due)
        recorded = self.statuses[0] is not None
        actions: list[Action] = [*before_content(rollout), *announcements(rollout, recorded=recorded), *self.first]
        if not view.confirmed and any(isinstance(each, Create) for each in self.works):
            # A process may be born into the past, where a cluster has no work yet, and would make one.
            # A write of the binding that changes nothing costs nothing, and fails if this is not its newest state.
            actions.insert(0, patch_of(rollout.subject, {}))
        if self.works:
            actions.append(Together(self.works))
        actions += [*after_content(rollout, now), *told]
        return Plan(tuple(actions), look_again_after=due, stops_at_failure=rollout.is_limited)


def _store(view: WorkloadView, ledger: Ledger) -> tuple[Write, ...]:
    """Return the write of the ledger, which fails if it is not any more what this was decided from."""
    stored, meta = view.ledger, view.binding.metadata
    owner = {**RESOURCE_BINDING.owner_reference(meta.name, meta.uid), "controller": True}
    spec: JSONObject = {"format": ledger.format, "content": ledger.json.decode()}
    if stored is None:
        metadata = {"name": meta.name, "namespace": meta.namespace, "ownerReferences": [owner]}
        return (
            Create(ROLLOUT_LEDGER, {**ROLLOUT_LEDGER.type_meta, "metadata": metadata, "spec": spec}, meta.namespace),
        )
    body: JSONObject = {}
    if stored.ledger != ledger:
        body["spec"] = spec
    if all(each.uid != meta.uid for each in stored.metadata.owner_references):
        body["metadata"] = {"ownerReferences": [owner]}
    return (Patch.of(ROLLOUT_LEDGER, stored.metadata, body),) if body else ()


def _told(view: WorkloadView, rollout: Rollout, alignment: Alignment, silence: Silence) -> list[Emit]:
    """Return what people have to hear of beside what every rollout tells."""
    regarding = regarding_of(rollout.subject)
    events = []
    if alignment.begun.lost:
        note = f"{alignment.begun.lost}: nobody gets more than it has until every cluster has reported a new push"
        events.append(Emit(regarding, "LedgerLost", ACTION, note, "Warning"))
    stored = view.ledger.ledger if view.ledger is not None else None
    written_off = [each for each in silence.written_off if stored is not None and each in stored.clusters]
    if written_off:
        note = f"{listed(written_off)}: no longer named, and not to be reached: what runs there counts no more"
        events.append(Emit(regarding, "ClusterWrittenOff", ACTION, note, "Warning"))
    return events


def refusal_of(view: WorkloadView) -> tuple[str, str] | None:
    """Return why a binding cannot be carried out: a reason, and a message."""
    if view.template_problem:
        return NO_TEMPLATE, view.template_problem
    if view.rival:
        return SECOND_BINDING, (
            f"binding {view.rival} is of the same template, and older: with two of them no budget would hold over both"
        )
    if view.template is not None and (found := hub_runs(view.template, propagated=True)):
        return HUB_RUNS_TEMPLATE, (
            f"somebody on the hub runs the template itself, for {found}: a hub whose controller"
            " manager runs workload controllers is one of the clusters, and templates do not belong there"
        )
    if len(label := f"{view.key.namespace}.{view.key.name}") > _LONGEST_LABEL:
        return NAME_TOO_LONG, (
            f"metadata.name: namespace and name together, {label}, have {len(label)} characters, and no label can have"
            f" more than {_LONGEST_LABEL}"
        )
    return None


def _held(view: WorkloadView, reason: str, message: str, now: datetime) -> Plan:
    """Change nothing, and say why."""
    drafts = [*karmada_conditions(view), *held_conditions(reason, message), *_ignored(view)]
    return Plan(status=binding_status(view, drafts, now))


def _without_template(view: WorkloadView, now: datetime) -> Plan:
    """Take the workload off every cluster, because its template was deleted."""
    resource = view.binding.spec.resource
    message = f"there is no {resource.kind} {resource.name} in namespace {resource.namespace}"
    held = _held(view, NO_TEMPLATE, message, now)
    return replace(held, actions=remove_all(view, now))


def aligned_as(template: JSONObject) -> tuple[Interpreter | None, RollingStrategy | None, str]:
    """Return how a template is aligned, or why it is not."""
    kind = text(template, "kind")
    if text(part(template, "metadata", "annotations"), ALIGN) == "false":
        return None, None, f'annotation {ALIGN} is "false"'
    interpreter = interpreter_of(template)
    if interpreter is None:
        return None, None, f"{kind} of {text(template, 'apiVersion')} is a kind whose updates nobody here can pace"
    strategy = interpreter.get_rolling_strategy(template)
    return interpreter, strategy, "" if strategy is not None else f"this {kind} has no rolling update"


def _drafts(view: WorkloadView, rollout: Rollout) -> list[ConditionDraft]:
    return [*karmada_conditions(view), *conditions_of(rollout), *_ignored(view)]


def _ignored(view: WorkloadView) -> list[ConditionDraft]:
    return [*ignored_fields(view.binding), *ignored_works(view)]


def _groups(rollout: Rollout) -> dict[str, int]:
    """Return the place of each cluster's group in the order of groups."""
    found: dict[str, int] = {}
    for ref in rollout.references:
        for place, key in enumerate(sorted(ref.allocation.groups.groups)):
            found.update(dict.fromkeys(ref.allocation.groups.groups[key], place))
    return found


def _ended(aligned: Aligned, rollout: Rollout, silence: Silence) -> frozenset[str]:
    """Return the clusters that nobody names any more and that have nothing left, or are written off."""
    decisions = aligned.round.decisions
    return frozenset(
        each
        for each in rollout.allocations.to_delete
        if each in silence.written_off or each not in decisions or decisions[each].gone
    )


def _leaving(rollout: Rollout, view: WorkloadView, clusters: Iterable[str]) -> Rollout:
    """Return a rollout of which only these clusters are told to lose their work now: the others are on their way."""
    going = tuple(each for each in clusters if view.works[each].terminating is None)
    removal = replace(rollout.allocations.removal, going=going)
    return replace(rollout, allocations=replace(rollout.allocations, removal=removal))


def _is_paused(rollout: Rollout) -> bool:
    """Whether people want everything to stand still. What an abort puts back waits for nobody."""
    return rollout.rollback_to is None and (rollout.control.paused or rollout.control.aborted)


def _after(aligned: Aligned, now: datetime) -> timedelta | None:
    at = aligned.round.look_again_at
    return None if at is None else timedelta(seconds=max(0.0, at - now.timestamp()))


def _soonest(*waits: timedelta | None) -> timedelta | None:
    return min((each for each in waits if each is not None), default=None)
