"""What is under way on a member that its workload does not tell: read from ReplicaSets or pods, after the object.

A Deployment that has observed a pause may have told a ReplicaSet before to delete pods; a CloneSet may have marked
pods; a StatefulSet counts pods that are ending. Whoever lists the children after the object sees what was decided under
every generation that the object has observed. The counts are of the children too, always: mixed with those of the
status, which are older, they would go back in time.

Which children are updated is a matter of the generation that was observed. A Deployment does not name the ReplicaSet of
that generation, so the template must be known; where it is not, nothing can be told of the children yet.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from echelon.api.base import JSONObject
from echelon.api.times import parse_time
from echelon.engine.align.interpreters import Interpreter
from echelon.engine.align.template import template_hash
from echelon.engine.int_or_percent import NotIntOrPercent, kept_by_partition
from echelon.engine.work.health_state import condition, items, number, part, text

REVISION_LABEL = "controller-revision-hash"
SPECIFIED_DELETE = "apps.kruise.io/specified-delete"
LIFECYCLE_STATE = "lifecycle.apps.kruise.io/state"
_CEILING = "deployment.kubernetes.io/max-replicas"
_ENDED = ("Failed", "Succeeded")
# A pod that waits for the hook before its deletion or its update is as good as marked.
_PREPARING = ("PreparingDelete", "PreparingUpdate")


@dataclass(frozen=True, slots=True)
class UnderWay:
    """The counts of the children, and whether nothing is under way among them.

    `version` is the one of the list that was read.
    """

    version: int
    pods: int
    available: int
    updated: int
    settled: bool
    told: int | None = None
    resized: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class ChildKind:
    """The kind of which the children are that tell what is under way."""

    api_version: str
    kind: str


REPLICA_SETS = ChildKind("apps/v1", "ReplicaSet")
PODS = ChildKind("v1", "Pod")

_CHILDREN = {
    ("apps", "Deployment"): REPLICA_SETS,
    ("apps", "StatefulSet"): PODS,
    ("apps.kruise.io", "CloneSet"): PODS,
}


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What matters of a pod. A pod that has ended or is ending is none."""

    revision: str
    ordinal: int  # -1 if its name has none
    available: bool
    marked: bool


@dataclass(frozen=True, slots=True)
class SetFacts:
    """What matters of a ReplicaSet. `ceiling` is how many pods its Deployment might have when it was last resized."""

    template: str
    size: int
    replicas: int
    available: int
    observed: bool
    ceiling: int | None = None


def children_of(interpreter: Interpreter) -> ChildKind | None:
    """Return which children to read; None for a kind of which no more is known than its status."""
    return _CHILDREN.get((interpreter.api_version.rpartition("/")[0], interpreter.kind))


def read_pod(pod: JSONObject, owner: str, min_ready_seconds: int, now: float) -> PodFacts | None:
    """Read a pod that an owner controls; None for one that does not count. `now` is in seconds since 1970."""
    meta, status = part(pod, "metadata"), part(pod, "status")
    if not _is_controlled(meta, owner) or "deletionTimestamp" in meta or text(status, "phase") in _ENDED:
        return None
    ready = condition(status, "Ready")
    since = parse_time(text(ready, "lastTransitionTime"))
    waited = since is not None and since.timestamp() + min_ready_seconds <= now
    labels = part(meta, "labels")
    ordinal = text(meta, "name").rpartition("-")[2]
    return PodFacts(
        revision=text(labels, REVISION_LABEL),
        ordinal=int(ordinal) if ordinal.isascii() and ordinal.isdecimal() and len(ordinal) < 10 else -1,
        available=ready.get("status") == "True" and (waited or not min_ready_seconds),
        marked=text(labels, SPECIFIED_DELETE) == "true" or text(labels, LIFECYCLE_STATE) in _PREPARING,
    )


