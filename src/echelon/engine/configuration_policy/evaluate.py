"""One evaluation of a policy: look at everything, and then, if the policy enforces, mend what is wrong.

Looking comes first and is the same whether the policy informs or enforces, so what a policy that informs announces is
what it would do. Before anything is written, what must not be forgotten is written down on the policy.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from echelon.api.configuration_policy import ConfigurationPolicy, NamespaceSelector
from echelon.engine.configuration_policy import pruning
from echelon.engine.configuration_policy.looking import Survey
from echelon.engine.configuration_policy.mending import Mending
from echelon.engine.configuration_policy.pruning import Entry, Memory, Place
from echelon.engine.configuration_policy.requests import (
    Cause,
    Refusal,
    Remember,
    RequestFailed,
    Steps,
    do,
    find_kind,
    get,
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
    leavers, gone = yield from _find_leavers(policy, looked, manager)
    memory = _memory(policy, looked, gone)
    if memory != pruning.memory_of(policy):
        yield Remember(memory.finalizer, memory.ledger)
    ledger = pruning.parse_ledger(memory.ledger) or pruning.EMPTY
    selected, unpruned = namespaces.selected, list[str]()
    if enforcing:
        mending = Mending(now)
        for number, each in enumerate(looked):
            if isinstance(each, TemplateResult):
                looked[number] = yield from mending.mend_all(each)
        for leaver in leavers:
            if obstacle := (yield from delete(leaver)):
                unpruned.append(obstacle)
    return Evaluation(tuple(looked), enforcing, leavers, tuple(unpruned), selected, ledger.dropped)


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
) -> Steps[tuple[tuple[Leaver, ...], frozenset[Place]]]:
    """Return what enforcing would prune, and what is gone. While one template is not understood, nothing is."""
    if not pruning.prunes(policy) or any(isinstance(each, TemplateProblem) for each in looked):
        return (), frozenset()
    found, gone = list[Leaver](), set[Place]()
    for entry in _leaving(policy, looked):
        try:
            kind = yield from find_kind(entry.api_version, entry.kind)
            live = (yield from get(kind, entry.namespace, entry.name, fresh=True)) if kind is not None else None
        except RequestFailed:
            continue  # it is remembered, and looked at again the next time
        if kind is None or live is None or not pruning.is_pruned(policy, entry, live, manager):
            gone.add(entry.place)
        elif not live["metadata"].get("deletionTimestamp"):
            found.append(Leaver(entry, kind, live))
    return tuple(found), frozenset(gone)


def _memory(
    policy: ConfigurationPolicy, looked: Sequence[TemplateResult | TemplateProblem], gone: frozenset[Place]
) -> Memory:
    """Return what has to be remembered before anything is done."""
    if not pruning.prunes(policy):
        return Memory(False, None)
    if not pruning.is_enforcing(policy):
        return pruning.memory_while_informing(policy, gone)
    intended = [
        Entry(each.target.kind.api_version, each.target.kind.kind, each.target.namespace, each.target.name, "", True)
        for each in findings_of(looked)
        if isinstance(each.fix, Create) and each.base is None
    ]
    left = [each for each in _leaving(policy, looked) if each.place not in gone]
    return pruning.memory_while_enforcing(policy, left, intended)


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
