"""What is hardly meant on one hub: placements that select none of its clusters, and references to nothing.

A selector is right or wrong only beside the labels that clusters have, and a typo in one selects nobody without a word.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from echelon.api.cluster import GROUP, ManagedClusterSet, ManagedClusterSetBinding
from echelon.api.keys import Key
from echelon.api.placement import Placement
from echelon.engine.lint.documents import PLACEMENT, WARNING, WORK_SET, Document, Documents, Finding, mapping, sequence
from echelon.engine.placement.scheduler import Scheduler

_SETS, _BINDINGS = "ManagedClusterSet", "ManagedClusterSetBinding"


def follow(scheduler: Scheduler, document: Any) -> None:
    """Let a scheduler take over cluster sets and bindings that come with the files."""
    content = mapping(document)
    if str(content.get("apiVersion", "")).partition("/")[0] != GROUP:
        return
    try:
        if content.get("kind") == _SETS:
            scheduler.cluster_set(msgspec.convert(content, ManagedClusterSet))
        elif content.get("kind") == _BINDINGS:
            scheduler.binding(msgspec.convert(content, ManagedClusterSetBinding))
    except msgspec.ValidationError:
        return  # the server will say what is wrong with it


def lint_on_hub(known: Documents, scheduler: Scheduler, now: datetime) -> tuple[Finding, ...]:
    """Look at placements, and at references to them, with the clusters that a scheduler knows."""
    found: list[Finding] = []
    for one in known.documents:
        if one.kind == PLACEMENT:
            found += _selects_nobody(one, scheduler, now)
        elif one.kind == WORK_SET:
            found += _refers_to_nothing(one, known)
    return tuple(found)


def _selects_nobody(one: Document, scheduler: Scheduler, now: datetime) -> Iterator[Finding]:
    try:
        scheduler.placement(msgspec.convert(one.content, Placement))
    except msgspec.ValidationError:
        return
    schedule = scheduler.schedule(Key(one.namespace, one.name), now)
    if schedule is None or schedule.outcome.failed:
        return
    if not schedule.members:
        if one.spec.get("numberOfClusters") != 0:
            yield one.finds("spec", f"it selects no cluster of this hub: {_why(one, scheduler)}", WARNING)
        return
    filled = set(schedule.groups.values())
    for number, (name, _) in enumerate(schedule.compiled.groups if schedule.compiled is not None else ()):
        if name not in filled:
            at = f"spec.decisionStrategy.groupStrategy.decisionGroups[{number}]"
            problem = f"group {name} has none of the clusters that are selected on this hub"
            yield one.finds(at, problem, WARNING)


def _why(one: Document, scheduler: Scheduler) -> str:
    wanted = [str(each) for each in sequence(one.spec.get("clusterSets"))]
    usable = scheduler.sets.eligibility(one.namespace, wanted)
    if not usable.sets:
        named = f"none of the sets {', '.join(wanted)}" if wanted else "no cluster set"
        return f"{named} is bound to namespace {one.namespace}"
    return "no cluster matches its predicates, or all that do have taints that it does not tolerate"


def _refers_to_nothing(one: Document, known: Documents) -> Iterator[Finding]:
    for number, each in enumerate(sequence(one.spec.get("placementRefs"))):
        name = str(mapping(each).get("name", ""))
        if name and known.get(PLACEMENT, one.namespace, name) is None:
            problem = f"there is no placement {name} in namespace {one.namespace}, neither in the files nor on the hub"
            yield one.finds(f"spec.placementRefs[{number}].name", problem)
