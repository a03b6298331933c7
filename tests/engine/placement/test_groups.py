"""Decision groups: their size, and who stays where. Scenarios are scripts, one phenomenon a file."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.engine.placement.groups import Group, NotAPercentage, group_size, regroup
from echelon.engine.placement.publish import (
    ClaimSlice,
    CreateSlice,
    DeleteSlice,
    Publication,
    SliceWrite,
    StampSlice,
    WriteEmptyList,
    WriteLabels,
    WriteStatus,
)
from tests.engine.placement.publishing import World, check_with_crashes, plan

SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    play(path.read_text())


def play(script: str) -> None:
    """Run a script. Each change is published, with a crash after every write; `and` joins it to the one before."""
    world, dirty = World(), True
    writes: tuple[str, ...] = ()
    for line in script.splitlines():
        verb, _, rest = line.partition("#")[0].strip().partition(" ")
        expectation = verb in ("expect", "sizes", "slices", "counts", "writes")
        if dirty and (expectation or (verb not in ("", "and") and world.members)):
            update = plan(world)
            world, writes, dirty = check_with_crashes(update), spoken(update.publication), False
        if expectation:
            assert seen(verb, world, writes) == normal(rest), line
        elif verb:
            world, dirty = changed(world, *(rest.strip().split(" ", 1) if verb == "and" else (verb, rest))), True


def changed(world: World, verb: str, rest: str = "") -> World:
    rest = rest.strip()
    match verb:
        case "add" | "label":
            group, _, clusters = rest.rpartition(":")
            return replace(world, members={**world.members, **dict.fromkeys(names(clusters), group.strip())})
        case "remove":
            gone = names(rest)
            return replace(world, members={c: group for c, group in world.members.items() if c not in gone})
        case "named":
            return replace(world, names=tuple(rest.split()), from_scratch=True)
        case "size":
            return replace(world, per_group=int(rest) if rest.isdigit() else rest, from_scratch=True)
        case "limit":
            return replace(world, limit=int(rest))
        case "strategy":
            return replace(world, strategy="All" if rest == "All" else "RollingUpdate")
        case "regroup":
            return replace(world, from_scratch=True)
    pytest.fail(f"unknown word in a scenario: {verb}")


def names(text: str) -> list[str]:
    """`a b c001..c003`: names, and ranges of them."""
    found = []
    for word in text.split():
        first, _, last = word.partition("..")
        stem, digits = re.fullmatch(r"(.*?)([0-9]*)", first).groups()  # type: ignore[union-attr]
        end = int(last.removeprefix(stem)) if last else 0
        found += [f"{stem}{n:0{len(digits)}}" for n in range(int(digits), end + 1)] if last else [word]
    return found


def seen(verb: str, world: World, writes: tuple[str, ...]) -> str:
    slices = {int(name.rpartition("-")[2]): one for name, one in world.slices.items()}
    groups: dict[tuple[int, str], list[str]] = {}
    for one in slices.values():
        groups.setdefault((one.group_index, one.group_name), []).extend(one.clusters)
    match verb:
        case "expect":
            found = [f"{index} {name}: {' '.join(sorted(each))}" for (index, name), each in sorted(groups.items())]
        case "slices":
            found = [f"{number}: {' '.join(one.clusters)}" for number, one in sorted(slices.items())]
        case "sizes":
            return " ".join(str(len(clusters)) for _, clusters in sorted(groups.items()))
        case "counts":
            return " ".join(f"{number}:{len(one.clusters)}" for number, one in sorted(slices.items()))
        case _:
            return ", ".join(writes)
    return normal(" | ".join(found))


def normal(text: str) -> str:
    return re.sub(r" ?: ?", ":", " ".join(text.split()))


def spoken(publication: Publication) -> tuple[str, ...]:
    def say(write: SliceWrite) -> str:
        match write:
            case CreateSlice(one):
                return f"create {one.name}"
            case WriteLabels(one):
                return f"labels {one.name}"
            case WriteStatus(name, _, surge):
                return f"surge {name}" if surge else f"status {name}"
            case DeleteSlice(name):
                return f"delete {name}"
            case ClaimSlice(name) | StampSlice(name) | WriteEmptyList(name):
                return f"touch {name}"

    return tuple(say(write).replace("p-decision-", "") for write in publication.writes)


@pytest.mark.parametrize(
    ("value", "total", "size"),
    [
        (None, 7, 7),
        (0, 7, 7),
        (-1, 7, 7),
        (3, 7, 3),
        (8, 7, 7),
        ("25%", 4, 1),
        ("25%", 3, 1),
        ("100%", 7, 7),
        ("150%", 7, 7),
        ("0%", 7, 7),
        ("-5%", 7, 7),
        ("50%", 0, 0),
        ("1e308%", 1000, 1000),
        ("12.5%", 8, 1),
        # Noise of floating point numbers that every version agrees on.
        *[("7%", 100, 8), ("14%", 100, 15), ("28%", 100, 29), ("55%", 100, 56), ("56%", 100, 57)],
        *[("7%", 200, 15), ("14%", 200, 29), ("28%", 200, 57), ("55%", 200, 111), ("56%", 200, 113)],
        *[("14%", 50, 8), ("28%", 50, 15), ("56%", 50, 29)],
    ],
)
def test_size_of_a_group(value: int | str | None, total: int, size: int) -> None:
    assert group_size(value, total) == size


@pytest.mark.parametrize("value", ["10", "", "%", "ten%", "10 %", " 10%", "1_0%", "nan%", "inf%", "1e400%", "10%%"])
def test_a_size_that_is_no_percentage(value: str) -> None:
    with pytest.raises(NotAPercentage) as caught:
        group_size(value, 10)
    assert str(caught.value) == f"{value} invalid type: string is not a percentage"


SELECTED = st.dictionaries(st.sampled_from([f"c{n}" for n in range(12)]), st.sampled_from(["", "canary", "west"]))


@given(SELECTED, st.integers(1, 13))
def test_without_history_sorted_names_are_cut(members: dict[str, str], size: int) -> None:
    cut = []
    for name in ("west", "canary", ""):
        clusters = sorted(cluster for cluster, group in members.items() if group == name)
        cut += [Group(name, tuple(clusters[at : at + size])) for at in range(0, len(clusters), size)]
    assert regroup((), members, ["west", "canary"], size) == (tuple(cut) or (Group(""),))


@given(SELECTED, SELECTED, st.integers(1, 13), st.integers(1, 13))
def test_who_can_stay_stays(before: dict[str, str], after: dict[str, str], old: int, new: int) -> None:
    history = regroup((), before, ["west", "canary"], old)
    groups = regroup(history, after, ["west", "canary"], new)
    for name in ("west", "canary", ""):
        was = [group.clusters for group in history if group.name == name]
        now = [group.clusters for group in groups if group.name == name] + [()] * len(was)
        for earlier, later in zip(was, now, strict=False):
            staying = sorted(cluster for cluster in earlier if after.get(cluster) == name)[:new]
            assert set(staying) <= set(later)


@given(SELECTED, SELECTED, st.integers(1, 13))
def test_a_history_that_fits_is_kept_as_it_is(before: dict[str, str], after: dict[str, str], size: int) -> None:
    groups = regroup(regroup((), before, ["west", "canary"], size), after, ["west", "canary"], size)
    assert regroup(groups, after, ["west", "canary"], size) == groups


def test_groups_of_a_name_that_is_gone_are_forgotten() -> None:
    assert regroup([Group("old", ("a",)), Group("", ("b",))], {"a": "", "b": ""}, [], 1) == (
        Group("", ("b",)),
        Group("", ("a",)),
    )
