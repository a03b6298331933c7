"""What is wrong, or hardly meant, in placements and work sets that are still files.

A server drops fields that it does not know, a mistyped group stops a rollout only when it begins, and a zero means
everybody. Whoever writes such a file should hear of it before anything moves. Files are read as people write them, so
nothing here may fail on a shape that nobody expects: what cannot be understood is left to the server.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from echelon.api.base import JSONObject
from echelon.api.cluster import GROUP as CLUSTER_GROUP
from echelon.api.rollout import RolloutStrategy
from echelon.api.work import GROUP as WORK_GROUP
from echelon.engine.rollout.control import BadControl, read_control
from echelon.engine.rollout.strategy import BadStrategy, StrategyType, read_strategy

ERROR, WARNING = "error", "warning"
PLACEMENT, WORK_SET = "Placement", "ManifestWorkReplicaSet"
_KINDS = {(CLUSTER_GROUP, PLACEMENT), (WORK_GROUP, WORK_SET)}
_BLOCKS = ("all", "progressive", "progressivePerGroup")
_TAINTS = (f"{CLUSTER_GROUP}/unreachable", f"{CLUSTER_GROUP}/unavailable")
_LABELS = {
    f"{CLUSTER_GROUP}/decisiongroupindex": f"{CLUSTER_GROUP}/decision-group-index",
    f"{CLUSTER_GROUP}/decisiongroupname": f"{CLUSTER_GROUP}/decision-group-name",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem of one field of one object."""

    file: str
    kind: str
    name: str
    field: str
    problem: str
    severity: str = ERROR


@dataclass(frozen=True, slots=True)
class _Object:
    file: str
    kind: str
    name: str
    namespace: str
    document: JSONObject

    @property
    def spec(self) -> JSONObject:
        return _mapping(self.document.get("spec"))

    def finds(self, field: str, problem: str, severity: str = ERROR) -> Finding:
        return Finding(self.file, self.kind, self.name, field, problem, severity)

    def is_now(self, field: str, modern: str) -> Finding:
        return self.finds(field, f"this is an older spelling, which no server takes; it is called {modern} now")


def lint(documents: Iterable[tuple[str, Any]]) -> tuple[Finding, ...]:
    """Look at documents, each with the name of its file; those that belong together are to be looked at together."""
    objects = [one for file, document in documents for one in _objects(file, document)]
    groups = {(one.namespace, one.name): set(_group_names(one)) for one in objects if one.kind == PLACEMENT}
    found: list[Finding] = []
    for one in objects:
        found += _older_words(one, one.spec, "spec")
        if one.kind == PLACEMENT:
            found += [*_older_grouping(one), *_intolerant(one)]
        else:
            found += [*_annotations(one), *_references(one, groups)]
    return tuple(found)


def _objects(file: str, document: Any) -> Iterator[_Object]:
    document = _mapping(document)
    if str(document.get("kind", "")).endswith("List"):
        for item in _sequence(document.get("items")):
            yield from _objects(file, item)
        return
    group, kind = str(document.get("apiVersion", "")).partition("/")[0], str(document.get("kind", ""))
    if (group, kind) in _KINDS:
        meta = _mapping(document.get("metadata"))
        yield _Object(file, kind, str(meta.get("name", "")), str(meta.get("namespace", "")), document)


def _older_words(one: _Object, value: Any, at: str) -> Iterator[Finding]:
    """Walk over everything but what the clusters get, which is not ours to judge."""
    if isinstance(value, list):
        for number, each in enumerate(value):
            yield from _older_words(one, each, f"{at}[{number}]")
    for key, each in _mapping(value).items():
        field = f"{at}.{key}"
        if key == "manifestWorkTemplate":
            continue
        if key == "operator" and each == "Exist":
            yield one.is_now(field, "Exists")
        if key in _LABELS:
            yield one.is_now(field, _LABELS[key])
        if key == "key" and isinstance(each, str) and each in _LABELS:
            yield one.is_now(field, _LABELS[each])
        yield from _older_words(one, each, field)


def _older_grouping(one: _Object) -> Iterator[Finding]:
    if "DecisionStrategy" in one.spec:
        yield one.is_now("spec.DecisionStrategy", "decisionStrategy")
    for word in ("decisionGroups", "clustersPerDecisionGroup"):
        if word in _mapping(one.spec.get("decisionStrategy")):
            yield one.is_now(f"spec.decisionStrategy.{word}", f"spec.decisionStrategy.groupStrategy.{word}")
    for at, group in _groups(one):
        if "clusterSelector" in group:
            yield one.is_now(f"{at}.clusterSelector", "groupClusterSelector.labelSelector")
        if "GroupName" in group:
            yield one.is_now(f"{at}.GroupName", "groupName")


