"""Deployment: which ReplicaSets grow and shrink, by how much, in one step.

The steps are those of Kubernetes' controller, its peculiarities included, because a federated rollout relies on what a
member really does: counts are the sizes that ReplicaSets were told, availability is what they report, a paused or
resized Deployment spreads its pods in proportion without asking whether they are available, and a saturated new
ReplicaSet takes all from the old ones even under a pause.
"""

from collections.abc import Iterable
from fractions import Fraction

import msgspec
from msgspec.structs import replace


class SetView(msgspec.Struct, frozen=True):
    """A ReplicaSet of a Deployment. `desired` and `most` are what its annotations say: the size and the ceiling that
    the Deployment had when the ReplicaSet was last resized."""

    name: str
    size: int
    replicas: int = 0
    ready: int = 0
    available: int = 0
    born: int = 0  # orders ReplicaSets by age
    desired: int | None = None
    most: int | None = None


class DeploymentView(msgspec.Struct, frozen=True):
    """A Deployment, with its limits resolved; old ReplicaSets in any order."""

    replicas: int
    surge: int = 0
    unavailable: int = 1
    paused: bool = False
    recreate: bool = False
    new: SetView | None = None
    olds: tuple[SetView, ...] = ()
    old_pods: int = 0  # pods of old ReplicaSets that have not ended, terminating ones too

    @property
    def sets(self) -> tuple[SetView, ...]:
        """All ReplicaSets."""
        return (*self.olds, self.new) if self.new else self.olds

    @property
    def least(self) -> int:
        """How many pods must stay available."""
        return self.replicas - self.unavailable

    @property
    def most(self) -> int:
        """How many pods there may be."""
        return self.replicas + (0 if self.recreate else self.surge)


class Step(msgspec.Struct, frozen=True):
    """Sizes to set, by name of the ReplicaSet, or a new one to make."""

    sizes: tuple[tuple[str, int], ...] = ()
    create: int | None = None  # size of the new ReplicaSet

    def __bool__(self) -> bool:
        return bool(self.sizes) or self.create is not None


def decide(view: DeploymentView) -> Step:
    """Return the next step; none when there is nothing to do before something else happens."""
    if view.paused or _was_resized(view):
        return _scale(view)
    return _recreate(view) if view.recreate else _roll(view)


def _was_resized(view: DeploymentView) -> bool:
    return any(each.size > 0 and each.desired not in (None, view.replicas) for each in view.sets)


def _recreate(view: DeploymentView) -> Step:
    running = tuple((each.name, 0) for each in view.olds if each.size > 0)
    if running:
        return Step(running)
    if view.old_pods:
        return Step()
    if view.new is None:
        return Step(create=view.replicas)
    return Step(((view.new.name, view.replicas),)) if view.new.size != view.replicas else Step()


def _roll(view: DeploymentView) -> Step:
    total = sum(each.size for each in view.sets)
    new = view.new
    present = new.size if new else 0
    room = max(0, min(view.most - total, view.replicas - present))
    if new is None:
        return Step(create=room)
    if new.size > view.replicas:
        return Step(((new.name, view.replicas),))
    return Step(((new.name, new.size + room),)) if room else _shrink_old(view, new, total)


def _shrink_old(view: DeploymentView, new: SetView, total: int) -> Step:
    """Take from the old ReplicaSets: first what does not work anyway, then what the new pods make dispensable."""
    allowance = total - view.least - (new.size - new.available)
    if allowance <= 0:
        return Step()
    before = {each.name: each.size for each in view.olds}
    olds = sorted(view.olds, key=lambda each: each.born)
    cleaned, sound = _clean_up(olds, allowance)
    shrunk = _dispense(cleaned, sum(each.available for each in view.sets) - view.least) if sound else cleaned
    return Step(tuple((each.name, each.size) for each in shrunk if each.size != before[each.name]))


def _clean_up(olds: Iterable[SetView], allowance: int) -> tuple[list[SetView], bool]:
    """Remove unavailable old pods. A ReplicaSet with more available than it should have has not caught up: stop."""
    result: list[SetView] = []
    sound = True
    for each in olds:
        gone = 0
        if sound and allowance > 0 and each.size > 0:
            sound = each.available <= each.size
            gone = min(allowance, each.size - each.available) if sound else 0
        allowance -= gone
        result.append(replace(each, size=each.size - gone))
    return result, sound


def _dispense(olds: Iterable[SetView], spare: int) -> list[SetView]:
    result: list[SetView] = []
    for each in olds:
        gone = max(0, min(each.size, spare))
        spare -= gone
        result.append(replace(each, size=each.size - gone))
    return result


def _scale(view: DeploymentView) -> Step:
    """Follow a new number of replicas, without moving the rollout on."""
    active = [each for each in view.sets if each.size > 0]
    if len(active) <= 1:
        newest = max(view.olds, key=lambda each: each.born, default=None)
        only = active[0] if active else view.new or newest
        stale = only is not None and only.size > 0 and only.desired not in (None, view.replicas)
        return Step(((only.name, view.replicas),)) if only and (stale or only.size != view.replicas) else Step()
    new = view.new
    if new and new.size == new.desired == new.available == view.replicas:
        return Step(tuple((each.name, 0) for each in view.olds if each.size > 0))
    if view.recreate:
        return Step()
    return Step(
        tuple(
            (each.name, size)
            for each, size in _in_proportion(view, active)
            if size != each.size or (each.desired, each.most) != (view.replicas, view.most)
        )
    )


def _in_proportion(view: DeploymentView, active: list[SetView]) -> list[tuple[SetView, int]]:
    allowed = view.most if view.replicas > 0 else 0
    difference = allowed - sum(each.size for each in active)
    newer_first = -1 if difference > 0 else 1
    ordered = sorted(active, key=lambda each: (-each.size, newer_first * each.born))
    left = difference
    sizes: list[int] = []
    for each in ordered:
        share = _share(view, each)
        part = min(share, left) if difference > 0 else max(share, left)
        part = part if difference and left else 0
        left -= part
        sizes.append(each.size + part)
    sizes[0] = max(0, sizes[0] + left)  # what rounding left over goes to the largest
    return list(zip(ordered, sizes, strict=True))


def _share(view: DeploymentView, each: SetView) -> int:
    """Return by how much a ReplicaSet changes to keep its share of the whole."""
    if view.replicas == 0:
        return -each.size
    before = each.most or sum(one.replicas for one in view.sets)
    return _rounded(Fraction(each.size * view.most, before)) - each.size if before else 0


def _rounded(value: Fraction) -> int:
    return int(value + Fraction(1, 2))  # half away from zero: sizes are never negative
