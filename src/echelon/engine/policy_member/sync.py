"""From a policy on a cluster to the objects of its templates: what to write, and how far each template is.

The same function plans and judges: a template for which there is nothing left to write has the object that it asks
for. So whoever has written asks again, and what is said of a template never runs ahead of its object.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.core import Event
from echelon.api.kinds import Kind
from echelon.engine.plan import Write
from echelon.engine.policy_member.children import (
    create_child,
    delete_child,
    drop_child,
    is_asked_again,
    park_child,
    reset_child,
    update_child,
)
from echelon.engine.policy_member.dependencies import DependencyKey, conflict, pending_text, unmet
from echelon.engine.policy_member.documents import Child, ChildKey, PolicyDocument, is_held
from echelon.engine.policy_member.reports import (
    PastReports,
    Report,
    error_message,
    is_framework_report,
    pending_message,
)
from echelon.engine.policy_member.templates import Template, is_enforced, object_of, read_templates
from echelon.engine.work.updating import LastApplied

_AT_ONCE = 50  # templates, of which some take a fraction of a millisecond


@dataclass(frozen=True)
class UnusableKind:
    """A kind that templates cannot have, and why."""

    why: str


@dataclass(frozen=True)
class TemplateView:
    """All that is looked at to bring the templates of a policy onto its cluster."""

    policy: PolicyDocument  # the copy on the cluster
    children: Mapping[ChildKey, Child] = field(default_factory=dict)  # the policy's own, and others in their places
    # By API version and kind; of one that is missing here it is not known yet whether templates can have it.
    kinds: Mapping[tuple[str, str], Kind[Any] | UnusableKind] = field(default_factory=dict)
    compliance: Mapping[DependencyKey, str] = field(default_factory=dict)
    events: Sequence[Event] = ()  # about the policy
    refused: Mapping[str, str] = field(default_factory=dict)  # templates whose objects the cluster does not take
    kept: Mapping[ChildKey, LastApplied] = field(default_factory=dict)
    read: tuple[Template, ...] | None = None  # the templates of the policy, if they were read before

    @property
    def templates(self) -> tuple[Template, ...]:
        """The templates of the policy."""
        return read_templates(self.policy.spec) if self.read is None else self.read


@dataclass(frozen=True)
class TemplateState:
    """How far a template is.

    `message` is what there is to report instead of what its object says; `child` is its object, if that is the policy's
    own, and `synced` whether it is as the template asks. `history` is what was reported of it, newest first.
    """

    name: str
    enforced: bool
    message: str = ""
    child: Child | None = None
    synced: bool = False
    history: tuple[Report, ...] = ()


@dataclass(frozen=True)
class TemplateWrites:
    """Writes that follow each other, for a template or for what is left of one."""

    template: str
    writes: tuple[Write, ...]
    wanted: JSONObject | None = None  # the object that they are to lead to


@dataclass(frozen=True)
class TemplateSync:
    """What is to be written, each independently of the others, and how far all templates are."""

    states: tuple[TemplateState, ...] = ()
    writes: tuple[TemplateWrites, ...] = ()


def sync_templates(view: TemplateView) -> TemplateSync:
    """Plan the objects of a policy's templates."""
    return next(step for step in sync_in_steps(view) if step is not None)


def sync_in_steps(view: TemplateView) -> Iterator[TemplateSync | None]:
    """Plan the objects of templates, which may be hundreds; yield None when others may have their turn."""
    templates, held = view.templates, is_held(view.policy)
    past = PastReports(view.policy, view.events)
    planned: list[tuple[TemplateState, TemplateWrites | None]] = []
    for each in templates:
        planned.append(_template(view, each, past))
        if len(planned) % _AT_ONCE == 0:
            yield None
    writes = [found for _, found in planned if found is not None]
    named = {each.key for each in templates if each.definition}
    own = (each for each in view.children.values() if each.policy == view.policy.metadata.name and not each.terminating)
    left = sorted((each for each in own if each.key not in named), key=lambda each: each.key)
    if held:
        writes += [parked for each in left if (parked := _parked(each)) is not None]
    elif all(each.definition for each in templates):
        # Else nobody can tell whether what is left is the object of the template that cannot be read.
        writes += [TemplateWrites("", (delete_child(each),)) for each in left]
    yield TemplateSync(tuple(state for state, _ in planned), tuple(writes))


def _template(view: TemplateView, template: Template, past: PastReports) -> tuple[TemplateState, TemplateWrites | None]:
    kind, live = view.kinds.get(template.gvk), view.children.get(template.key)
    own = live if live is not None and live.policy == view.policy.metadata.name else None
    history = past.of(template.name, own, foreign=live is not own)
    state = TemplateState(template.name, is_enforced(template, view.policy), child=own, history=history)
    if error := template.error or (kind.why if isinstance(kind, UnusableKind) else ""):
        return _message(state, error_message(error)), _stop(view, template, own, gone=template.lost)
    if error := conflict(template.dependencies):
        return _message(state, error_message(error)), _stop(view, template, own)
    if missed := unmet(template.dependencies, view.compliance):
        message = pending_message(pending_text(missed), ignored=template.ignore_pending)
        return _message(state, message), _stop(view, template, own, gone=True)
    if not isinstance(kind, Kind):
        return state, None
    if live is not None and own is None:
        where = f"in policy {live.policy}" if live.policy else "outside of a Policy"
        text = f"Template name must be unique. Policy template with kind: {kind.kind} name: {template.name}"
        return _message(state, error_message(f"{text} already exists {where}")), None
    if own is not None and own.terminating:
        return state, None
    return _object(view, template, kind, state)


def _object(
    view: TemplateView, template: Template, kind: Kind[Any], state: TemplateState
) -> tuple[TemplateState, TemplateWrites | None]:
    """Plan the object of a template with which nothing is wrong."""
    wanted, live, policy = object_of(template, view.policy), state.child, view.policy
    latest = state.history[0] if state.history else None
    write: Write | None
    if live is None:
        write = create_child(kind, wanted, policy)
    else:
        write = update_child(wanted, live, policy, latest.name if latest else "", view.kept.get(live.key))
    if write is not None and (refusal := view.refused.get(template.name)):
        return _message(state, error_message(refusal)), _stop(view, template, live)
    if live is not None and is_asked_again(live, policy) and live.compliant == "NonCompliant":
        # First of all, for once the object has the wish its old verdict would be taken for the answer to it.
        return state, TemplateWrites("", (reset_child(live),))
    if write is not None:
        return state, TemplateWrites(template.name, (write,), wanted)
    if live is not None and live.compliant and latest is not None and _is_outdated(latest, live):
        return state, TemplateWrites("", (reset_child(live),))
    return replace(state, synced=True), None


def _is_outdated(latest: Report, live: Child) -> bool:
    """Whether the latest that was said of a template is trouble that is over, and not what its object says itself."""
    history = live.status.get("history") or [{}]
    return is_framework_report(latest.message) and history[0].get("message") != latest.message


def _stop(view: TemplateView, template: Template, own: Child | None, *, gone: bool = False) -> TemplateWrites | None:
    """Plan what becomes of the object of a template that cannot have its way: it stays as it is, or goes."""
    if own is None or own.terminating:
        return None
    if is_held(view.policy):
        return _parked(own)
    if not gone:
        return None
    return TemplateWrites("", drop_child(own) if template.lost else (delete_child(own),))


def _parked(child: Child) -> TemplateWrites | None:
    write = park_child(child)
    return TemplateWrites("", (write,)) if write is not None else None


def _message(state: TemplateState, message: str) -> TemplateState:
    return replace(state, message=message)
