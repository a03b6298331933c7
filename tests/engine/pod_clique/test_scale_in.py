"""Which pods and which replicas go when there are too many."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.engine.plan import Delete
from echelon.engine.pod_clique.names import STANDALONE, CliqueKey
from echelon.engine.pod_clique.pod_facts import PodFacts
from echelon.engine.pod_clique.scale_in import excess_pods, ranked
from echelon.engine.pod_clique.set_spec import ON_DELETE, ROLLING_RECREATE, CliqueSpec
from echelon.engine.pod_clique.shape import ExpectedClique
from echelon.engine.pod_clique.standing import Templates, clique_ledger, clique_standing
from echelon.engine.pod_clique.template import CliqueTemplate
from echelon.engine.pod_clique.view import read_clique
from tests.engine.pod_clique.oracle import Oracle
from tests.engine.pod_clique.test_on_delete import CLIQUE, GROUP, POD, SET
from tests.engine.pod_clique.world import (
    BEGIN,
    World,
    clique,
    edit,
    group,
    image,
    is_ready,
    names,
    pod_clique_set,
    scale,
    world_of,
)

# Three revisions: h1 is the oldest, h3 the present one; nobody knows h0.
TEMPLATES = Templates({"a": frozenset(("h3",))}, {("a", "h1"): 1, ("a", "h2"): 2, ("a", "h3"): 3})


def pod(name: str, found: str, *, scheduled: bool = True, ready: bool = True, age: int = 0) -> PodFacts:
    return PodFacts(
        name=name,
        uid=name,
        hash=found,
        scheduled=scheduled,
        ready=ready,
        created=BEGIN - timedelta(seconds=age),
        index=int(name[1:]),
    )


def order(pods: list[PodFacts], strategy: str) -> list[str]:
    return [each.name for each in ranked(pods, "a", TEMPLATES, on_delete=strategy == ON_DELETE)]


MIXED = [
    pod("p0", "h3", scheduled=False, ready=False),
    pod("p1", "h3", ready=False),
    pod("p2", "h3", age=5),
    pod("p3", "h3", age=1),
    pod("p4", "h2"),
    pod("p5", "h1"),
    pod("p6", "h1", ready=False),
    pod("p7", "h2", scheduled=False, ready=False),
    pod("p8", "h0"),
]


def test_under_on_delete_three_revisions_go_outdated_first_whatever_their_state() -> None:
    assert order(MIXED, ON_DELETE) == ["p7", "p6", "p8", "p5", "p4", "p0", "p1", "p3", "p2"]


def test_under_rolling_recreate_what_does_not_serve_goes_first_and_then_the_oldest_template() -> None:
    """An updated pod that is not ready goes before an outdated one that is."""
    assert order(MIXED, ROLLING_RECREATE) == ["p7", "p0", "p6", "p1", "p8", "p5", "p4", "p3", "p2"]


@pytest.mark.parametrize("strategy", [ON_DELETE, ROLLING_RECREATE])
def test_two_different_outdated_templates_have_one_order_whichever_comes_first(strategy: str) -> None:
    """Upstream: each of two outdated pods called itself the smaller one, so the order depended on the input."""
    assert order(MIXED, strategy) == order(MIXED[::-1], strategy)


def test_ties_are_broken_by_youth_and_then_by_name() -> None:
    pods = [pod("p1", "h1", age=3), pod("p2", "h1", age=1), pod("p4", "h1", age=1), pod("p3", "h1", age=1)]
    assert order(pods, ON_DELETE) == ["p2", "p3", "p4", "p1"]


PODS = st.lists(
    st.builds(
        pod,
        st.just("p0"),
        st.sampled_from(["h0", "h1", "h2", "h3"]),
        scheduled=st.booleans(),
        ready=st.booleans(),
        age=st.integers(0, 3),
    ),
    max_size=8,
)


@given(PODS, st.integers(0, 8), st.integers(0, 8), st.booleans())
def test_so_many_go_as_are_too_many_and_the_floor_holds(
    found: list[PodFacts], replicas: int, minimum: int, on_delete: bool
) -> None:
    pods = [
        PodFacts(**{f: getattr(p, f) for f in p.__struct_fields__} | {"name": f"p{n}"}) for n, p in enumerate(found)
    ]
    spec = CliqueSpec("a", "a", 1, minimum, CliqueTemplate({}, {}, {}), "h3")
    wanted = ExpectedClique(CliqueKey(0, "", STANDALONE, "a"), "w-0-a", spec, replicas, "w-0")
    body = {
        "metadata": {"name": "w-0-a", "labels": {"grove.io/pod-template-hash": "h3"}},
        "spec": {"roleName": "a", "podSpec": {"containers": []}, "replicas": replicas, "minAvailable": minimum},
    }
    standing = clique_standing(wanted, read_clique(body, pods), TEMPLATES.current["a"])
    budget = clique_ledger(standing, datetime.now(tz=BEGIN.tzinfo))
    gone = excess_pods(standing, TEMPLATES, budget, on_delete=on_delete)
    assert len(gone) == max(0, len(pods) - replicas)
    kept = [each for each in pods if each not in gone]
    ready = sum(each.ready for each in pods)
    assert sum(each.ready for each in kept) >= min(ready, minimum, replicas)
    if on_delete and all(each.ready for each in pods):
        assert not (any(each.hash == "h3" for each in gone) and any(each.hash != "h3" for each in kept)), (
            "outdated first"
        )


def versions(world: World) -> None:
    """Bring a clique of four pods to three versions, under OnDelete."""
    for version in ("v2", "v3"):
        edit(world, "a", version)
        world.settle(3)
        world.delete(POD, names(each for each in world.live("w-0-a") if image(each) == "v1")[0])
        world.settle(12)


def test_outdated_first_with_three_revisions_mixed_readiness_at_the_floor() -> None:
    """v1 v1 v2 v3, of which one v1 and the v3 are not ready; minAvailable 2, so both ready ones have to stay."""
    world = world_of(pod_clique_set([clique("a", 4, 2)], strategy=ON_DELETE, terminationDelay="9h"))
    oracle = Oracle(world)
    versions(world)
    assert sorted(image(each) for each in world.live("w-0-a")) == ["v1", "v1", "v2", "v3"]
    sick = [next(each for each in world.live("w-0-a") if image(each) == version) for version in ("v1", "v3")]
    for each in sick:
        world.crash(each["metadata"]["name"])
        world.frozen.add(each["metadata"]["name"])
    world.settle(5)
    scale(world, CLIQUE, "w-0-a", 2)
    world.settle(10)
    kept = world.live("w-0-a")
    assert sorted(image(each) for each in kept) == ["v1", "v2"], "an outdated ready pod was passed over"
    assert all(is_ready(each) for each in kept)
    assert not oracle.faults


def test_outdated_first_with_three_revisions_when_all_are_ready() -> None:
    world = world_of(pod_clique_set([clique("a", 4, 1)], strategy=ON_DELETE))
    versions(world)
    left = []
    for size in (3, 2, 1):
        scale(world, CLIQUE, "w-0-a", size)
        world.settle(10)
        left.append(sorted(image(each) for each in world.live("w-0-a")))
    assert left == [["v1", "v2", "v3"], ["v2", "v3"], ["v3"]]


def test_scale_in_brings_no_replacements_and_pods_that_are_going_are_not_counted_again() -> None:
    world = world_of(pod_clique_set([clique("a", 5, 1)]), ends_in=30)
    scale(world, CLIQUE, "w-0-a", 3)
    made = len(world.made)
    world.settle(20)
    assert len(world.deleted) == 2
    assert len(world.made) == made
    assert len(world.live("w-0-a")) == 3


def test_a_group_loses_its_highest_replicas_with_a_hole_too() -> None:
    """Upstream: with replicas 0, 2 and 3, a scale-in to one left 0 and 3."""
    world = world_of(pod_clique_set([clique("b", 1)], [group("sg", ["b"], 4, 1)]))
    scale(world, GROUP, "w-0-sg", 1)
    world.delete(CLIQUE, "w-0-sg-1-b")
    world.settle(15)
    assert list(world.of(CLIQUE)) == ["w-0-sg-0-b"]
    assert set(world.of("PodGang")) == {"w-0"}
    assert set(world.of(POD)) == set(names(world.live("w-0-sg-0-b")))


def test_a_group_never_goes_by_age_of_templates() -> None:
    world = world_of(pod_clique_set([clique("b", 1)], [group("sg", ["b"], 3, 1)], strategy=ON_DELETE))
    edit(world, "b", "v2")
    world.settle(3)
    world.delete(POD, names(world.live("w-0-sg-2-b"))[0])
    world.settle(10)
    scale(world, GROUP, "w-0-sg", 2)
    world.settle(10)
    assert sorted(world.of(CLIQUE)) == ["w-0-sg-0-b", "w-0-sg-1-b"]
    assert {image(each) for each in world.of(POD).values()} == {"v1"}


def test_a_replica_of_a_group_that_the_floor_needs_waits_and_somebody_is_told() -> None:
    world = world_of(pod_clique_set([clique("b", 1)], [group("sg", ["b"], 3, 2)], terminationDelay="9h"))
    oracle = Oracle(world)
    name = names(world.live("w-0-sg-0-b"))[0]
    world.crash(name)
    world.frozen.add(name)
    world.settle(3)
    scale(world, GROUP, "w-0-sg", 2)
    world.settle(10)
    assert "w-0-sg-2-b" in world.of(CLIQUE)
    assert "w-0-sg-0" in world.of("PodGang"), "its gang stays with it"
    assert len(world.told("ScaleInHeld")) == 1
    assert world.condition(GROUP, "w-0-sg", "ScaleInHeld") is not None
    world.frozen.clear()
    world.settle(15)
    assert "w-0-sg-2-b" not in world.of(CLIQUE)
    assert world.condition(GROUP, "w-0-sg", "ScaleInHeld") is None
    assert not oracle.faults


def test_a_set_loses_its_highest_replicas_with_all_that_belongs_to_them() -> None:
    world = world_of(pod_clique_set([clique("a", 1), clique("b", 1)], [group("sg", ["b"], 2, 1)], replicas=3))
    world.patch(SET, "w", {"spec": {"replicas": 1}})
    world.settle(10)
    for kind in (CLIQUE, GROUP, "PodGang", POD, "Service"):
        assert all(name.startswith("w-0") for name in world.of(kind)), kind
        assert world.of(kind)


@pytest.mark.parametrize(
    ("kind", "name", "fewer", "more"), [(CLIQUE, "w-0-a", 3, 4), (GROUP, "w-0-g", 1, 2), (SET, "w", 1, 2)]
)
@pytest.mark.parametrize("strategy", [ON_DELETE, ROLLING_RECREATE])
def test_nothing_goes_for_a_size_that_is_not_the_present_one(
    strategy: str, kind: str, name: str, fewer: int, more: int
) -> None:
    """A controller that starts may list sizes from a replica that lags, and pods and cliques from one that does not."""
    world = world_of(pod_clique_set([clique("a", 3, 2), clique("b", 1)], [group("g", ["b"])], strategy=strategy))
    world.settle(12)
    earlier = world.get(kind, name)
    scale(world, kind, name, more)
    world.settle(12)
    there = {key for key in world.store if key[0] in (POD, CLIQUE)}
    assert earlier["spec"]["replicas"] == fewer

    world.forget()
    world.reconcile({**world.store, (kind, name): earlier})
    world.settle(12)
    assert {key for key in world.store if key[0] in (POD, CLIQUE)} == there
    assert not world.deleted
    scale(world, kind, name, fewer)
    world.settle(12)
    assert {key for key in world.store if key[0] in (POD, CLIQUE)} < there


def test_too_many_that_are_nobodys_news_go_too() -> None:
    """The status has told of the size and of the pods already, and is not written: the deletion goes all the same."""
    world = world_of(pod_clique_set([clique("a", 3, 2)], strategy=ON_DELETE))
    world.settle(12)
    world.refuse = lambda write: isinstance(write, Delete)
    scale(world, CLIQUE, "w-0-a", 2)
    for _ in range(3):
        last = world.reconcile()
    assert last.status is None
    assert len(world.live("w-0-a")) == 3
    world.refuse = lambda _: False
    world.settle(12)
    assert len(world.live("w-0-a")) == 2
