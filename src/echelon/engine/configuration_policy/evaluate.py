"""One evaluation of a policy: look at everything, and then, if the policy enforces, mend what is wrong.

Looking comes first and is the same whether the policy informs or enforces, so what a policy that informs announces is
what it would do. Before anything is written, what must not be forgotten is written down on the policy.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.configuration_policy import ConfigurationPolicy, NamespaceSelector
from echelon.api.kinds import Kind
from echelon.engine.configuration_policy import pruning
from echelon.engine.configuration_policy.findings import Finding
from echelon.engine.configuration_policy.looking import Survey
from echelon.engine.configuration_policy.mending import Mending
from echelon.engine.configuration_policy.pruning import Entry, Ledger, Memory, Place
from echelon.engine.configuration_policy.requests import (
    Cause,
    Refusal,
    Remember,
    RequestFailed,
    Steps,
    do,
    find_kind,
    get,
    is_gone,
)
from echelon.engine.configuration_policy.results import (
    Evaluation,
    Leaver,
    TemplateResult,
    findings_of,
    place_of,
    results_of,
)
from echelon.engine.configuration_policy.targets import Namespaces
from echelon.engine.configuration_policy.templates import Template, TemplateProblem, read_templates
from echelon.engine.plan import Create, Delete


@dataclass(frozen=True)
class _Leavers:
    """What leaves a policy: what is there, what is gone, and whether something could not be found out."""

    found: tuple[Leaver, ...] = ()
    gone: frozenset[Place] = frozenset()
    unclear: bool = False


def evaluate(policy: ConfigurationPolicy, now: datetime, manager: str) -> Steps[Evaluation]:
    """Evaluate a policy; `manager` is the name under which its objects are written.

    What is asked for on the way, and what may be answered, is in `requests`.
    """
    enforcing = pruning.is_enforcing(policy)
    namespaces = Namespaces(policy.spec.namespace_selector if policy.spec is not None else NamespaceSelector())
    survey, looked = Survey(now, enforcing, namespaces), list[TemplateResult | TemplateProblem]()
    for template in read_templates(policy.spec):
        seen = (yield from survey.look(template)) if isinstance(template, Template) else template
        looked.append(seen)
    leavers = yield from _find_leavers(policy, looked, manager)
    intents = yield from _open_intents(policy, looked, manager)
    intended = _intended(policy, looked)
    memory = _memory(policy, looked, leavers.gone, [*intents, *intended])
    if memory != pruning.memory_of(policy):
        yield Remember(memory.finalizer, memory.ledger)
    ledger = pruning.parse_ledger(memory.ledger) or pruning.EMPTY
    selected, unpruned = namespaces.selected, list[str]()
    if enforcing:
        mending = Mending(now, policy, ledger, {each.place for each in intended})
        for number, each in enumerate(looked):
            if isinstance(each, TemplateResult):
                looked[number] = yield from mending.mend_all(each)
        ledger = mending.ledger
        for leaver in leavers.found:
            if obstacle := (yield from delete(leaver)):
                unpruned.append(obstacle)
    confirmed, unclear = yield from _confirm(ledger, looked, manager)
    return Evaluation(
        tuple(looked),
        enforcing,
        leavers.found,
        tuple(unpruned),
        namespaces=selected,
        forgotten=ledger.dropped,
        confirmed=confirmed,
        unclear=leavers.unclear or unclear,
    )


def delete(leaver: Leaver) -> Steps[str]:
    """Delete an object as the one that was seen; return why that was refused, if it was."""
    kind, entry, metadata = leaver.kind, leaver.entry, leaver.live["metadata"]
    answer = yield from do(Delete(kind, entry.name, entry.namespace, uid=metadata.get("uid", "")))
    if not isinstance(answer, Refusal) or answer.cause is Cause.NOT_FOUND:
        return ""
    where = f" in namespace {entry.namespace}" if entry.namespace else ""
    return f"{kind.plural} [{entry.name}]{where}: {answer.message}"


def _find_leavers(
    policy: ConfigurationPolicy, looked: Sequence[TemplateResult | TemplateProblem], manager: str
) -> Steps[_Leavers]:
    """Return what enforcing would prune, and what is gone. While one template is not understood, nothing is."""
    if not pruning.prunes(policy) or any(isinstance(each, TemplateProblem) for each in looked):
        return _Leavers()
    found, gone, unclear = list[Leaver](), set[Place](), False
    for entry in _leaving(policy, looked):
        try:
            kind, live = yield from find_object(entry, manager)
        except RequestFailed:
            unclear = True  # it is remembered, and looked at again
            continue
        if kind is None or live is None or not pruning.is_pruned(policy, entry, live, manager):
            gone.add(entry.place)
        elif not live["metadata"].get("deletionTimestamp"):
            found.append(Leaver(entry, kind, live))
    return _Leavers(tuple(found), frozenset(gone), unclear)


def find_object(entry: Entry, manager: str) -> Steps[tuple[Kind[Any] | None, JSONObject | None]]:
    """Return an object that was enforced, and its kind; None for what is gone for sure. Raises `RequestFailed`."""
    kind = yield from find_kind(entry.api_version, entry.kind)
    if kind is None:
        return None, None  # with its definition, all objects of a kind are gone
    live = yield from get(kind, entry.namespace, entry.name, fresh=True)
    uid = "" if live is None else live["metadata"].get("uid", "")
    # Whoever concludes from what is not there must be sure of it.
    old = False
    if live is None or (entry.uid and entry.uid != uid):
        old = not (yield from is_gone(kind, entry.namespace, entry.name, entry.uid))
    elif entry.is_intent and not pruning.is_made_by(live, manager):
        old = yield from is_gone(kind, entry.namespace, entry.name, uid)
    if old:
        raise RequestFailed(Refusal(Cause.TROUBLE, "the server shows the past"))
    return kind, live


def _open_intents(
    policy: ConfigurationPolicy, looked: Sequence[TemplateResult | TemplateProblem], manager: str
) -> Steps[list[Entry]]:
    """Return which objects an earlier evaluation may have created without telling.

    It did not, if what it was to replace is still there, or if another's object is.
    """
    lives = {_place(each): each.live for each in findings_of(looked)}
    still: list[Entry] = []
    for entry in pruning.untold_intents(policy) if pruning.prunes(policy) else ():
        live = lives.get(entry.place)
        foreign = live is not None and not pruning.is_made_by(live, manager)
        uid = entry.replaced or (str(live["metadata"].get("uid", "")) if live is not None and foreign else "")
        if uid and entry.place in lives:
            try:
                kind = yield from find_kind(entry.api_version, entry.kind)
                if kind is not None and not (yield from is_gone(kind, entry.namespace, entry.name, uid)):
                    continue
            except RequestFailed:
                pass  # then it is remembered for longer
        still.append(entry)
    return still


def _confirm(
    ledger: Ledger, looked: Sequence[TemplateResult | TemplateProblem], manager: str
) -> Steps[tuple[frozenset[str], bool]]:
    """Return the uids of objects that were found where one was about to be made, and that are there at present.

    Under one intent an object may be made more than once, if people delete it before its uid is told. A read that shows
    an earlier one must not settle whose the later one is. Also return whether something could not be found out.
    """
    intents = {each.place: each for each in ledger.objects if each.is_intent}
    confirmed, unclear = set[str](), False
    understood = [each for each in looked if isinstance(each, TemplateResult)]
    for kind, result in [(each.kind, result) for each in understood for result in each.results]:
        intent = intents.get(place_of(kind, result.found.namespace, result.found.name))
        if intent is None or result.created or result.live is None:
            continue
        uid = str(result.live["metadata"].get("uid", ""))
        if uid == intent.replaced or uid in confirmed or not pruning.is_made_by(result.live, manager):
            continue
        try:
            if not (yield from is_gone(kind, intent.namespace, intent.name, uid)):
                confirmed.add(uid)
        except RequestFailed:
            pass  # then it is remembered for longer
        unclear = unclear or uid not in confirmed
    return frozenset(confirmed), unclear


def _memory(
    policy: ConfigurationPolicy,
    looked: Sequence[TemplateResult | TemplateProblem],
    gone: frozenset[Place],
    intents: Sequence[Entry],
) -> Memory:
    """Return what has to be remembered before anything is done."""
    if not pruning.prunes(policy):
        return Memory(False, None)
    if not pruning.is_enforcing(policy):
        return pruning.memory_while_informing(policy, gone)
    remembered = [*pruning.untold_creations(policy), *intents, *_leaving(policy, looked)]
    return pruning.memory_while_enforcing(policy, [each for each in remembered if each.place not in gone])


def _intended(policy: ConfigurationPolicy, looked: Sequence[TemplateResult | TemplateProblem]) -> list[Entry]:
    """Return what to remember of the objects that are about to be created."""
    return [
        pruning.intent_of(policy, each.target.kind, each.target.namespace, each.target.name)
        for each in findings_of(looked)
        if isinstance(each.fix, Create) and each.base is None
    ]


def _place(finding: Finding) -> Place:
    return place_of(finding.target.kind, finding.target.namespace, finding.target.name)


def _leaving(policy: ConfigurationPolicy, looked: Iterable[TemplateResult | TemplateProblem]) -> tuple[Entry, ...]:
    understood = [each for each in looked if isinstance(each, TemplateResult)]
    listed = {
        place_of(each.kind, result.found.namespace, result.found.name)
        for each in understood
        for result in results_of([each])
    }
    selected = [
        place_of(each.kind, each.template.namespace, "") for each in understood if each.template.selector is not None
    ]
    return pruning.leaving(policy, listed, selected)
