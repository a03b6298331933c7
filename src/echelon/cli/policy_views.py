"""How policies look on a terminal of eighty columns, and to programs."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from echelon.api.base import JSONObject
from echelon.api.printing import human_duration
from echelon.api.times import parse_time
from echelon.cli.rollout_tree import counts_of, revision_of, with_message, wrapped
from echelon.cli.terminal import style
from echelon.engine.policy.bindings import PLACEMENT_KIND
from echelon.engine.policy.raw_policy import RawPolicy
from echelon.engine.rollout.model import Phase
from echelon.engine.rollout.reasons import names
from echelon.rollouts.picture import Picture
from echelon.rollouts.policy_reading import whole_status
from echelon.rollouts.policy_state import (
    COMPLIANT,
    NON_COMPLIANT,
    PENDING,
    STATES,
    UNKNOWN,
    ClusterState,
    TemplateState,
    WayState,
    counted,
    total,
)

_NAMED = 10  # clusters that are named unless all are asked for
_BAD = (NON_COMPLIANT, PENDING)
_ACTIVE = tuple(each.value for each in (Phase.PROGRESSING, Phase.FAILED, Phase.TIMED_OUT))
_MARKS = {COMPLIANT: ("✔", "green"), NON_COMPLIANT: ("✖", "red"), PENDING: ("◔", "yellow"), UNKNOWN: ("·", None)}
HEADERS = ["Name", "Action", "Compliance", "Rollout", "C/N/P/U", "Done"]


def list_document(policy: RawPolicy) -> JSONObject:
    """Return what a list says of a policy: what its status tells."""
    status, meta = whole_status(policy), policy.metadata
    counts, told = counted(status), status.rollout
    return {
        "namespace": meta.namespace,
        "name": meta.name,
        "remediationAction": policy.spec.get("remediationAction") or None,
        "disabled": bool(policy.spec.get("disabled")),
        "compliant": status.compliant or None,
        "rolloutStatus": status.rollout_status or None,
        "clusters": _counts(counts),
        "progress": {"done": told.succeeded + told.skipped if told is not None else 0, "total": total(status)},
    }


def row(found: JSONObject, policy: RawPolicy, now: datetime, *, wide: bool) -> list[object]:
    """Return a policy as a row of a table."""
    counts, progress, meta = found["clusters"], found["progress"], policy.metadata
    made = parse_time(meta.creation_timestamp) or now
    return [
        meta.name,
        "disabled" if found["disabled"] else found["remediationAction"],
        found["compliant"],
        found["rolloutStatus"],
        "/".join(str(counts[each]) for each in ("compliant", "noncompliant", "pending", "unknown")),
        f"{progress['done']}/{progress['total']}",
        *([human_duration(int((now - made).total_seconds()))] if wide else []),
    ]


def show(
    policy: RawPolicy,
    picture: Picture,
    ways: Sequence[WayState],
    clusters: Sequence[ClusterState],
    *,
    everything: bool,
    width: int,
) -> Iterator[str]:
    """Walk the lines that show a policy: how far it is, by which ways, and what its clusters say."""
    status = whole_status(policy)
    action = policy.spec.get("remediationAction") or "as its templates say"
    head = f"{picture.namespace}/{picture.name}  {action}  {revision_of(picture)}"
    yield style(f"{head}  age {picture.age}", bold=True)
    counts = {state: sum(each.compliant == state for each in clusters) for state in STATES}
    yield _line("compliance", status.compliant, _counted(counts))
    yield _line("rollout", status.rollout_status, f"{picture.state}, {counts_of(picture.counts, picture.total)}")
    for text in filter(None, (picture.message, picture.note and f"({picture.note})")):
        yield from wrapped(text, width, "  ", "  ")
    yield "placed by" if ways else "placed by nothing: no binding of its namespace names it or a set that has it"
    for number, way in enumerate(ways, start=1):
        yield from _way(way, last=number == len(ways), width=width)
    if clusters:
        yield "clusters"
        yield from _clusters(clusters, everything=everything, width=width)


def _line(title: str, state: str, rest: str) -> str:
    return f"{title.ljust(10)}  {style(state or 'unknown', bold=True)}: {rest}"


def _counted(counts: Mapping[str, int]) -> str:
    found = [f"{counts[state]} {state.lower()}" for state in reversed(STATES) if counts[state]]
    return ", ".join(found) or "no clusters"


def _way(state: WayState, *, last: bool, width: int) -> Iterator[str]:
    branch, below = ("└─ ", "     ") if last else ("├─ ", "│    ")
    way = state.way
    kind = "placement" if way.placement.kind == PLACEMENT_KIND else "placement rule"
    through = f", by policy set {way.policy_set}" if way.policy_set else ""
    restricted = ", restricted" if way.restricted else ""
    count = f"{len(state.clusters)} cluster{'s' if len(state.clusters) != 1 else ''}" if state.exists else "missing"
    yield f"{branch}{way.binding} → {kind} {way.placement.name}{through}{restricted}: {count}"
    if way.excluded:
        yield from wrapped(f"excludes {names(sorted(way.excluded))}", width, below, below)
    if state.effect:
        yield from wrapped(state.effect, width, below, below)


def _clusters(clusters: Sequence[ClusterState], *, everything: bool, width: int) -> Iterator[str]:
    """Name those that somebody should look at; count the others."""
    chosen = [each for each in clusters if everything or each.compliant in _BAD or each.told in _ACTIVE]
    shown = chosen if everything else chosen[:_NAMED]
    rest = (
        [f"{len(chosen) - len(shown)} more that are not well or not done (-o wide names them)"]
        if len(shown) < len(chosen)
        else []
    )
    named = {each.name for each in chosen}
    alike = Counter(", ".join(_words(each)) for each in clusters if each.name not in named)
    rest += [f"{count} {'more' if chosen else 'in all'}: {words}" for words, count in sorted(alike.items())]
    for number, each in enumerate(shown, start=1):
        yield from _cluster(each, last=number == len(shown) and not rest, width=width)
    for number, text in enumerate(rest, start=1):
        yield f"{'└─' if number == len(rest) else '├─'} {text}"


def _words(each: ClusterState) -> list[str]:
    """Return how a cluster stands, in the words of both statuses where they differ."""
    words = [each.compliant, each.told or each.stored or "without a rollout status"]
    if each.told and each.stored and each.told != each.stored:
        words[1] += f" (its replica says {each.stored})"
    return [*words, *(["held"] if each.held else []), *([] if each.fresh else ["not reported on yet"])]


def _cluster(each: ClusterState, *, last: bool, width: int) -> Iterator[str]:
    branch, below = ("└─ ", "   ") if last else ("├─ ", "│  ")
    yield f"{branch}{_mark(each.compliant)} {each.name}  {', '.join(_words(each))}"
    templates = each.templates if each.fresh else ()  # what was said of something else misleads
    for number, template in enumerate(templates, start=1):
        yield from _template(template, below, last=number == len(templates), width=width)


def _template(each: TemplateState, indent: str, *, last: bool, width: int) -> Iterator[str]:
    branch, below = ("└─ ", "   ") if last else ("├─ ", "│  ")
    head = f"{indent}{branch}{_mark(each.compliant)} {each.kind} {each.name}"
    yield from with_message(head, each.message or each.compliant, f"{indent}{below}  ", width)


def _mark(compliant: str) -> str:
    mark, colour = _MARKS.get(compliant, _MARKS[UNKNOWN])
    return style(mark, fg=colour)


def document(
    policy: RawPolicy, picture: Picture, ways: Sequence[WayState], clusters: Sequence[ClusterState]
) -> JSONObject:
    """Return a policy for programs."""
    status: JSONObject = msgspec.to_builtins(whole_status(policy))
    return {
        **list_document(policy),
        "clusters": _counts({state: sum(each.compliant == state for each in clusters) for state in STATES}),
        "revision": picture.revision,
        "rollout": {"state": picture.state, "message": picture.message, "counts": dict(picture.counts)},
        "note": picture.note,
        "ways": [_way_document(each) for each in ways],
        "perCluster": [_cluster_document(each) for each in clusters],
        "status": status,
    }


def _way_document(state: WayState) -> JSONObject:
    way = state.way
    return {
        "placementBinding": way.binding,
        "kind": way.placement.kind,
        "placement": way.placement.name,
        "exists": state.exists,
        "policySet": way.policy_set,
        "restricted": way.restricted,
        "remediationAction": way.override,
        "effect": state.effect,
        "excluded": sorted(way.excluded),
        "clusters": list(state.clusters),
    }


def _cluster_document(each: ClusterState) -> JSONObject:
    return {
        "clustername": each.name,
        "compliant": each.compliant if each.compliant != UNKNOWN else "",
        "rolloutStatus": each.told,
        "replica": {"rolloutStatus": each.stored, "held": each.held, "reported": each.fresh},
        "templates": [
            {"name": one.name, "kind": one.kind, "compliant": one.compliant, "message": one.message, "time": one.at}
            for one in each.templates
        ],
    }


def _counts(counts: Mapping[str, int]) -> JSONObject:
    return {state.lower(): counts.get(state, 0) for state in (COMPLIANT, NON_COMPLIANT, PENDING, UNKNOWN)}
