"""Makes the binding of a template: which clusters get it, and how many replicas each.

The plan for one template, of what was observed of it, its policy, its clusters and its binding. Where something keeps
clusters from being chosen, the binding stays as it is and its conditions say why.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from echelon.api.base import JSONObject
from echelon.api.karmada import RESOURCE_BINDING, ResourceBinding
from echelon.api.meta import Condition
from echelon.api.propagation import CLUSTER_PROPAGATION_POLICY, PROPAGATION_POLICY
from echelon.api.times import parse_time
from echelon.engine.conditions import condition_stamp, conditions_to_wire, find_condition, set_condition
from echelon.engine.plan import NOTHING, Action, Create, Emit, Patch, Plan, Reference
from echelon.engine.rollout.reasons import names
from echelon.engine.work.health_state import part, text
from echelon.engine.workload.deciding import BindingOutcome, decide
from echelon.engine.workload.policy_fields import TEMPLATE_KINDS, without_effect
from echelon.engine.workload.propagated_binding import changed, created
from echelon.engine.workload.propagation_view import PropagationView, has_seen, is_made_here
from echelon.engine.workload.selecting import Policy, selects_kind

SCHEDULED, IGNORED = "Scheduled", "PolicyFieldsIgnored"
_EVENTS = {IGNORED: "FieldsWithoutEffect"}  # reasons of events, where they are not those of the conditions
# A controller of the hub needs less than that to show that a new template is its own.
FIRST_LOOK = timedelta(seconds=2)


def plan(view: PropagationView, now: datetime) -> Plan:
    """Plan the binding of one template."""
    template, binding, policy = part(view.template, "metadata"), view.binding, view.policy
    if template.get("deletionTimestamp"):
        return NOTHING
    if binding is not None and (binding.metadata.deletion_timestamp or _is_of_another(binding, text(template, "uid"))):
        return NOTHING  # it is on its way out, and then another one is made
    if policy is None:
        return _orphaned(binding, now) if binding is not None and is_made_here(binding) else NOTHING
    if binding is None:
        if (wait := _too_young(template, now)) is not None:
            return Plan(look_again_after=wait)
        outcome = decide(view)
        return Plan(tuple(_made(view, policy, outcome)), look_again_after=view.chosen.again)
    if not is_made_here(binding):
        return NOTHING if view.told else Plan((_foreign(policy, binding),))
    return _kept(view, policy, binding, now)


def useless(policy: Policy) -> Iterator[Emit]:
    """Tell of a policy that selects nothing that is propagated. No binding says it, for there is none."""
    kinds = [(kind.api_version, kind.kind) for kind in TEMPLATE_KINDS]
    if not any(selects_kind(policy.spec.resource_selectors, *each) for each in kinds):
        note = f"without effect: {', '.join(without_effect(policy))}"
        yield Emit(_policy_reference(policy), _EVENTS[IGNORED], "Propagate", note, "Warning")


def _too_young(template: JSONObject, now: datetime) -> timedelta | None:
    """Return how long to wait until a controller of the hub would have shown itself; None if it would have."""
    made = parse_time(text(template, "creationTimestamp"))
    age = now - made if made is not None else FIRST_LOOK
    return FIRST_LOOK - age if timedelta() <= age < FIRST_LOOK else None


def _is_of_another(binding: ResourceBinding, uid: str) -> bool:
    """Whether a binding is owned by an earlier template of that name, and goes with it."""
    owners = [each.uid for each in binding.metadata.owner_references if each.controller]
    return bool(owners) and uid not in owners


def _made(view: PropagationView, policy: Policy, outcome: BindingOutcome) -> Iterator[Action]:
    """Make a binding. Its conditions are written when it is there."""
    template = part(view.template, "metadata")
    name, namespace = text(template, "name"), text(template, "namespace")
    yield Create(RESOURCE_BINDING, created(view, policy, outcome), namespace)
    chosen = f"to {names([each.name for each in outcome.clusters])}" if outcome.clusters else "to nobody"
    note = f"{_called(policy)} propagates it {chosen}"
    yield Emit(Reference(view.kind, name, namespace, text(template, "uid")), "ApplyPolicySucceed", "Propagate", note)


def _kept(view: PropagationView, policy: Policy, binding: ResourceBinding, now: datetime) -> Plan:
    """Bring a binding up to date."""
    outcome = decide(view)
    again, read = view.chosen.again, view.chosen.read
    if view.chosen.restless is not None and not has_seen(binding, view.template):
        again = min(again or view.chosen.restless, view.chosen.restless)
    if body := changed(view, policy, binding, outcome):
        # The conditions are about what it becomes, so they are written after that.
        told = _rescheduled(binding, outcome, policy)
        return Plan((*told, Patch.of(RESOURCE_BINDING, binding.metadata, body)), look_again_after=again, read=read)
    if outcome.passing:
        return Plan(look_again_after=again, read=read)
    events, status = _told(binding, policy, outcome, now)
    return Plan(events, status=status, look_again_after=again, read=read)


def _rescheduled(binding: ResourceBinding, outcome: BindingOutcome, policy: Policy) -> Iterator[Emit]:
    """Tell of clusters that come and go."""
    if outcome.clusters is None:
        return
    before, after = {each.name for each in binding.spec.clusters}, {each.name for each in outcome.clusters}
    parts = [f"{names(sorted(after - before))} get it"] if after - before else []
    parts += [f"{names(sorted(before - after))} are to lose it"] if before - after else []
    if parts:
        note = f"{_called(policy)}: {'; '.join(parts)}"
        yield Emit(_reference(binding), "ScheduleBindingSucceed", "Propagate", note)


def _told(
    binding: ResourceBinding, policy: Policy, outcome: BindingOutcome, now: datetime
) -> tuple[tuple[Emit, ...], Patch | None]:
    """Return the conditions of a binding, and the events that tell of what is new in them."""
    unused = without_effect(policy)
    stamp = condition_stamp(binding.metadata.generation, now)
    before, regarding = binding.status.conditions, _policy_reference(policy)
    said = [stamp.condition(SCHEDULED, outcome.status, outcome.reason, outcome.message)]
    warned = said[:] if outcome.warns else []
    if unused:
        said.append(stamp.condition(IGNORED, True, "NotSupported", f"without effect: {', '.join(unused)}"))
        warned.append(said[-1])
    elif find_condition(before, IGNORED) is not None:
        said.append(stamp.condition(IGNORED, False, "None"))
    events = tuple(
        Emit(
            regarding,
            _EVENTS.get(each.type, each.reason),
            "Propagate",
            f"{binding.metadata.name}: {each.message}",
            "Warning",
        )
        for each in warned
        if _is_news(before, each)
    )
    return events, _status(binding, said)


def _status(binding: ResourceBinding, said: Iterable[Condition]) -> Patch | None:
    before = list(binding.status.conditions)
    after = before
    for each in said:
        after = set_condition(after, each)
    if after == before:
        return None
    body = {"status": {"conditions": conditions_to_wire(after)}}
    return Patch.of(RESOURCE_BINDING, binding.metadata, body, "status")


def _is_news(before: Iterable[Condition], said: Condition) -> bool:
    known = find_condition(list(before), said.type)
    return known is None or (known.status, known.reason, known.message) != (said.status, said.reason, said.message)


def _orphaned(binding: ResourceBinding, now: datetime) -> Plan:
    """Tell that a binding has no policy any more. It stays as it is."""
    why = "no policy claims the template any more: it stays where it is, with the replicas that it has, until one does"
    said = condition_stamp(binding.metadata.generation, now).condition(SCHEDULED, False, "NoPolicy", why)
    status = _status(binding, (said,))
    told = _is_news(binding.status.conditions, said)
    return Plan((Emit(_reference(binding), "NoPolicy", "Propagate", why, "Warning"),) if told else (), status=status)


def _foreign(policy: Policy, binding: ResourceBinding) -> Emit:
    note = (
        f"the binding {binding.metadata.name} was not made from a policy here: it is left as it is, and the policy has"
        " no effect on its template"
    )
    return Emit(_policy_reference(policy), "BindingNotMadeHere", "Propagate", note, "Warning")


def _reference(binding: ResourceBinding) -> Reference:
    meta = binding.metadata
    return Reference(RESOURCE_BINDING, meta.name, meta.namespace, meta.uid)


def _policy_reference(policy: Policy) -> Reference:
    meta = policy.metadata
    kind = PROPAGATION_POLICY if meta.namespace else CLUSTER_PROPAGATION_POLICY
    return Reference(kind, meta.name, meta.namespace, meta.uid)


def _called(policy: Policy) -> str:
    kind = PROPAGATION_POLICY if policy.metadata.namespace else CLUSTER_PROPAGATION_POLICY
    return f"{kind.kind} {policy.metadata.name}"
