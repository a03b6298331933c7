"""The steps of a CloneSet, one by one, and then in all orders in which pods can come up."""

from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.fleet.member.decide.clone_set import CloneSetView, Step, decide, promoted, status
from echelon.fleet.member.decide.pods import PodView
from tests.examples import examples

NOW = 1000.0


def pods(text: str) -> tuple[PodView, ...]:
    """Read pods: `o` and `n` for old and new, in capitals when ready, `!` behind one that is marked."""
    made: list[PodView] = []
    for letter in text:
        if letter == "!":
            made[-1] = replace_pod(made[-1], condemned=True)
            continue
        ready = NOW - 60 if letter.isupper() else None
        made.append(
            PodView("ns", f"{letter}{len(made)}", f"u{len(made)}", "cs", letter.lower(), "node", "Running", ready)
        )
    return tuple(made)


def replace_pod(pod: PodView, **changes: object) -> PodView:
    fields = {name: getattr(pod, name) for name in pod.__struct_fields__} | changes
    return PodView(**fields)


def a_view(text: str, replicas: int, *, partition: int = 0, unavailable: int = 1, surge: int = 0) -> CloneSetView:
    return CloneSetView(replicas, partition, unavailable, surge, pods(text), "n", "o", NOW)


STEPS: list[tuple[Any, ...]] = [
    # pods, replicas, partition, unavailable, surge, step
    ("", 3, 0, 1, 0, Step(create_new=3)),
    ("", 3, 2, 1, 0, Step(create_old=2, create_new=1)),
    ("OOO", 3, 0, 1, 0, Step(mark=("O2",))),
    ("OOO!", 3, 0, 1, 0, Step(delete=("O2",))),
    ("OO", 3, 0, 1, 0, Step(create_new=1)),
    ("OOn", 3, 0, 1, 0, Step()),  # one is down already
    ("OON", 3, 0, 1, 0, Step(mark=("O1",))),
    ("OON", 3, 2, 1, 0, Step()),  # the partition holds
    ("OOOOO", 5, 0, 2, 0, Step(mark=("O4", "O3"))),
    ("OOO", 3, 0, 0, 1, Step(create_new=1)),  # surge comes first
    ("OOOn", 3, 0, 0, 1, Step()),
    ("OOON", 3, 0, 0, 1, Step(mark=("O2",))),
    ("OOoO!", 3, 0, 1, 0, Step(delete=("O3",))),
    ("oOO", 3, 0, 1, 0, Step(mark=("o0",))),  # to replace what is down costs nothing
    ("NNNN", 3, 0, 1, 0, Step(delete=("N3",))),
    ("OONN", 3, 1, 1, 0, Step(delete=("O1",))),  # beyond the partition first
    ("oN!", 2, 0, 1, 0, Step()),  # a ready one stays while the other is down
]


@pytest.mark.parametrize(("text", "limits", "step"), [(text, limits, step) for text, *limits, step in STEPS])
def test_a_clone_set_does_one_kind_of_thing_a_step(text: str, limits: list[int], step: Step) -> None:
    replicas, partition, unavailable, surge = limits
    view = a_view(text, replicas, partition=partition, unavailable=unavailable, surge=surge)
    decided = decide(view)
    same = (len(decided.mark), len(decided.delete), decided.create_old, decided.create_new)
    assert same == (len(step.mark), len(step.delete), step.create_old, step.create_new)
    assert {name[0] for name in decided.mark + decided.delete} == {name[0] for name in step.mark + step.delete}


def test_a_paused_clone_set_updates_nothing_but_keeps_its_size() -> None:
    assert not decide(replace(a_view("OOO", 3, surge=0), paused=True))
    assert decide(replace(a_view("OO", 3), paused=True)) == Step(create_new=1)


def test_after_the_promotion_missing_pods_are_new_whatever_the_partition_says() -> None:
    view = replace(a_view("NN", 3, partition=3), current_revision="n")
    assert decide(view) == Step(create_new=1)


def test_all_new_is_enough_for_the_promotion() -> None:
    assert promoted(a_view("nNn", 3))
    assert not promoted(a_view("nNO", 3))
    assert not promoted(a_view("nN", 3))


def test_creation_is_throttled_by_the_scale_strategy() -> None:
    view = replace(a_view("nn", 10), creation_limit=3)
    assert decide(view) == Step(create_new=1)


def test_the_user_names_pods_to_delete() -> None:
    view = replace(a_view("NNN", 3), named=frozenset({"N1"}))
    assert decide(view) == Step(delete=("N1",))


def test_the_status_counts_by_revision() -> None:
    said = status(a_view("OnNO", 4, partition=2), 7, "app=web", {})
    assert said["replicas"] == 4
    assert (said["updatedReplicas"], said["updatedReadyReplicas"], said["readyReplicas"]) == (2, 1, 3)
    assert (said["expectedUpdatedReplicas"], said["observedGeneration"]) == (2, 7)
    assert (said["currentRevision"], said["updateRevision"]) == ("o", "n")


@examples(300)
@given(st.data())
def test_an_update_stays_within_its_limits_and_stops_at_the_partition(data: st.DataObject) -> None:
    replicas = data.draw(st.integers(1, 10))
    surge = data.draw(st.integers(0, 4))
    unavailable = data.draw(st.integers(0 if surge else 1, 5))
    partition = data.draw(st.integers(0, replicas))
    view = a_view("O" * replicas, replicas, partition=partition, unavailable=unavailable, surge=surge)
    numbers = count(100)
    for _ in range(300):
        starting = [pod for pod in view.pods if not pod.ready]
        step = decide(view)
        if starting and (not step or data.draw(st.booleans())):
            chosen = data.draw(st.sampled_from(starting)).name
            view = replace(
                view,
                pods=tuple(replace_pod(p, ready_since=NOW - 60) if p.name == chosen else p for p in view.pods),
            )
            continue
        if not step:
            break
        before = sum(pod.ready for pod in view.pods)
        kept = [
            replace_pod(p, condemned=True) if p.name in step.mark else p for p in view.pods if p.name not in step.delete
        ]
        made = ["o"] * step.create_old + ["n"] * step.create_new
        kept += [PodView("ns", f"{r}{next(numbers)}", "u", "cs", r, "node", "Running") for r in made]
        view = replace(view, pods=tuple(kept))
        ready = sum(pod.ready for pod in kept)
        assert ready >= min(before, replicas - unavailable)
        assert len(kept) <= replicas + surge
        assert sum(pod.revision == "n" for pod in kept) <= replicas - partition
    assert len(view.pods) == replicas
    assert sum(pod.revision == "o" for pod in view.pods) == partition
    assert all(pod.ready for pod in view.pods)
