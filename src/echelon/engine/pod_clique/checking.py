"""What can be wrong with a set: everything that makes children impossible, ambiguous or endless.

Admission refuses most of it (`api/groverules.py`). It is all looked at again, because a cluster may serve Grove's CRDs,
whose rules are in a webhook that may not be there. Problems name the field, the value and the rule.
"""

import re
from collections.abc import Sequence
from datetime import timedelta

from echelon.api.base import JSONObject
from echelon.api.groverules import MOST_POD_CLIQUES, MOST_PODS, NAME_BUDGET
from echelon.api.name_patterns import LABEL
from echelon.engine.pod_clique.names import shared_names
from echelon.engine.pod_clique.ordering import order
from echelon.engine.pod_clique.problem import Problem, clique_names
from echelon.engine.pod_clique.set_spec import DEFAULT_SCHEDULER, ROLLING_RECREATE, STRATEGIES, Settings
from echelon.engine.pod_clique.startup import INFO_VOLUME, TOKEN_VOLUME, WAITER
from echelon.engine.rollout import durations
from echelon.engine.work.health_state import items, number, part, text

_LABEL = re.compile(LABEL)
_SERVICE = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?")
# What pods get in addition, if they wait for others.
_RESERVED = {
    "initContainers": (WAITER,),
    "containers": (WAITER,),
    "volumes": (TOKEN_VOLUME, INFO_VOLUME),
}
_VARIABLE = re.compile(r"[ -<>-~]+")


def structure(set_name: str, spec: JSONObject, settings: Settings) -> Problem | None:
    """Return what is wrong with the sizes, names, groups and the order of a set."""
    template = part(spec, "template")
    cliques, groups = items(template, "cliques"), items(template, "podCliqueScalingGroups")
    return (
        _unsupported(template, cliques, groups)
        or _names(set_name, cliques, groups)
        or _grouping(cliques, groups)
        or _sizes(spec, cliques, groups)
        or _times(template, cliques, groups)
        or order(template, cliques, settings)
    )


def strategy(spec: JSONObject) -> Problem | None:
    """Return what is wrong with the update strategy; an unknown one may be of a later version."""
    given = part(spec, "updateStrategy").get("type") or ROLLING_RECREATE
    if given in STRATEGIES:
        return None
    return Problem("Unsupported", f"spec.updateStrategy.type: {given!r} is none of {', '.join(STRATEGIES)}")


def templates(template: JSONObject) -> Problem | None:
    """Return what is wrong with the pods of the cliques: what can be put right by another edit."""
    for clique in items(template, "cliques"):
        at = f"spec.template.cliques[{text(clique, 'name')}].spec.podSpec"
        pod_spec = part(clique, "spec", "podSpec")
        if not items(pod_spec, "containers"):
            return Problem("Invalid", f"{at}.containers: at least one is needed")
        for field in ("nodeName", "topologySpreadConstraints"):
            if pod_spec.get(field):
                return Problem("Invalid", f"{at}.{field}: may not be set")
        for kind, reserved in _RESERVED.items():
            if any(text(each, "name") in reserved for each in items(pod_spec, kind)):
                return Problem("Invalid", f"{at}.{kind}: {', '.join(reserved)}: the controller uses this name")
        if pod_spec.get("resourceClaims"):
            return Problem("Unsupported", f"{at}.resourceClaims: not supported")
        for kind in ("initContainers", "containers"):
            for container in items(pod_spec, kind):
                if problem := _variables(container, f"{at}.{kind}[{text(container, 'name')}]"):
                    return problem
    return None


def scheduler(clique: JSONObject) -> str:
    """Return the scheduler of a clique's pods."""
    return text(part(clique, "spec", "podSpec"), "schedulerName") or DEFAULT_SCHEDULER