def _groups(one: _Object) -> Iterator[tuple[str, JSONObject]]:
    """Walk over decision groups, wherever somebody may have put them."""
    for word in ("decisionStrategy", "DecisionStrategy"):
        strategy = _mapping(one.spec.get(word))
        places = ((f"spec.{word}", strategy), (f"spec.{word}.groupStrategy", _mapping(strategy.get("groupStrategy"))))
        for at, place in places:
            for number, group in enumerate(_sequence(place.get("decisionGroups"))):
                yield f"{at}.decisionGroups[{number}]", _mapping(group)


def _group_names(one: _Object) -> Iterator[str]:
    for _, group in _groups(one):
        yield str(group.get("groupName", group.get("GroupName", "")))


def _intolerant(one: _Object) -> Iterator[Finding]:
    tolerations = [_mapping(each) for each in _sequence(one.spec.get("tolerations"))]
    for taint in _TAINTS:
        if not any(each.get("key", "") in ("", taint) for each in tolerations):
            problem = f"nothing tolerates {taint}: a cluster that is away for a while loses what it runs"
            yield one.finds("spec.tolerations", problem, WARNING)


def _annotations(one: _Object) -> Iterator[Finding]:
    annotations = _mapping(_mapping(one.document.get("metadata")).get("annotations"))
    try:
        read_control({key: str(value) for key, value in annotations.items()}, "")
    except BadControl as mistake:
        field = f"metadata.annotations[{mistake.annotation}]"
        yield one.finds(field, f'"{mistake.value}": {mistake.rule}')


def _references(one: _Object, groups: dict[tuple[str, str], set[str]]) -> Iterator[Finding]:
    for number, each in enumerate(_sequence(one.spec.get("placementRefs"))):
        ref = _mapping(each)
        at = f"spec.placementRefs[{number}].rolloutStrategy"
        strategy = _mapping(ref.get("rolloutStrategy"))
        yield from _strategy(one, strategy, at)
        known = groups.get((one.namespace, str(ref.get("name", ""))))
        if known is not None:
            yield from _mandatory(one, strategy, at, str(ref["name"]), known)


def _strategy(one: _Object, strategy: JSONObject, at: str) -> Iterator[Finding]:
    if "rolloutType" in strategy:
        yield one.is_now(f"{at}.rolloutType", "type")
    for block in _BLOCKS:
        if "timeout" in _mapping(strategy.get(block)):
            yield one.is_now(f"{at}.{block}.timeout", "progressDeadline")
    try:
        read = read_strategy(msgspec.convert(strategy, RolloutStrategy))
    except BadStrategy as mistake:
        yield one.finds(f"{at}.{mistake.field}", f'"{mistake.value}": {mistake.rule}')
        return
    except msgspec.ValidationError as mistake:
        yield one.finds(at, str(mistake))
        return
    unused = [block for block in _BLOCKS if block in strategy and block != read.type[:1].lower() + read.type[1:]]
    if unused and not (read.type is StrategyType.ALL and "rolloutType" in strategy):
        yield one.finds(f"{at}.{unused[0]}", f"the type is {read.type}, so this is not used", WARNING)
    window = _mapping(strategy.get("progressive"))
    if (
        read.type is StrategyType.PROGRESSIVE
        and window.get("maxConcurrency") is not None
        and read.max_concurrency.is_zero
    ):
        problem = "zero sets no limit: as many clusters as a decision group has start at once, which may be all"
        yield one.finds(f"{at}.progressive.maxConcurrency", problem, WARNING)


def _mandatory(one: _Object, strategy: JSONObject, at: str, placement: str, known: set[str]) -> Iterator[Finding]:
    for block in _BLOCKS[1:]:
        asked = _sequence(_mapping(strategy.get(block)).get("mandatoryDecisionGroups"))
        for number, each in enumerate(asked):
            name = str(_mapping(each).get("groupName", ""))
            if name and name not in known:
                there = ", ".join(sorted(known - {""})) or "none"
                problem = f"placement {placement} has no group {name}; it has {there}: nothing would start"
                yield one.finds(f"{at}.{block}.mandatoryDecisionGroups[{number}].groupName", problem)


def _mapping(value: Any) -> JSONObject:
    return value if isinstance(value, dict) else {}


def _sequence(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()
