"""What holds for plans of any work set: a crash after any write, and any state of the world."""

from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from echelon.engine.plan import Delete
from echelon.engine.rollout import control
from tests.engine.work_set.world import PlacementState, World, flat, per_group, progressive, template, writes_of
from tests.examples import examples

CLUSTERS = [f"c{number}" for number in range(6)]
STRATEGIES = st.one_of(
    st.just({"type": "All"}),
    st.builds(
        lambda size, failures: progressive(maxConcurrency=size, maxFailures=failures),
        st.integers(1, 3),
        st.integers(0, 2),
    ),
    st.builds(lambda failures: per_group(maxFailures=failures), st.integers(0, 2)),
    st.just(progressive(maxConcurrency=2, mandatoryDecisionGroups=[{"groupIndex": 0}], progressDeadline="1m")),
)
REPORTS = st.sampled_from([None, {}, {"progressing": "True"}, {"degraded": "True"}, {"applied": "False"}])


def groups_of(draw: st.DrawFn) -> list[tuple[str, list[str]]]:
    homes = draw(st.lists(st.integers(-1, 2), min_size=len(CLUSTERS), max_size=len(CLUSTERS)))
    return [("", [c for c, home in zip(CLUSTERS, homes, strict=True) if home == index]) for index in range(3)]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Make a world in the middle of something."""
    world = World.of(groups_of(draw), draw(STRATEGIES), labels=draw(st.sampled_from([{}, {"team": "x"}])))
    if draw(st.booleans()):
        world.placements["q"] = PlacementState(groups_of(draw))
        world.spec["placementRefs"].append({"name": "q", "rolloutStrategy": draw(STRATEGIES)})
    for cluster in CLUSTERS:
        for name in draw(st.lists(st.sampled_from(["web", "web1", "web2"]), unique=True, max_size=2)):
            placement = draw(st.sampled_from(["p", "q", "old", ""]))
            world.add_work(cluster, name, draw(st.sampled_from(["0", "1"])), placement)
            if (report := draw(REPORTS)) is not None:
                world.report(cluster, **report)
    if draw(st.booleans()):
        world.annotations[control.PAUSED] = "true"
    for state in world.placements.values():
        state.settled = draw(st.booleans())
    world.wait(draw(st.sampled_from([0, 59, 61])))
    return world


def shape(world: World) -> dict[object, object]:
    """Return what matters of a world: which works there are, and what they hold."""
    return {
        "works": {key: (work["spec"], work["metadata"]["labels"]) for key, work in world.works.items()},
        "revisions": sorted(world.revisions),
        "conditions": {each.type: (each.status, each.reason) for each in world.told().conditions},
    }


@examples(40)
@given(worlds())
def test_a_crash_after_any_write_leads_to_the_same_world(world: World) -> None:
    whole = deepcopy(world)
    count = len(list(flat(whole.plan())))
    whole.settle()
    for writes in range(count):
        crashed = deepcopy(world)
        crashed.step(writes)
        crashed.settle()
        assert shape(crashed) == shape(whole)


@examples(60)
@given(worlds())
def test_a_plan_that_was_carried_out_leaves_nothing_to_do(world: World) -> None:
    world.settle()
    world.wait(0.001)
    assert world.plan().empty


@examples(100)
@given(worlds())
def test_no_cluster_loses_its_last_work_on_decisions_that_are_not_settled(world: World) -> None:
    found = world.plan()
    named = {ref["name"] for ref in world.spec["placementRefs"]}
    placements = [state for name, state in world.placements.items() if name in named]
    selected = {cluster for state in placements for _, clusters in state.groups for cluster in clusters}
    leaving: dict[str, int] = {}
    for deletion in writes_of(found, Delete):
        leaving[deletion.namespace] = leaving.get(deletion.namespace, 0) + 1
    for cluster, count in leaving.items():
        left = sum(at == cluster for at, _ in world.works) - count
        assert left == 1 or (cluster not in selected and all(state.settled for state in placements))


@examples(100)
@given(worlds())
def test_no_more_than_allowed_are_in_flight_by_what_was_started(world: World) -> None:
    strategy = world.spec["placementRefs"][0]["rolloutStrategy"]
    if strategy["type"] != "Progressive" or len(world.placements) > 1:
        return
    settings_ = strategy["progressive"]
    before = in_flight(world)
    world.step()
    after = in_flight(world)
    # A mandatory group is taken as a whole.
    if "mandatoryDecisionGroups" not in settings_:
        assert len(after) <= max(settings_["maxConcurrency"], len(before))
    if control.PAUSED in world.annotations:
        assert after <= before


def in_flight(world: World) -> set[str]:
    """Return the decided clusters that have the content and have not said that they are done."""
    decided = {cluster for _, clusters in world.placements["p"].groups for cluster in clusters}
    kept = {work.cluster for works in world.view().works.values() for work in works[:1]}
    busy = set()
    for (cluster, _), work in world.works.items():
        said = {each["type"]: each["status"] for each in work.get("status", {}).get("conditions", [])}
        current = work["spec"] == template()
        fresh = all(
            each["observedGeneration"] == work["metadata"]["generation"]
            for each in work.get("status", {}).get("conditions", [])
        )
        finished = (
            said.get("Progressing") == "False" and said.get("Applied") == "True" and "Degraded" not in said and fresh
        )
        if cluster in decided and cluster in kept and current and not finished:
            busy.add(cluster)
    return busy