def _unsupported(template: JSONObject, cliques: Sequence[JSONObject], groups: Sequence[JSONObject]) -> Problem | None:
    at = "spec.template"
    if template.get("resourceClaimTemplates"):
        return Problem("Unsupported", f"{at}.resourceClaimTemplates: shared resource claims are not supported")
    parts = [(at, template)]
    parts += [(f"{at}.cliques[{text(each, 'name')}]", each) for each in cliques]
    parts += [(f"{at}.podCliqueScalingGroups[{text(each, 'name')}]", each) for each in groups]
    for where, each in parts:
        if each.get("resourceSharing"):
            return Problem("Unsupported", f"{where}.resourceSharing: shared resource claims are not supported")
    for where, each in parts:
        if each.get("topologyConstraint"):
            return Problem(
                "TopologyLevelsUnavailable", f"{where}.topologyConstraint: no topology with levels is known here"
            )
    return None


def _names(set_name: str, cliques: Sequence[JSONObject], groups: Sequence[JSONObject]) -> Problem | None:
    if not _SERVICE.fullmatch(set_name):
        rule = "a Service has this name, so it must be letters, digits and dashes, and begin with a letter"
        return Problem("Invalid", f"metadata.name: {set_name!r}: {rule}")
    if not cliques:
        return Problem("Invalid", "spec.template.cliques: at least one is needed")
    for field, entries in (("cliques", cliques), ("podCliqueScalingGroups", groups)):
        seen: set[str] = set()
        for entry in entries:
            name = text(entry, "name")
            if not _LABEL.fullmatch(name):
                rule = "pods are named after it, so it must be lower case letters, digits and dashes"
                return Problem("Invalid", f"spec.template.{field}.name: {name!r}: {rule}")
            if name in seen:
                return Problem("Invalid", f"spec.template.{field}.name: {name!r}: must be unique")
            seen.add(name)
    roles = [text(part(each, "spec"), "roleName") for each in cliques]
    for role in roles:
        if not role or roles.count(role) > 1:
            return Problem("Invalid", f"spec.template.cliques.spec.roleName: {role!r}: must be given and unique")
    for name, longest in _lengths(set_name, cliques, groups):
        if longest > NAME_BUDGET:
            rule = f"the names of a set, a group and a clique may have {NAME_BUDGET} characters together"
            return Problem("Invalid", f"spec.template.cliques.name: {name!r}: {rule}")
    return None


def _lengths(set_name: str, cliques: Sequence[JSONObject], groups: Sequence[JSONObject]) -> list[tuple[str, int]]:
    found = [(text(each, "name"), len(set_name) + len(text(each, "name"))) for each in cliques]
    for group in groups:
        found += [(name, len(set_name) + len(text(group, "name")) + len(name)) for name in clique_names(group)]
    return found


def _grouping(cliques: Sequence[JSONObject], groups: Sequence[JSONObject]) -> Problem | None:
    known = {text(each, "name"): each for each in cliques}
    group_of: dict[str, str] = {}
    for group in groups:
        at = f"spec.template.podCliqueScalingGroups[{text(group, 'name')}].cliqueNames"
        if not clique_names(group):
            return Problem("Invalid", f"{at}: at least one is needed")
        for name in clique_names(group):
            if name not in known:
                return Problem("Invalid", f"{at}: {name!r} is no clique of the set")
            if name in group_of:
                return Problem("Invalid", f"{at}: {name!r} is in group {group_of[name]} already")
            if part(known[name], "spec").get("autoScalingConfig"):
                return Problem("Invalid", f"{at}: {name!r} may not have autoScalingConfig: the group is scaled")
            group_of[name] = text(group, "name")
    members = {text(group, "name"): clique_names(group) for group in groups}
    if shared := shared_names(list(known), members):
        return Problem("Invalid", f"spec.template: {shared} would give PodCliques the same name")
    schedulers = {scheduler(each) for each in cliques}
    if len(schedulers) > 1:
        found = ", ".join(sorted(schedulers))
        return Problem("Invalid", f"spec.template.cliques.spec.podSpec.schedulerName: all must be the same: {found}")
    return None


