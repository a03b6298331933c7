"""Two caches of different ages, in any combination: what looks decided was decided, or nothing is concluded from it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.base import JSONObject
from echelon.api.placement import Placement, PlacementDecision
from echelon.engine.placement.current import STAMP_ANNOTATION
from echelon.engine.placement.publish import CreateSlice, DeleteSlice, UpdateStrategy, WriteLabels, WriteStatus, publish
from echelon.engine.placement.slices import Slice
from echelon.engine.plan import ReadRequest
from echelon.engine.rollout.decisions import (
    QUIET,
    ConsistentRead,
    DecisionState,
    KnownDecisions,
    believed_after,
    confirms,
    counting,
    first_seen,
    may_be_torn,
    read_request,
)
from echelon.engine.rollout.references import read_placement
from tests.controllers.hub import INDEX_LABEL, PLACEMENT_LABEL
from tests.examples import examples

CLUSTERS = "abcdef"
NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)  # long after everything has changed, unless something else is said
CHANGED = NOW - timedelta(minutes=1)
SECOND = timedelta(seconds=1)

Grouping = tuple[frozenset[str], ...]  # the clusters of each group, which has one slice
Slices = dict[int, tuple[int, frozenset[str]]]  # the version and the clusters of each slice, by group


@st.composite
def groupings(draw: st.DrawFn) -> Grouping:
    """Draw groups of which many have the same sizes, and other members."""
    names = draw(st.permutations(CLUSTERS))
    sizes = draw(st.sampled_from([(2, 2), (2, 2), (2, 3), (3, 2), (2, 2, 1), (4,)]))
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    return tuple(frozenset(names[start : start + size]) for start, size in zip(starts, sizes, strict=True))


def status_of(groups: Sequence[frozenset[str]]) -> JSONObject:
    listed = [
        {
            "decisionGroupIndex": index,
            "decisionGroupName": "",
            "decisions": [f"p-decision-{index + 1}"],
            "clusterCount": len(clusters),
        }
        for index, clusters in enumerate(groups)
    ]
    return {"numberOfSelectedClusters": sum(map(len, groups)), "decisionGroups": listed}


def placement_of(version: int, status: JSONObject) -> Placement:
    metadata = {"name": "p", "resourceVersion": str(version)}
    return msgspec.convert({"metadata": metadata, "spec": {}, "status": status}, Placement)


def decisions_of(slices: Slices, **annotations: str) -> list[PlacementDecision]:
    found: list[Any] = [
        {
            "metadata": {
                "name": f"p-decision-{index + 1}",
                "labels": {PLACEMENT_LABEL: "p", INDEX_LABEL: str(index)},
                "annotations": annotations,
                "resourceVersion": str(version),
            },
            "status": {"decisions": [{"clusterName": each, "reason": ""} for each in sorted(clusters)]},
        }
        for index, (version, clusters) in slices.items()
    ]
    return msgspec.convert(found, list[PlacementDecision])


def torn(
    placement: Placement,
    status_version: str | None,
    decisions: Sequence[PlacementDecision],
    read: ConsistentRead | None = None,
) -> bool:
    """Whether decisions that have been the same for a minute may be torn."""
    states = tuple(DecisionState(each, each, CHANGED) for each in decisions)
    known = KnownDecisions(placement, states, CHANGED, status_version, trusted=True)
    return may_be_torn(known, read, NOW)


def asked(version: str, decisions: Sequence[PlacementDecision], after: timedelta) -> ConsistentRead:
    """Return the answer of a server that has just these, and was asked so long after they had changed."""
    versions = {each.metadata.name: each.metadata.resource_version for each in decisions}
    return ConsistentRead(version, CHANGED + after, 1, decisions={"p": versions})


@dataclass
class History:
    """Everything that somebody wrote who does not care for readers, and whether it was complete after each write."""

    placements: list[tuple[int, JSONObject]] = field(default_factory=list)  # version and status, at each moment
    decisions: list[Slices] = field(default_factory=list)
    complete: list[bool] = field(default_factory=list)  # whether no cluster was on its way
    changed: list[int] = field(default_factory=list)  # moments at which the status became another one

    def write(self, placement: tuple[int, JSONObject], slices: Slices, *, complete: bool) -> None:
        self.placements.append(placement)
        self.decisions.append(slices)
        self.complete.append(complete)

    @property
    def end(self) -> int:
        return len(self.complete) - 1


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Draw some rewritings of decisions: slices in any order, some made anew, the placement edited meanwhile."""
    history = History()
    groups = draw(groupings())
    slices: Slices = {index: (0, clusters) for index, clusters in enumerate(groups)}
    history.write((0, status_of(groups)), slices, complete=True)
    for after in draw(st.lists(groupings(), min_size=1, max_size=3)):
        for write in draw(st.permutations(range(max(len(groups), len(after))))):
            wanted = after[write] if write < len(after) else None
            if slices.get(write, (0, None))[1] == wanted:
                continue
            anew = wanted is not None and write in slices and draw(st.booleans())
            steps = [None, wanted] if anew else [wanted]
            for step in steps:
                now = len(history.complete)
                rest = {index: each for index, each in slices.items() if index != write}
                slices = rest if step is None else {**rest, write: (now, step)}
                done = {index: each for index, (_, each) in slices.items()} == dict(enumerate(after))
                history.write(history.placements[-1], slices, complete=done)
                if draw(st.integers(0, 4)) == 0:
                    edited = (len(history.complete), history.placements[-1][1])
                    history.write(edited, slices, complete=done)
        groups = after
        if status_of(groups) != history.placements[-1][1]:
            history.changed.append(len(history.complete))
            history.write((len(history.complete), status_of(groups)), slices, complete=True)
    return history


