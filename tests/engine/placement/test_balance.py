from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from echelon.api.keys import Key
from echelon.engine.placement.balance import DecisionCounter
from echelon.engine.placement.facts import Names

STEP = st.tuples(st.sampled_from("pqr"), st.frozensets(st.sampled_from("abcd")))


@given(st.lists(STEP, max_size=30))
def test_counts_equal_what_the_decisions_say(steps: list[tuple[str, frozenset[str]]]) -> None:
    names = Names()
    counter = DecisionCounter(names)
    model: dict[str, set[str]] = {}
    for placement, clusters in steps:
        key, had = Key("ns", placement), model.setdefault(placement, set())
        before = Counter(name for each in model.values() for name in each)
        mark = counter.position
        changed = counter.replace(key, clusters)
        assert len(changed) == len(had ^ clusters)
        model[placement] = set(clusters)
        total = Counter(name for each in model.values() for name in each)
        assert {names[number]: level for level, found in counter.levels() for number in found} == dict(total)
        for other, own in model.items():
            assert set(names.of(counter.own(Key("ns", other)))) == own
            foreign = [count - (name in own) for name, count in total.items()]
            assert counter.highest(Key("ns", other)) == max(foreign, default=0)
        moved = counter.changed_since(mark)
        assert moved is not None
        still = {name for name in total if total[name] != before[name]}
        assert still <= {names[number] for number in moved}
    for placement in model:
        counter.forget(Key("ns", placement))
    assert all(names.find(name) is None for name in "abcd")


def test_followers_that_fell_far_behind_are_told() -> None:
    counter = DecisionCounter(Names())
    mark = counter.position
    for number in range(5000):
        counter.replace(Key("ns", "p"), [f"c{number}"])
    assert counter.changed_since(mark) is None
    assert not counter.changed_since(counter.position)
