"""Many pods in one cluster are measured from end to end with few; what they cost is not judged here."""

from bench import pods
from bench.progress import Progress


def test_pods_are_measured_alone_and_in_gangs() -> None:
    figures = pods.measure(Progress(), 40)
    assert [one.title for one in figures] == [
        "10 pods alone",
        "40 pods alone",
        "40 pods in gangs of ten",
        "40 pods in one gang",
    ]
    assert all(one.microseconds > 0 and one.longest > 0 and one.seconds > 0 for one in figures)
    assert pods.table(figures).splitlines()[-1].startswith("ten times the pods: ")
