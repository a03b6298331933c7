"""Whether a set can be carried out, and what it asks for.

Most mistakes are refused at admission. What no rule of a CRD can say, and everything again where the CRD is Grove's own
and its webhook is not there, ends here: the set is not accepted, its condition `Accepted` says why, and its pods go on
from the templates that were accepted last. The size, the groups and the order are always those of the set as it is; a
set in which these make no sense is left alone altogether.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from echelon.api.base import JSONObject
from echelon.engine.pod_clique import checking
from echelon.engine.pod_clique.hashes import generation_hash, template_hash
from echelon.engine.pod_clique.problem import Problem, clique_names, starts_after
from echelon.engine.pod_clique.revisions import SetRevision, newest
from echelon.engine.pod_clique.set_spec import (
    ANY_ORDER,
    EXPLICIT,
    IN_ORDER,
    ON_DELETE,
    PROGRESS_DEADLINE,
    ROLLING_RECREATE,
    TERMINATION_DELAY,
    AutoScaling,
    CliqueSpec,
    GroupSpec,
    SetSpec,
    Settings,
)
from echelon.engine.pod_clique.template import CliqueTemplate, members_of, read_templates
from echelon.engine.rollout import durations
from echelon.engine.work.health_state import items, number, part, text


@dataclass(frozen=True)
class Accepted:
    """A set that can be carried out."""

    spec: SetSpec


@dataclass(frozen=True)
class NotAccepted:
    """A set that cannot be carried out as it is."""

    reason: str  # of the condition
    message: str  # with the field, the value and the rule
    spec: SetSpec | None = None  # what its pods go on from; None: nothing is made, and nothing is removed


def accept(set_body: JSONObject, revisions: Sequence[SetRevision], settings: Settings) -> Accepted | NotAccepted:
    """Read a set. The revisions are those that are stored of it; only accepted templates are stored."""
    spec = part(set_body, "spec")
    name = text(part(set_body, "metadata"), "name")
    if (problem := checking.structure(name, spec, settings)) is not None:
        return NotAccepted(problem.reason, problem.message)
    template = part(spec, "template")
    members = members_of(template)
    found = checking.strategy(spec) or checking.templates(template)
    if found is None:
        return Accepted(_read(spec, read_templates(template, members), newest(revisions)))
    return _go_on(spec, members, revisions, found)


def _go_on(
    spec: JSONObject, members: frozenset[str], revisions: Sequence[SetRevision], problem: Problem
) -> NotAccepted:
    """Return what pods go on from: the templates that were accepted last, and nothing is rolled."""
    last = newest(revisions)
    templates = read_templates(last.template, members) if last is not None else {}
    names = {text(each, "name") for each in items(part(spec, "template"), "cliques")}
    if names != templates.keys():
        return NotAccepted(problem.reason, problem.message)
    read = _read(spec, templates, last)
    kept = text(last.template, "priorityClassName") if last is not None else ""
    strategy = read.strategy if checking.strategy(spec) is None else ON_DELETE
    return NotAccepted(problem.reason, problem.message, replace(read, priority_class=kept, strategy=strategy))


def _read(spec: JSONObject, templates: Mapping[str, CliqueTemplate], last: SetRevision | None) -> SetSpec:
    """Read a set that has been checked."""
    minimums = last.minimums if last is not None else {}
    template = part(spec, "template")
    entries = items(template, "cliques")
    startup = text(template, "cliqueStartupType") or ANY_ORDER
    group_of = {
        name: text(group, "name") for group in items(template, "podCliqueScalingGroups") for name in clique_names(group)
    }
    cliques = tuple(
        _clique(
            entry,
            templates[name := text(entry, "name")],
            starts_after=_starts_after(startup, entries, position),
            group=group_of.get(name, ""),
            minimum=minimums.get(name),
        )
        for position, entry in enumerate(entries)
    )
    publish = part(template, "headlessServiceConfig").get("publishNotReadyAddresses", True)
    return SetSpec(
        replicas=number(spec, "replicas"),
        strategy=text(part(spec, "updateStrategy"), "type") or ROLLING_RECREATE,
        cliques=cliques,
        groups=tuple(map(_group, items(template, "podCliqueScalingGroups"))),
        startup=startup,
        termination_delay=_duration(text(template, "terminationDelay"), TERMINATION_DELAY),
        publish_not_ready=publish is not False,
        priority_class=text(template, "priorityClassName"),
        generation_hash=generation_hash({each.name: each.hash for each in cliques}),
        scheduler=checking.scheduler(entries[0]),
    )


def _clique(
    entry: JSONObject, template: CliqueTemplate, *, starts_after: tuple[str, ...], group: str, minimum: int | None
) -> CliqueSpec:
    """Read a clique. A minimum that is not given is the size that the clique had at first, however large it becomes."""
    spec = part(entry, "spec")
    replicas = number(spec, "replicas", 1)
    default = replicas if minimum is None else min(minimum, replicas)
    most, deadline = _rolling(entry)
    return CliqueSpec(
        name=text(entry, "name"),
        role=text(spec, "roleName"),
        replicas=replicas,
        min_available=number(spec, "minAvailable", default),
        template=template,
        hash=template_hash(template),
        starts_after=starts_after,
        autoscaling=_autoscaling(part(spec, "autoScalingConfig"), replicas),
        max_unavailable=most,
        progress_deadline=deadline,
        group=group,
    )


def _group(entry: JSONObject) -> GroupSpec:
    replicas = number(entry, "replicas", 1)
    most, deadline = _rolling(entry)
    return GroupSpec(
        name=text(entry, "name"),
        clique_names=tuple(clique_names(entry)),
        replicas=replicas,
        min_available=number(entry, "minAvailable", 1),
        annotations=dict(part(entry, "annotations")),
        autoscaling=_autoscaling(part(entry, "scaleConfig"), replicas),
        max_unavailable=most,
        progress_deadline=deadline,
    )


def _starts_after(startup: str, entries: Sequence[JSONObject], position: int) -> tuple[str, ...]:
    """Return the cliques that a clique starts after, as the set names them."""
    if startup == IN_ORDER:
        return (text(entries[position - 1], "name"),) if position else ()
    if startup == EXPLICIT:
        return tuple(starts_after(entries[position]))
    return ()


def _autoscaling(config: JSONObject, replicas: int) -> AutoScaling | None:
    if not config:
        return None
    metrics = tuple(items(config, "metrics"))
    return AutoScaling(number(config, "minReplicas", replicas), number(config, "maxReplicas"), metrics)


def _rolling(entry: JSONObject) -> tuple[int, timedelta]:
    rolling = part(entry, "rollingUpdate")
    deadline = _duration(text(rolling, "progressDeadline"), PROGRESS_DEADLINE)
    return max(number(rolling, "maxUnavailable", 1), 1), deadline


def _duration(given: str, default: timedelta) -> timedelta:
    return durations.parse(given) if given else default