@examples(300)
@given(histories())
def test_decisions_that_are_half_rewritten_are_not_believed_whatever_the_caches_have_come_to(history: History) -> None:
    """Nobody is so slow that half a rewriting lasts until decisions without a status after them are believed."""
    whole = [history.decisions[at] for at, complete in enumerate(history.complete) if complete]
    # What is half of one rewriting may be all that is left after the next one.
    halves = [at for at, complete in enumerate(history.complete) if not complete and history.decisions[at] not in whole]
    found = {at: decisions_of(history.decisions[at]) for at in halves}
    for known, state in enumerate(history.placements):
        placement = placement_of(*state)
        # The controller began some time ago, and has seen the status change since then, or not.
        seen = [None, *(str(at) for at in history.changed if at <= known)]
        for at in halves:
            if not read_placement(placement, found[at]).settled:
                continue
            for said in {None, seen[-1]}:
                # The server was not asked, or had just that when it was asked: when it was written, or later.
                same = [
                    later for later in range(at, history.end + 1) if history.decisions[later] == history.decisions[at]
                ]
                for read in (None, *(asked(str(each), found[at], QUIET - SECOND) for each in same)):
                    assert torn(placement, said, found[at], read)


@examples(200)
@given(histories())
def test_decisions_are_believed_when_the_server_has_no_others_and_nothing_changes(history: History) -> None:
    placement, found = placement_of(*history.placements[-1]), decisions_of(history.decisions[-1])
    assert read_placement(placement, found).settled
    end = str(history.end)
    assert not torn(placement, None, found, asked(end, found, QUIET))
    if history.changed and history.changed[-1] == history.end:
        assert not torn(placement, end, found, asked(end, found, timedelta(0)))


def slices_of(groups: Grouping | Slices) -> list[Slice]:
    found = groups if isinstance(groups, dict) else {index: (0, each) for index, each in enumerate(groups)}
    return [Slice(f"p-decision-{at + 1}", f"g{at}", at, 0, tuple(sorted(each))) for at, (_, each) in found.items()]


def states(slices: Slices, after: Grouping, strategy: UpdateStrategy) -> Iterator[Slices]:
    """Walk what can be read while Echelon rewrites decisions."""
    for write in publish(slices_of(slices), slices_of(after), strategy).writes:
        match write:
            case CreateSlice(made):
                slices = {**slices, made.group_index: (0, frozenset())}
            case WriteStatus(name, clusters):
                slices = {**slices, int(name[-1]) - 1: (0, frozenset(clusters))}
            case DeleteSlice(name):
                slices = {index: each for index, each in slices.items() if index != int(name[-1]) - 1}
            case WriteLabels():
                continue
        yield slices


@examples(300)
@given(st.lists(groupings(), min_size=3, max_size=3), st.sampled_from(["All", "RollingUpdate"]), st.data())
def test_no_status_agrees_with_decisions_of_echelon_in_which_a_cluster_is_on_its_way(
    groups: list[Grouping], strategy: UpdateStrategy, data: st.DataObject
) -> None:
    before, after, later = groups
    there: Slices = {index: (0, clusters) for index, clusters in enumerate(before)}
    seen = list(states(there, after, strategy))
    if strategy == "RollingUpdate":  # also when it is cut short, and overtaken by another change
        seen = seen[: data.draw(st.integers(0, len(seen)))]
        seen += states(seen[-1] if seen else there, later, strategy)
    staying = frozenset.intersection(*(frozenset().union(*each) for each in groups))
    for slices in seen:
        for each in groups:
            view = read_placement(placement_of(1, status_of(each)), decisions_of(slices))
            assert not view.settled or staying <= view.groups.clusters


