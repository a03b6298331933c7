"""Whether the cliques of a set can start in the order that it asks for."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from echelon.api.base import JSONObject
from echelon.engine.pod_clique.problem import Problem, clique_names, starts_after
from echelon.engine.pod_clique.set_spec import ANY_ORDER, EXPLICIT, IN_ORDER, Settings
from echelon.engine.work.health_state import items, number, text

MOST_PARENTS = 500  # PodCliques that a pod waits for: each is an argument of its own, in every pod


def order(template: JSONObject, cliques: Sequence[JSONObject], settings: Settings) -> Problem | None:
    """Return what is wrong with the order of a set's cliques."""
    startup = text(template, "cliqueStartupType") or ANY_ORDER
    if startup not in (ANY_ORDER, IN_ORDER, EXPLICIT):
        return Problem("Unsupported", f"spec.template.cliqueStartupType: {startup!r} is not known")
    parents = {text(each, "name"): starts_after(each) for each in cliques} if startup == EXPLICIT else {}
    for name, before in parents.items():
        at = f"spec.template.cliques[{name}].spec.startsAfter"
        for other in before:
            if other not in parents or other == name:
                return Problem("Invalid", f"{at}: {other!r}: must name another clique of the set")
        if len(set(before)) != len(before):
            return Problem("Invalid", f"{at}: each clique may be named once")
    if cycle := _cycle(parents):
        return Problem("StartupCycle", f"spec.template.cliques: {' after '.join(cycle)}: none of them can ever start")
    waits = len(cliques) > 1 if startup == IN_ORDER else any(parents.values())
    if problem := _too_many_parents(startup, template, cliques, parents):
        return problem
    if waits and not settings.init_image:
        return Problem(
            "NoInitImage",
            "spec.template.cliqueStartupType: cliques that start in order need a controller with --init-image",
        )
    return None


def _too_many_parents(
    startup: str, template: JSONObject, cliques: Sequence[JSONObject], parents: Mapping[str, Sequence[str]]
) -> Problem | None:
    if startup == IN_ORDER:
        names = [text(each, "name") for each in cliques]
        parents = {later: [earlier] for earlier, later in pairwise(names)}
    held = {
        name: number(group, "minAvailable", 1)
        for group in items(template, "podCliqueScalingGroups")
        for name in clique_names(group)
    }
    for name, before in parents.items():
        if (found := sum(held.get(each, 1) for each in before)) > MOST_PARENTS:
            rule = f"would wait for {found} PodCliques; {MOST_PARENTS} are the most"
            return Problem("TooLarge", f"spec.template.cliques[{name}].spec.startsAfter: {rule}")
    return None


def _cycle(parents: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return cliques that wait for each other, the first one again at the end; none if there are none."""
    done: set[str] = set()
    for start in parents:
        path: list[str] = []
        stack = [(start, iter(parents[start]))]
        while stack:
            name, rest = stack[-1]
            if len(path) < len(stack):
                path.append(name)
            for other in rest:
                if other in path:
                    return (*path[path.index(other) :], other)
                if other not in done:
                    stack.append((other, iter(parents[other])))
                    break
            else:
                done.add(name)
                stack.pop()
                path.pop()
    return ()
