"""The steps of a StatefulSet, one by one, and then in all orders in which pods can come up."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.fleet.member.decide.pods import PodView
from echelon.fleet.member.decide.stateful_set import StatefulSetView, Step, decide, status
from tests.examples import examples

NOW = 1000.0
GONE = "-"


def pods(text: str) -> dict[int, PodView]:
    """Read pods by ordinal: `o` and `n` for old and new, in capitals when ready, `x` ending, `f` failed, `-` none."""
    made = {}
    for ordinal, letter in enumerate(text):
        if letter != GONE:
            made[ordinal] = PodView(
                "ns",
                f"web-{ordinal}",
                f"u{ordinal}",
                "sts",
                "n" if letter in "nN" else "o",
                "node",
                "Failed" if letter == "f" else "Running",
                NOW - 60 if letter.isupper() else None,
                letter == "x",
            )
    return made


def a_view(text: str, replicas: int, **more: object) -> StatefulSetView:
    return replace(StatefulSetView(replicas, "n", "o", pods(text), NOW), **more)  # type: ignore[arg-type]


def doing(text: str, replicas: int, **more: object) -> str:
    """Say in short what the next step is."""
    step = decide(a_view(text, replicas, **more))
    return " ".join([*(f"+{n}" for n in step.create), *(f"-{name[4:]}" for name in step.delete)])


IN_ORDER = [
    ("", 3, "+0"),
    ("n", 3, ""),
    ("N", 3, "+1"),
    ("N-N", 3, "+1"),
    ("NNN", 3, ""),
    ("NNNN", 2, "-3"),
    ("NNNx", 2, ""),  # the next goes when this one is gone
    ("fNN", 3, "-0"),
    ("OOO", 3, "-2"),
    ("OOx", 3, ""),
    ("OO", 3, "+2"),
    ("OOn", 3, ""),
    ("OON", 3, "-1"),
    ("oON", 3, ""),  # one that is not ready stops everything
]


@pytest.mark.parametrize(("text", "replicas", "expected"), IN_ORDER)
def test_pods_come_in_order_and_are_updated_from_the_last_to_the_first(text: str, replicas: int, expected: str) -> None:
    assert doing(text, replicas) == expected


def test_in_parallel_nobody_waits_for_the_others() -> None:
    assert doing("", 3, ordered=False) == "+0 +1 +2"
    assert doing("NNNN", 2, ordered=False) == "-3 -2"
    # Without a count of what is unavailable only higher ordinals are looked at.
    assert doing("oOO", 3, ordered=False) == "-2"
    assert doing("oON", 3, ordered=False) == "-1"
    assert doing("OOn", 3, ordered=False) == ""


def test_pods_below_the_partition_keep_and_get_back_the_old_revision() -> None:
    assert doing("OOO", 3, partition=2) == "-2"
    assert doing("OON", 3, partition=2) == ""
    view = a_view("-ON", 3, partition=2)
    assert decide(view) == Step(create=(0,))
    assert [view.revision_for(ordinal) for ordinal in range(3)] == ["o", "o", "n"]


def test_on_delete_only_the_user_updates() -> None:
    assert doing("OOO", 3, on_delete=True) == ""
    view = a_view("OO-", 3, on_delete=True)
    assert view.revision_for(decide(view).create[0]) == "n"


def test_where_unavailability_is_counted_several_go_at_once() -> None:
    assert doing("OOOO", 4, unavailable=2) == "-3 -2"
    assert doing("OOOn", 4, unavailable=2, ordered=False) == "-2"
    assert doing("OoOn", 4, unavailable=2, ordered=False) == "-1"  # what is down is replaced for nothing
    assert doing("OOnn", 4, unavailable=2, ordered=False) == ""


def test_a_pod_is_waited_for_until_it_has_been_ready_for_long_enough() -> None:
    assert doing("OON", 3, min_ready_seconds=120) == ""
    assert doing("OON", 3, min_ready_seconds=60) == "-1"


def test_ordinals_may_begin_elsewhere() -> None:
    view = a_view("", 2, start=5)
    assert decide(view).create == (5,)


def test_the_status_is_complete_when_every_pod_is_new_and_ready() -> None:
    said = status(a_view("NNn", 3), 1, {})
    assert (said["currentRevision"], said["updatedReplicas"], said["readyReplicas"]) == ("o", 3, 2)
    said = status(a_view("NNN", 3), 1, {})
    assert (said["currentRevision"], said["currentReplicas"], said["replicas"]) == ("n", 3, 3)


@examples(200)
@given(st.data())
def test_an_update_stays_within_its_limit_and_ends(data: st.DataObject) -> None:
    replicas = data.draw(st.integers(1, 8))
    partition = data.draw(st.integers(0, replicas))
    limit = data.draw(st.one_of(st.none(), st.integers(1, 4)))
    ordered = data.draw(st.booleans()) or limit is None
    view = a_view("O" * replicas, replicas, partition=partition, unavailable=limit, ordered=ordered)
    for _ in range(400):
        present = dict(view.pods)
        ending = [n for n, pod in present.items() if pod.terminating]
        starting = [n for n, pod in present.items() if not pod.ready and not pod.terminating]
        step = decide(view)
        if (ending or starting) and (not step or data.draw(st.booleans())):
            chosen = data.draw(st.sampled_from(sorted(ending + starting)))
            if chosen in ending:
                del present[chosen]
            else:
                present[chosen] = pods("-" * chosen + ("N" if present[chosen].revision == "n" else "O"))[chosen]
        elif not step:
            break
        for ordinal in step.create if present == view.pods else ():
            present[ordinal] = pods("-" * ordinal + ("n" if view.revision_for(ordinal) == "n" else "o"))[ordinal]
        for name in step.delete if present.keys() == view.pods.keys() and present == view.pods else ():
            ordinal = int(name[4:])
            present[ordinal] = pods("-" * ordinal + "x")[ordinal]
        view = replace(view, pods=present)
        up = sum(pod.ready and not pod.terminating for pod in present.values())
        assert up >= replicas - (limit or 1)
        assert len(present) <= replicas
    assert sorted(view.pods) == list(range(replicas))
    assert [view.pods[n].revision for n in range(replicas)] == ["o"] * partition + ["n"] * (replicas - partition)