def test_decisions_of_echelon_are_believed_as_soon_as_there_is_a_status_after_them() -> None:
    groups: Grouping = (frozenset("ab"), frozenset("cd"))
    slices: Slices = {index: (5, clusters) for index, clusters in enumerate(groups)}
    placement = placement_of(6, status_of(groups))
    ours, others = decisions_of(slices, **{STAMP_ANNOTATION: "1:x"}), decisions_of(slices)
    assert torn(placement, "4", ours)
    assert not torn(placement, "6", ours)
    assert torn(placement, "6", others)
    assert torn(placement, "6", others, asked("5", others, timedelta(0)))
    assert not torn(placement, "6", others, asked("6", others, timedelta(0)))


MOMENT = QUIET - SECOND


def single(cluster: str, version: int = 1) -> PlacementDecision:
    return decisions_of({0: (version, frozenset(cluster))})[0]


def test_a_decision_that_nobody_owns_counts_when_it_has_been_the_same_for_a_moment() -> None:
    first, second = single("a"), single("b", 2)
    state = DecisionState(first, None, CHANGED)
    assert state.believed(CHANGED + MOMENT) is None
    assert state.believed(CHANGED + QUIET) is first
    state = state.changed_to(second, NOW)
    assert state.believed(NOW + MOMENT) is first
    assert state.believed(NOW + QUIET) is second
    gone = state.changed_to(None, NOW + MOMENT)
    assert gone.believed(NOW + MOMENT) is first  # the second one did not last
    assert gone.believed(NOW + MOMENT + QUIET) is None


def test_decisions_that_nobody_owns_count_later_and_until_then_may_be_torn() -> None:
    placement = placement_of(6, status_of([frozenset("a")]))
    state = DecisionState(single("b", 2), single("a"), NOW)
    known = KnownDecisions(placement, (state,), NOW)
    assert counting(known, NOW) == ((single("a"),), False)
    assert believed_after(known, NOW) == QUIET
    assert may_be_torn(known, None, NOW)
    assert counting(known, NOW + QUIET) == ((single("b", 2),), False)
    assert believed_after(known, NOW + QUIET) is None
    trusted = replace(known, trusted=True)
    assert counting(trusted, NOW) == ((single("b", 2),), False)
    assert believed_after(trusted, NOW) is None


def test_decisions_that_were_there_before_us_are_believed_unless_they_were_made_just_now() -> None:
    decision = single("a")
    made = "2026-11-01T11:59:59Z"
    young = msgspec.structs.replace(
        decision, metadata=msgspec.structs.replace(decision.metadata, creation_timestamp=made)
    )
    assert first_seen(young, NOW, initial=True).believed(NOW) is None
    assert first_seen(young, NOW + QUIET, initial=True).believed(NOW + QUIET) is young
    assert first_seen(young, NOW + QUIET, initial=False).believed(NOW + QUIET) is None


def test_the_server_is_asked_when_decisions_can_be_complete_and_not_without_need() -> None:
    placement, decision = placement_of(6, status_of([frozenset("a")])), single("a")
    known = KnownDecisions(placement, (DecisionState(decision, decision, CHANGED),), CHANGED)
    assert read_request({"p": known}, [], stale=False) is None
    assert read_request({"p": known}, [], stale=True) == ReadRequest(("p",))
    assert read_request({"p": known}, ["p"], stale=False) == ReadRequest(("p",), CHANGED + QUIET)
    told = replace(known, status_version="6")  # the status came after the decision
    assert read_request({"p": told}, ["p"], stale=False) == ReadRequest(("p",))


def test_a_server_confirms_just_what_is_known() -> None:
    placement, decision = placement_of(6, status_of([frozenset("a")])), single("a")
    known = {"p": KnownDecisions(placement, (DecisionState(decision, decision, CHANGED),), CHANGED)}
    read = ConsistentRead("9", NOW, 3, {"p": "6"}, {"p": {"p-decision-1": "1"}})
    assert confirms(read, 3, known, {})
    assert not confirms(read, 4, known, {})
    assert not confirms(replace(read, placements={"p": "7"}), 3, known, {})
    assert not confirms(replace(read, decisions={"p": {"p-decision-1": "2"}}), 3, known, {})
    assert not confirms(read, 3, {**known, "q": KnownDecisions(None)}, {})
    binding = {"placementbindings": {"b": "4"}}
    assert confirms(replace(read, others=binding), 3, known, binding)
    assert not confirms(read, 3, known, binding)
