"""A round over many clusters is measured from end to end on a small fleet; what it costs is not judged here."""

from bench import align
from bench.progress import Progress


def test_a_round_is_measured_with_ten_times_the_replicas_as_well() -> None:
    figures = align.measure(Progress(), 30)
    assert [(one.clusters, one.replicas) for one in figures] == [(30, 20), (30, 200)]
    assert all(one.milliseconds > 0 and one.pushes == 30 for one in figures)
    lines = align.table(figures).splitlines()
    assert "30 clusters of 200 pods" in lines[2]
    assert lines[-1].startswith("ten times the replicas: ")