def read_replica_set(replica_set: JSONObject, owner: str, template: str | None = None) -> SetFacts | None:
    """Read a ReplicaSet that an owner controls; None for one that does not count.

    The template of a ReplicaSet never changes, so whoever knows its hash says it: templates can be large.
    """
    meta, status = part(replica_set, "metadata"), part(replica_set, "status")
    if not _is_controlled(meta, owner):
        return None
    ceiling = text(part(meta, "annotations"), _CEILING)
    return SetFacts(
        template=template or template_hash(replica_set),
        size=number(part(replica_set, "spec"), "replicas", 1),
        replicas=number(status, "replicas"),
        available=number(status, "availableReplicas"),
        observed=number(status, "observedGeneration") >= number(meta, "generation"),
        ceiling=int(ceiling) if ceiling.isascii() and ceiling.isdecimal() and len(ceiling) < 10 else None,
    )


def under_replica_sets(
    obj: JSONObject, sets: Iterable[SetFacts], version: int, templates: Mapping[int, str]
) -> UnderWay | None:
    """Return what is under way below a Deployment; None if the template that it has observed is not known.

    `templates` are the hashes of templates that it had at its generations, as far as they are known.
    """
    generation = number(part(obj, "metadata"), "generation")
    observed = number(part(obj, "status"), "observedGeneration")
    template = templates.get(min(observed, generation))
    if template is None:
        if observed < generation:
            return None
        template = template_hash(obj)
    sets = tuple(sets)
    return UnderWay(
        version,
        # A ReplicaSet has pods that it was not told to have until it has deleted them, and will have those it was.
        pods=sum(max(each.replicas, each.size) for each in sets),
        available=sum(each.available for each in sets),
        updated=sum(max(each.replicas, each.size) for each in sets if each.template == template),
        settled=observed >= generation and all(each.observed and each.replicas == each.size for each in sets),
        told=sum(each.size for each in sets),
        resized=_resized(sets),
    )


def under_pods(obj: JSONObject, interpreter: Interpreter, pods: Iterable[PodFacts], version: int) -> UnderWay:
    """Return what is under way below a CloneSet or a StatefulSet, whose status names the revision it has observed."""
    status, pods = part(obj, "status"), tuple(pods)
    observed = number(status, "observedGeneration") >= number(part(obj, "metadata"), "generation")
    revision = text(status, "updateRevision")
    if interpreter.kind == "StatefulSet":
        first = _first_updated(obj, interpreter)
        quiet = not any(pod.ordinal >= first and not _has_revision(pod, revision) for pod in pods)
    else:
        quiet = not any(pod.marked for pod in pods)
    return UnderWay(
        version,
        pods=len(pods),
        available=sum(pod.available for pod in pods),
        updated=sum(_has_revision(pod, revision) for pod in pods),
        settled=observed and quiet,
    )


def _resized(sets: tuple[SetFacts, ...]) -> tuple[int, int] | None:
    """Return the lowest and the highest ceiling that ReplicaSets with pods remember; None if one does not tell.

    A pause or a resize spreads pods over them in proportion to that.
    """
    ceilings = [each.ceiling for each in sets if each.size > 0]
    known = [each for each in ceilings if each is not None]
    return (min(known), max(known)) if known and len(known) == len(ceilings) else None


def _is_controlled(meta: JSONObject, owner: str) -> bool:
    return any(each.get("controller") is True and each.get("uid") == owner for each in items(meta, "ownerReferences"))


def _has_revision(pod: PodFacts, revision: str) -> bool:
    """Tell whether a pod has a revision; its label may be the whole name of it or only the hash at its end."""
    return pod.revision != "" and pod.revision.rpartition("-")[2] == revision.rpartition("-")[2]


def _first_updated(obj: JSONObject, interpreter: Interpreter) -> int:
    """Return the lowest ordinal that the partition lets be updated."""
    spec = part(obj, "spec")
    strategy = interpreter.get_rolling_strategy(obj)
    partition = strategy.partition if strategy is not None and strategy.partition is not None else 0
    try:
        kept = kept_by_partition(partition, number(spec, "replicas", 1))
    except NotIntOrPercent:
        kept = 0
    return number(part(spec, "ordinals"), "start") + kept
