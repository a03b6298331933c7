"""A placement's decisions on a model of the API server, and what must hold after every write to them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations, islice, pairwise
from random import Random
from zlib import crc32

from echelon.engine.placement.decisions import DecisionGroups
from echelon.engine.placement.groups import Group, group_size, regroup
from echelon.engine.placement.publish import (
    ClaimSlice,
    CreateSlice,
    DeleteSlice,
    Publication,
    SliceWrite,
    StampSlice,
    UpdateStrategy,
    WriteEmptyList,
    WriteLabels,
    WriteStatus,
    publish,
)
from echelon.engine.placement.slices import LIMIT, Slice, recall, reslice, spare_names

Slices = Mapping[str, Slice]
EXHAUSTIVE = 3  # writes of a batch of which all orders are tried


@dataclass(frozen=True)
class World:
    """What is selected and asked for, and the decision objects as they are stored.

    `overtaken` says that an update was not carried out to its end before the next change came.
    """

    members: Mapping[str, str] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    per_group: int | str | None = None
    strategy: UpdateStrategy = "RollingUpdate"
    limit: int = LIMIT
    from_scratch: bool = False
    overtaken: bool = False
    slices: Slices = field(default_factory=dict)

    @property
    def size(self) -> int:
        return group_size(self.per_group, len(self.members))


@dataclass(frozen=True)
class Update:
    """One plan: what there was, what is wanted, and the way from one to the other."""

    world: World
    groups: tuple[Group, ...]
    desired: tuple[Slice, ...]
    publication: Publication


def plan(world: World) -> Update:
    existing = tuple(world.slices.values())
    history = () if world.from_scratch else recall(existing).groups
    groups = regroup(history, world.members, world.names, world.size)
    desired = reslice("p", existing, groups, world.limit)
    return Update(world, groups, desired, published(world, desired))


def published(world: World, desired: tuple[Slice, ...]) -> Publication:
    existing = tuple(world.slices.values())
    spare = spare_names("p", {one.name for one in (*existing, *desired)})
    return publish(existing, desired, world.strategy, world.limit, spare)


def apply(slices: Slices, write: SliceWrite) -> Slices:
    """What the API server stores. A create drops the status; labels and status are written apart."""
    match write:
        case CreateSlice(one):
            assert one.name not in slices, "created twice"
            return {**slices, one.name: replace(one, clusters=())}
        case WriteLabels(one):
            return {**slices, one.name: replace(one, clusters=slices[one.name].clusters)}
        case WriteStatus(name, clusters):
            return {**slices, name: replace(slices[name], clusters=clusters)}
        case DeleteSlice(name):
            return {other: one for other, one in slices.items() if other != name}
        case ClaimSlice() | StampSlice() | WriteEmptyList():
            return slices


def prefixes(slices: Slices, writes: Iterable[SliceWrite]) -> Iterator[Slices]:
    yield slices
    for write in writes:
        slices = apply(slices, write)
        yield slices


def in_some_order(publication: Publication, random: Random) -> list[SliceWrite]:
    """All writes, those of each batch in an order that chance decides."""
    return [write for batch in publication.batches for write in random.sample(batch, len(batch))]


def mixed(publication: Publication) -> list[SliceWrite]:
    """All writes, those of each batch in an order that has nothing to do with their names; the same one every time."""
    return [
        write for batch in publication.batches for write in sorted(batch, key=lambda write: crc32(repr(write).encode()))
    ]


def steps(slices: Slices, publication: Publication) -> Iterator[tuple[Slices, Slices]]:
    """Every state that the writes can lead to, in whatever order those of a batch are made, and the one before it.

    Of a batch that is too large for all of its parts, some orders are taken instead.
    """
    for batch in publication.batches:
        if len(batch) <= EXHAUSTIVE:
            parts: dict[tuple[int, ...], Slices] = {(): slices}
            for count in range(1, len(batch) + 1):
                for part in combinations(range(len(batch)), count):
                    for last in part:
                        before = parts[tuple(number for number in part if number != last)]
                        parts[part] = apply(before, batch[last])
                        yield before, parts[part]
        else:
            for order in (batch, batch[::-1], mixed(Publication((batch,)))):
                yield from pairwise(prefixes(slices, order))
        *_, slices = prefixes(slices, batch)


def carried_out(update: Update) -> World:
    """The world after an update of which every state kept the promises."""
    check_stages(update.publication)
    final = update.world.slices
    check_state(update, final)
    for before, state in steps(update.world.slices, update.publication):
        check_state(update, state)
        if update.world.strategy == "RollingUpdate" or not update.world.overtaken:
            check_in_sight(update, before, state)
        final = state
    check_end(update, final)
    settled = replace(update.world, slices=final, from_scratch=False, overtaken=False)
    again = plan(settled)
    assert again.publication == Publication(), "not silent at rest"
    return settled


def check_with_crashes(update: Update, depth: int = 1) -> World:
    """The same, and the same again from every state in which a crash could leave the decisions."""
    for state in crashes(update):
        resumed = plan(replace(update.world, slices=state))
        if depth > 1:
            check_with_crashes(resumed, depth - 1)
        for later in prefixes(state, mixed(resumed.publication)):
            check_never_absent(update, later)
        end = carried_out(resumed)
        check_causes(update.world, end.slices)
        same = published(replace(update.world, slices=state), update.desired)
        for later in prefixes(state, mixed(same)):
            check_never_absent(update, later)
            check_no_blend(later)
        assert later == {one.name: one for one in update.desired}, "the same plan again does not converge"
    check_causes(update.world, {one.name: one for one in update.desired})
    return carried_out(update)


def crashes(update: Update) -> Iterator[Slices]:
    """States in which a crash could leave the decisions."""
    return islice(prefixes(update.world.slices, mixed(update.publication)), 1, None)


def check_stages(publication: Publication) -> None:
    for batch in publication.batches:
        assert batch, "an empty batch"
        names = [write.slice.name if isinstance(write, CreateSlice | WriteLabels) else write.name for write in batch]
        assert len(names) == len(set(names)), "a batch writes an object twice"


def check_end(update: Update, final: Slices) -> None:
    assert final == {one.name: one for one in update.desired}
    listed = [cluster for one in final.values() for cluster in one.clusters]
    assert sorted(listed) == sorted(update.world.members)
    assert all(len(one.clusters) <= update.world.limit for one in final.values())
    by_index = {one.group_index: one.group_name for one in final.values()}
    assert sorted(by_index) == list(range(len(update.groups))), "indexes have gaps"
    assert [by_index[index] for index in sorted(by_index)] == [group.name for group in update.groups]
    read = DecisionGroups.from_slices(final.values())
    assert [tuple(sorted(clusters)) for clusters in read.groups.values()] == [group.clusters for group in update.groups]
    for group in update.groups:
        assert len(group.clusters) <= max(update.world.size, 1)
        assert all(update.world.members[cluster] == group.name for cluster in group.clusters)


def check_state(update: Update, state: Slices) -> None:
    check_never_absent(update, state)
    check_no_blend(state)
    if update.world.strategy == "RollingUpdate" or not update.world.overtaken:
        check_not_early(update, state)
    check_labels_fit(update, state)
    wanted = set(update.world.members)
    for name, one in state.items():
        if one.clusters != (update.world.slices[name].clusters if name in update.world.slices else ()):
            assert wanted.issuperset(one.clusters), "a write lists a cluster that is no longer selected"


def check_never_absent(update: Update, state: Slices) -> None:
    if update.world.strategy == "RollingUpdate":
        before = {cluster for one in update.world.slices.values() for cluster in one.clusters}
        listed = {cluster for one in state.values() for cluster in one.clusters}
        assert before.intersection(update.world.members) <= listed, "a cluster vanished"


def check_no_blend(state: Slices) -> None:
    seen: dict[tuple[str, int], tuple[str, int]] = {}
    for one in state.values():
        if one.clusters:
            assert seen.setdefault((one.group_name, one.group_index), one.group) == one.group, (
                "two groups look like one"
            )


def check_not_early(update: Update, state: Slices) -> None:
    before, now, after = (
        DecisionGroups.from_slices(slices) for slices in (update.world.slices.values(), state.values(), update.desired)
    )
    for cluster in before.clusters & now.clusters & after.clusters:
        seen = [groups.group_of(cluster) for groups in (before, now, after)]
        was, shown, will = (key.index for key in seen if key)
        assert shown >= min(was, will), f"{cluster} is shown too early"


def check_labels_fit(update: Update, state: Slices) -> None:
    legitimate = {
        (cluster, one.group) for one in (*update.world.slices.values(), *update.desired) for cluster in one.clusters
    }
    for one in state.values():
        for cluster in one.clusters:
            assert (cluster, one.group) in legitimate, f"{cluster} is shown under the label of another group"


def check_in_sight(update: Update, before: Slices, after: Slices) -> None:
    lost = in_sight(before) - in_sight(after)
    if update.world.strategy == "All":  # which may lose what goes round in circles
        lost &= {cluster for one in after.values() for cluster in one.clusters}
    assert not lost & update.world.members.keys(), "hidden by a gap, or by two names at an index"


def in_sight(slices: Slices) -> set[str]:
    """What upstream's reader finds: it gives each index one name, counts the indexes, and looks at none beyond that."""
    names: dict[int, set[str]] = {}
    for one in slices.values():
        names.setdefault(one.group_index, set()).add(one.group_name)
    found = (one for one in slices.values() if one.group_index < len(names) and len(names[one.group_index]) == 1)
    return {cluster for one in found for cluster in one.clusters}


def check_causes(world: World, final: Slices) -> None:
    """A cluster may change its group if it matches another name, has no room, or all are grouped from scratch."""
    if world.from_scratch:
        return
    remembered = recall(world.slices.values()).groups
    before, after = positions(remembered), positions(recall(final.values()).groups)
    for group in remembered:
        staying = sorted(cluster for cluster in group.clusters if world.members.get(cluster) == group.name)
        for cluster in staying[: world.size]:
            assert after[cluster] == before[cluster], f"{cluster} changed its group without cause"


def positions(groups: Iterable[Group]) -> dict[str, tuple[str, int]]:
    """For each cluster the name of its group, and how many groups of that name are older."""
    seen: dict[str, int] = {}
    found = {}
    for group in groups:
        rank = seen[group.name] = seen.get(group.name, -1) + 1
        found.update(dict.fromkeys(group.clusters, (group.name, rank)))
    return found