def _sizes(spec: JSONObject, cliques: Sequence[JSONObject], groups: Sequence[JSONObject]) -> Problem | None:
    replicas = number(spec, "replicas")
    if replicas < 0:
        return Problem("Invalid", f"spec.replicas: {replicas}: must not be less than 0")
    for clique in cliques:
        at = f"spec.template.cliques[{text(clique, 'name')}].spec"
        if problem := _size(at, "autoScalingConfig", part(clique, "spec"), None):
            return problem
        if (pods := number(part(clique, "spec"), "replicas")) > MOST_PODS:
            return Problem("TooLarge", f"{at}.replicas: {pods}: a clique may have {MOST_PODS} pods")
    for group in groups:
        at = f"spec.template.podCliqueScalingGroups[{text(group, 'name')}]"
        if problem := _size(at, "scaleConfig", group, 1):
            return problem
    grouped = {name for group in groups for name in clique_names(group)}
    each = sum(text(clique, "name") not in grouped for clique in cliques)
    each += sum(number(group, "replicas", 1) * len(clique_names(group)) for group in groups)
    if replicas * each > MOST_POD_CLIQUES:
        return Problem(
            "TooLarge", f"spec.replicas: {replicas} replicas of {each} PodCliques are more than {MOST_POD_CLIQUES}"
        )
    return None


def _size(at: str, scaling: str, entry: JSONObject, default: int | None) -> Problem | None:
    replicas = number(entry, "replicas", 1)
    least = number(entry, "minAvailable", replicas if default is None else default)
    if replicas < 1:
        return Problem("Invalid", f"{at}.replicas: {replicas}: must be greater than 0")
    if not 1 <= least <= replicas:
        return Problem(
            "Invalid", f"{at}.minAvailable: {least}: must be greater than 0 and at most replicas ({replicas})"
        )
    if not (config := part(entry, scaling)):
        return None
    smallest, largest = number(config, "minReplicas", replicas), number(config, "maxReplicas")
    if smallest < least:
        return Problem("Invalid", f"{at}.{scaling}.minReplicas: {smallest}: must be at least minAvailable ({least})")
    bound = max(smallest, replicas) if default is None else smallest
    if largest < bound:
        return Problem("Invalid", f"{at}.{scaling}.maxReplicas: {largest}: must be at least {bound}")
    return None


def _times(template: JSONObject, cliques: Sequence[JSONObject], groups: Sequence[JSONObject]) -> Problem | None:
    given = [("spec.template.terminationDelay", text(template, "terminationDelay"))]
    for field, entries in (("cliques", cliques), ("podCliqueScalingGroups", groups)):
        for entry in entries:
            at = f"spec.template.{field}[{text(entry, 'name')}].rollingUpdate"
            given.append((f"{at}.progressDeadline", text(part(entry, "rollingUpdate"), "progressDeadline")))
            if (most := number(part(entry, "rollingUpdate"), "maxUnavailable", 1)) < 1:
                return Problem("Invalid", f"{at}.maxUnavailable: {most}: must be greater than 0")
    for at, duration in given:
        try:
            if duration and durations.parse(duration) <= timedelta():
                return Problem("Invalid", f"{at}: {duration}: must be greater than 0")
        except durations.NotADuration as error:
            return Problem("Invalid", f"{at}: {error}")
    return None


def _variables(container: JSONObject, at: str) -> Problem | None:
    seen: set[str] = set()
    for entry in items(container, "env"):
        name = text(entry, "name")
        if not _VARIABLE.fullmatch(name):
            return Problem("Invalid", f"{at}.env.name: {name!r}: must be printable, not empty and without '='")
        if name in seen:
            return Problem("Invalid", f"{at}.env.name: {name!r}: must be unique")
        seen.add(name)
    return None
