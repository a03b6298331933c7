"""Where a federated workload stands, for those who only look: its subject, and what each cluster waits for."""

from dataclasses import dataclass, replace
from datetime import datetime

from echelon.api.karmada import ResourceBinding
from echelon.engine.align import BadStrategy
from echelon.engine.conditions import find_condition
from echelon.engine.rollout.subject import Subject
from echelon.engine.workload.alignment import Aligned, Alignment
from echelon.engine.workload.conditions import HELD, PROGRESSING
from echelon.engine.workload.plan import aligned_as, refusal_of
from echelon.engine.workload.subject import holdings_of, passed_through, subject_of
from echelon.engine.workload.templates import Templates
from echelon.engine.workload.view import WorkloadView


@dataclass(frozen=True)
class WorkloadStanding:
    """A workload as the subject of a rollout; what each cluster waits for, where one budget holds over all."""

    subject: Subject
    aligned: Aligned | None = None


def standing_of(view: WorkloadView, now: datetime) -> WorkloadStanding:
    """Find out where a workload stands."""
    interpreter, strategy, _ = aligned_as(view.template or {})
    templates = Templates.of(view.template or {}, interpreter, view.revisions, view.override)
    problem = refusal_of(view)
    if problem is None and view.template is None:
        resource = view.binding.spec.resource
        gone = f"there is no {resource.kind} {resource.name}: it is taken off every cluster"
        problem = "", gone if view.template_kind is not None else _held(view.binding)
    aligned = None
    if interpreter is not None and strategy is not None:
        try:
            alignment = Alignment.of(view, templates, interpreter, strategy)
        except BadStrategy as error:
            return WorkloadStanding(
                replace(subject_of(view, templates, {}), problem=f"{interpreter.strategy_path}.{error}")
            )
        aligned = alignment.as_it_is(now)
        subject = subject_of(view, templates, holdings_of(alignment, aligned.round, now))
    else:
        subject = subject_of(view, templates, passed_through(view, templates))
    said = problem[1] if problem is not None else _held(view.binding)
    return WorkloadStanding(replace(subject, problem=said) if said else subject, aligned)


def _held(binding: ResourceBinding) -> str:
    """Return why the controller sends nothing, also where that is not known here: overrides are for few to read."""
    progressing = find_condition(binding.status.conditions, PROGRESSING)
    if progressing is None or progressing.reason != HELD:
        return ""
    return progressing.message if progressing.observed_generation == binding.metadata.generation else ""
