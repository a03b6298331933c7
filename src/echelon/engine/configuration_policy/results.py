"""What an evaluation comes to, object by object."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.engine.configuration_policy.findings import Finding, State
from echelon.engine.configuration_policy.messages import (
    CREATION_ERROR,
    DELETION_ERROR,
    ERROR,
    UPDATE_ERROR,
    WORDS,
    Observation,
    Situation,
)
from echelon.engine.configuration_policy.pruning import Entry, Place
from echelon.engine.configuration_policy.templates import TEMPLATE_ERROR, Template, TemplateProblem
from echelon.engine.plan import Create, Delete

_SITUATIONS = {
    State.MATCHES: Situation.FOUND,
    State.MISSING: Situation.MISSING,
    State.DIFFERS: Situation.DIFFERS,
    State.STATUS_DIFFERS: Situation.DIFFERS,
    State.UNWANTED: Situation.UNWANTED,
    State.ENDING: Situation.UNWANTED,
    State.ABSENT: Situation.ABSENT,
}
_DONE = (Situation.CREATED, Situation.UPDATED, Situation.DELETED)
# Failures that may be over without a change of the policy or of what it looks at.
_WORTH_A_TRY = frozenset({ERROR, CREATION_ERROR, UPDATE_ERROR, DELETION_ERROR})


@dataclass(frozen=True)
class Result:
    """What became of one object: what was found, what is told of it in the end, and what it is then."""

    found: Observation
    told: Observation
    finding: Finding | None = None  # none where a search or a request found nothing in particular
    live: JSONObject | None = None
    created: bool = False
    is_target: bool = False  # whether the template is about this very object, and not about any that fits


@dataclass(frozen=True)
class TemplateResult:
    """What became of a template."""

    template: Template
    kind: Kind[Any]
    results: tuple[Result, ...]


@dataclass(frozen=True)
class Leaver:
    """An object that enforcing prunes, or would."""

    entry: Entry
    kind: Kind[Any]
    live: JSONObject


@dataclass(frozen=True)
class Evaluation:
    """What became of a policy."""

    templates: tuple[TemplateResult | TemplateProblem, ...]
    enforced: bool
    leavers: tuple[Leaver, ...] = ()
    unpruned: tuple[str, ...] = ()  # what did not go, and why
    namespaces: tuple[str, ...] | None = None  # the selected ones, if somebody needed them
    forgotten: int = 0  # objects for which the ledger has no room
    confirmed: frozenset[str] = frozenset()  # uids of what was about to be made, and is there for sure
    unclear: bool = False  # whether something could not be found out about what is to be pruned

    @property
    def failed(self) -> bool:
        """Whether something went wrong that may go well at the next try."""
        reasons = {each.told.failure for each in results_of(self.templates)}
        reasons |= {each.reason for each in self.templates if isinstance(each, TemplateProblem)}
        return bool(self.unpruned) or self.unclear or bool(reasons & _WORTH_A_TRY)

    @property
    def mended(self) -> bool:
        """Whether something was changed on the cluster."""
        return any(each.told.situation in _DONE and each.told != each.found for each in results_of(self.templates))


def results_of(templates: Iterable[TemplateResult | TemplateProblem]) -> list[Result]:
    """Return what became of all objects."""
    return [one for each in templates if isinstance(each, TemplateResult) for one in each.results]


def findings_of(templates: Iterable[TemplateResult | TemplateProblem]) -> list[Finding]:
    """Return what was found of all objects that are meant in particular."""
    return [each.finding for each in results_of(templates) if each.finding is not None]


def place_of(kind: Kind[Any], namespace: str, name: str) -> Place:
    """Return where an object is."""
    return Place(kind.group, kind.kind, namespace, name)


def result_of(finding: Finding) -> Result:
    """Return what is told of an object before anything is done about it."""
    seen = observe(finding)
    return Result(seen, seen, finding, finding.live, is_target=True)


def failure(namespace: str, name: str, reason: str, message: str) -> Result:
    """Return what is told where nothing could be found out; without a name, of a whole namespace."""
    seen = Observation(Situation.FAILED, namespace, name, failure=reason, what="cannot be judged", note=message)
    return Result(seen, seen, is_target=bool(name))


def observe(finding: Finding) -> Observation:
    """Tell what was found of an object."""
    note, place = "", (finding.target.namespace, finding.target.name)
    if finding.wants_replacement or (finding.refusal and _replaces(finding)):
        return _irreplaceable(finding, finding.refusal)
    if finding.refusal:
        note = f"enforcing would be refused: {finding.refusal}"
    if finding.state is State.ENDING:
        if finding.in_time:
            return Observation(Situation.DELETED, *place, settled=False, note="it is ending")
        note = "its deletion does not come to an end"
    return Observation(_SITUATIONS[finding.state], *place, note=note)


def refused(finding: Finding, message: str) -> Observation:
    """Tell that an object could not be mended."""
    if isinstance(finding.fix, Delete):
        reason, what = DELETION_ERROR, "could not be deleted"
    elif isinstance(finding.fix, Create) or finding.base is None:
        reason, what = CREATION_ERROR, "could not be created"
    elif _replaces(finding):
        return _irreplaceable(finding, message)
    else:
        reason, what = UPDATE_ERROR, "could not be updated"
    place = finding.target.namespace, finding.target.name
    return Observation(Situation.FAILED, *place, failure=reason, what=what, note=message)


def _replaces(finding: Finding) -> bool:
    return finding.target.template.recreate != "None" and finding.base is not None


def _irreplaceable(finding: Finding, why: str) -> Observation:
    """Tell that a template wants an object replaced, which nobody here does."""
    template = finding.target.template
    note = f"{template.path}.recreateOption {template.recreate} is not supported"
    note = f"{note}: {why}" if why else note
    place, what = (finding.target.namespace, finding.target.name), WORDS[Situation.DIFFERS].text
    return Observation(Situation.FAILED, *place, failure=TEMPLATE_ERROR, what=what, note=note)
