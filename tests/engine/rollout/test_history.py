"""Stored revisions: a history to go back in."""

from datetime import timedelta

import pytest

from echelon.api.times import format_time
from echelon.engine.rollout.history import LIMIT, RevisionHistory, load
from echelon.engine.rollout.stored_revision import CAUSE_ANNOTATION, StoredRevision
from tests.engine.rollout.notation import NOW
from tests.engine.work_set.world import World


def stored(number: int, name: str, hour: int | None = None) -> StoredRevision:
    completed = "" if hour is None else format_time(NOW + timedelta(hours=hour))
    return StoredRevision(name, "", "", number, name, completed, {})


def history(present: str, *kept: tuple[int, str, int | None], limit: int | None = None) -> RevisionHistory:
    """Revisions by number, hash and the hour in which they were completed."""
    return load([stored(*each) for each in kept], present, limit)


@pytest.mark.parametrize(
    ("kept", "number"),
    [
        ((), 1),
        (((1, "a", None),), 1),
        (((1, "b", None),), 2),
        (((1, "a", None), (2, "b", None)), 3),  # back to an older one: it becomes the newest
        (((7, "b", None), (9, "a", None)), 9),
        (((4, "a", None), (4, "b", None)), 5),
    ],
)
def test_the_present_revision_has_the_highest_number(
    kept: tuple[tuple[int, str, int | None], ...], number: int
) -> None:
    assert history("a", *kept).number == number


def test_the_present_revision_may_not_be_stored_yet() -> None:
    assert history("a", (1, "b", None)).present is None
    assert history("a", (1, "a", None)).present == stored(1, "a")


def test_an_abort_goes_back_to_what_was_completed_last() -> None:
    kept = [(1, "a", 1), (2, "b", 5), (3, "c", 2), (4, "d", None), (5, "e", 9)]
    assert history("e", *kept).completed == stored(2, "b", 5)
    assert history("e", (4, "d", None), (5, "e", 9)).completed is None


def test_the_oldest_go_but_not_the_present_nor_the_one_to_go_back_to() -> None:
    kept = [(number, f"r{number}", 1 if number == 1 else None) for number in range(1, 14)]
    gone = history("r2", *kept).obsolete
    assert [one.number for one in gone] == [3, 4, 5]
    assert len(kept) - len(gone) == LIMIT


def test_what_is_in_use_stays_however_old_it_is() -> None:
    kept = [stored(number, f"r{number}") for number in range(1, 14)]
    gone = load(kept, "r13", in_use={"r1", "r4"}).obsolete
    assert [one.number for one in gone] == [2, 3, 5]


def test_nothing_goes_within_the_limit() -> None:
    assert history("r1", *((number, f"r{number}", None) for number in range(1, 11))).obsolete == ()


def test_a_limit_that_is_too_small_keeps_what_is_needed() -> None:
    kept = history("c", (1, "a", 1), (2, "b", None), (3, "c", None), limit=1)
    assert [one.revision for one in kept.obsolete] == ["b"]


def causes(world: World) -> list[str | None]:
    """Return why each stored revision was wanted, oldest first."""
    by_number = sorted(world.revisions.values(), key=lambda each: int(each["revision"]))
    return [each["metadata"].get("annotations", {}).get(CAUSE_ANNOTATION) for each in by_number]


def test_a_revision_is_stored_with_its_cause_also_if_that_is_told_later() -> None:
    world = World.of([("", ["a"])])
    world.annotations[CAUSE_ANNOTATION] = "first try"
    world.settle()
    assert causes(world) == ["first try"]
    world.upgrade("2")
    world.settle()
    world.annotations[CAUSE_ANNOTATION] = "second try"  # as with kubectl annotate
    world.settle()
    assert causes(world) == ["first try", "second try"]
    del world.annotations[CAUSE_ANNOTATION]
    world.settle()
    assert causes(world) == ["first try", None]


def test_a_cause_is_cut_and_written_once() -> None:
    world = World.of([("", ["a"])])
    world.annotations[CAUSE_ANNOTATION] = "x" * 5000
    world.settle()
    [stored_cause] = causes(world)
    assert len(stored_cause or "") == 1000
    versions = world.versions
    world.settle()
    assert world.versions == versions
