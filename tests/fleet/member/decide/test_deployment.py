"""The steps of a Deployment, one by one, and then in all orders in which pods can come up."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from echelon.fleet.member.decide.deployment import DeploymentView, SetView, Step, decide
from tests.examples import examples


def a_set(
    name: str, size: int, available: int | None = None, *, born: int = 0, of: tuple[int, int] | None = None
) -> SetView:
    """Return a settled ReplicaSet; `of` is the size and the ceiling that it remembers."""
    up = size if available is None else available
    desired, most = of or (None, None)
    return SetView(name, size, size, up, up, born, desired, most)


# The limits (replicas, surge, unavailable); the old set (size, available); the new one, if it is there; the step.
ROLLING = [
    ((10, 3, 2), (10, 10), None, Step(create=3)),
    ((10, 0, 2), (10, 10), None, Step(create=0)),
    ((10, 3, 2), (10, 10), (3, 0), Step((("old", 8),))),
    ((10, 3, 2), (8, 8), (3, 0), Step((("new", 5),))),
    ((10, 3, 2), (8, 8), (5, 0), Step()),
    ((10, 3, 2), (8, 8), (5, 2), Step((("old", 6),))),
    ((10, 0, 2), (10, 10), (0, 0), Step((("old", 8),))),
    ((10, 0, 2), (8, 8), (0, 0), Step((("new", 2),))),
    ((4, 1, 0), (4, 4), (1, 0), Step()),
    ((4, 1, 0), (4, 4), (1, 1), Step((("old", 3),))),
    ((4, 1, 0), (0, 0), (4, 3), Step()),
    ((4, 1, 1), (4, 1), (1, 0), Step((("old", 3),))),  # what is down goes first, as far as the total allows
    ((3, 1, 0), (0, 0), (5, 5), Step((("new", 3),))),
]


@pytest.mark.parametrize(("limits", "old", "new", "step"), ROLLING)
def test_a_rolling_update_does_one_kind_of_thing_a_step(
    limits: tuple[int, int, int], old: tuple[int, int], new: tuple[int, int] | None, step: Step
) -> None:
    current = a_set("new", *new, born=2) if new else None
    assert decide(DeploymentView(*limits, new=current, olds=(a_set("old", *old),))) == step


def test_an_old_set_that_has_not_caught_up_stops_the_shrinking() -> None:
    behind = a_set("old", 2, 4)
    assert not decide(DeploymentView(4, 1, 0, new=a_set("new", 3, 3, born=2), olds=(behind,)))


def test_the_oldest_set_shrinks_first() -> None:
    olds = (a_set("b", 2, born=2), a_set("a", 2, born=1))
    step = decide(DeploymentView(4, 1, 1, new=a_set("new", 1, 1, born=3), olds=olds))
    assert step == Step((("a", 0),))


def test_a_paused_deployment_makes_nothing_of_a_new_template() -> None:
    assert not decide(DeploymentView(3, 1, 0, paused=True))
    assert not decide(DeploymentView(3, 1, 0, paused=True, olds=(a_set("old", 3, of=(3, 4)),)))


def test_a_paused_deployment_follows_its_size() -> None:
    step = decide(DeploymentView(5, 1, 0, paused=True, olds=(a_set("old", 3, of=(3, 4)),)))
    assert step == Step((("old", 5),))


def test_a_resize_in_the_middle_keeps_proportions_and_does_not_ask_for_availability() -> None:
    # From the specification: 8 old that are available and 5 new that are not; pausing without surge leaves 6 and 4.
    olds, new = (a_set("old", 8, of=(10, 13)),), a_set("new", 5, 0, born=2, of=(10, 13))
    step = decide(DeploymentView(10, 0, 2, paused=True, new=new, olds=olds))
    assert dict(step.sizes) == {"old": 6, "new": 4}


def test_growth_is_spread_too_and_the_rest_goes_to_the_largest() -> None:
    olds, new = (a_set("old", 8, of=(10, 13)),), a_set("new", 5, 5, born=2, of=(10, 13))
    step = decide(DeploymentView(20, 6, 2, new=new, olds=olds))
    assert dict(step.sizes) == {"old": 16, "new": 10}
    assert sum(dict(step.sizes).values()) == 26


def test_a_saturated_new_set_takes_all_even_under_a_pause() -> None:
    new = a_set("new", 4, born=2, of=(4, 5))
    step = decide(DeploymentView(4, 1, 0, paused=True, new=new, olds=(a_set("old", 1, of=(4, 5)),)))
    assert step == Step((("old", 0),))


def test_recreate_waits_until_the_last_old_pod_is_gone() -> None:
    view = DeploymentView(3, recreate=True, olds=(a_set("old", 3),), old_pods=3)
    assert decide(view) == Step((("old", 0),))
    emptied = replace(view, olds=(a_set("old", 0),))
    assert not decide(emptied)
    assert decide(replace(emptied, old_pods=0)) == Step(create=3)


@dataclass
class World:
    """A Deployment whose ReplicaSets obey at once, and whose pods come up when they like."""

    replicas: int
    surge: int
    unavailable: int
    sizes: dict[str, int]
    up: dict[str, int] = field(default_factory=dict)
    remembered: int = 0
    lowest: int = 0
    highest: int = 0

    def view(self) -> DeploymentView:
        def of(name: str) -> SetView:
            memory = (self.remembered, self.remembered + self.surge)
            return a_set(name, self.sizes[name], self.up[name], born=sorted(self.sizes).index(name), of=memory)

        names = sorted(self.sizes)
        new = of("new") if "new" in names else None
        return DeploymentView(
            self.replicas, self.surge, self.unavailable, new=new, olds=tuple(of(n) for n in names if n != "new")
        )

    def step(self) -> bool:
        step = decide(self.view())
        if step.create is not None:
            self.sizes["new"], self.up["new"] = step.create, 0
        for name, size in step.sizes:
            # A ReplicaSet takes those away first that are not available.
            self.up[name] = min(self.up[name], size)
            self.sizes[name] = size
        self.lowest = min(self.lowest, sum(self.up.values()))
        self.highest = max(self.highest, sum(self.sizes.values()))
        return bool(step)


@examples(300)
@given(st.data())
def test_a_rollout_stays_within_its_limits_and_ends(data: st.DataObject) -> None:
    replicas = data.draw(st.integers(0, 12))
    surge = data.draw(st.integers(0, 5))
    unavailable = min(replicas, data.draw(st.integers(0 if surge else 1, 6)))
    if replicas and not surge and not unavailable:
        unavailable = 1
    first = data.draw(st.integers(0, replicas))
    sizes = {"a": first, "b": replicas - first}
    world = World(replicas, surge, unavailable, sizes, remembered=replicas)
    world.up = {name: data.draw(st.integers(0, size)) for name, size in sizes.items()}
    start = sum(world.up.values())
    world.lowest, world.highest = start, replicas
    for _ in range(400):
        waiting = world.up.get("new", 0) < world.sizes.get("new", 0)
        if waiting and data.draw(st.booleans()):
            world.up["new"] += 1
        elif not world.step() and not waiting:
            break
        elif waiting and not decide(world.view()):
            world.up["new"] += 1
    assert world.sizes == {"a": 0, "b": 0, "new": replicas}
    assert world.up["new"] == replicas
    assert world.lowest >= min(start, replicas - unavailable)
    assert world.highest <= replicas + surge
