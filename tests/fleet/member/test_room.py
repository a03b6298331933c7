"""The index of room finds what a walk over all nodes finds, whatever came and went before."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from echelon.fleet.member.decide.affinity import place_of
from echelon.fleet.member.decide.scheduling import Demand, NodeView, Requests, choose
from echelon.fleet.member.room import Room

ZONES = ("a", "b")


def in_zone(zone: str, *, preferred: bool = False) -> dict[str, Any]:
    expression = {"key": "zone", "operator": "In", "values": [zone]}
    if preferred:
        wish = [{"weight": 5, "preference": {"matchExpressions": [expression]}}]
        return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wish}}}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


PINNED = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2", "n9"]}]}]}
DEMANDS = (
    Demand(Requests(1)),
    Demand(Requests(1, 1)),
    Demand(Requests(0, 2, (("gpu", 1),))),
    Demand(Requests(1), place_of(in_zone("a"))),
    Demand(Requests(1), place_of(in_zone("b", preferred=True))),
    Demand(
        Requests(1),
        place_of({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": PINNED}}}),
    ),
    Demand(Requests(1), tolerations=({"operator": "Exists"},)),
)

nodes = st.builds(
    lambda number, cpu, zone, cordoned, tainted, gpus: NodeView(
        f"n{number}",
        {"zone": zone},
        (cpu, 5, 3),
        taints=(("t", "", "NoSchedule"),) if tainted else (),
        cordoned=cordoned,
        others={"gpu": gpus},
    ),
    st.integers(0, 4),
    st.integers(0, 4),
    st.sampled_from(ZONES),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2),
)
steps = st.lists(st.one_of(nodes, st.integers(0, 4), st.sampled_from(DEMANDS), st.just("release")), max_size=60)


@given(steps)
def test_it_finds_what_a_walk_over_all_nodes_finds(steps: list[Any]) -> None:
    room = Room()
    placed: list[tuple[str, Requests]] = []
    for step in steps:
        if isinstance(step, NodeView):
            room.set_node(step.name, step)
        elif isinstance(step, int):
            room.set_node(f"n{step}", None)
        elif isinstance(step, Demand):
            node, why = choose(step, room.nodes.values(), room.usage)
            assert room.find(step) == node
            if node:
                room.take(node, step.requests)
                placed.append((node, step.requests))
            else:
                assert room.why_not(step) == why
        elif placed:
            room.take(*placed.pop(0), -1)


def test_many_pods_do_not_make_it_look_at_all_nodes() -> None:
    looked: list[str] = []

    class Watched(dict[str, NodeView]):
        def get(self, key: str, default: Any = None) -> Any:
            looked.append(key)
            return super().get(key, default)

    room = Room(Watched())
    for number in range(1000):
        room.set_node(f"n{number}", NodeView(f"n{number}", {}, (16_000, 1 << 36, 110)))
    demand = Demand(Requests(1000, 1 << 30))
    looked.clear()
    for _ in range(10_000):
        room.take(room.find(demand), demand.requests)
    assert len(looked) == 1000 + 9_999
    assert {used.pods for used in room.usage.values()} == {10}
