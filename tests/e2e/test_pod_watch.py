"""The counter of pods finds what it is there to find."""

from typing import Any

from tests.e2e.pod_watch import Event, breaches, count


def pod(
    version: int, cluster: str, name: str, *, ready: bool = True, gone: bool = False, ending: bool = False
) -> Event:
    meta: dict[str, Any] = {"name": name} | ({"deletionTimestamp": "now"} if ending else {})
    status = {"conditions": [{"type": "Ready", "status": str(ready)}]}
    spec = {"containers": [{"image": "v1"}]}
    return Event(version, cluster, "Pod", gone, {"metadata": meta, "spec": spec, "status": status})


def deployment(version: int, cluster: str, replicas: int, unavailable: int, surge: int) -> Event:
    rolling = {"maxUnavailable": unavailable, "maxSurge": surge}
    spec = {"replicas": replicas, "strategy": {"rollingUpdate": rolling}}
    return Event(version, cluster, "Deployment", False, {"metadata": {"name": "demo"}, "spec": spec})


FOUR = [pod(number, cluster, f"p{number}") for number, cluster in enumerate("aabb", start=1)]


def test_a_pod_that_goes_below_the_limit_is_found_whatever_the_order_of_arrival() -> None:
    first, second = pod(10, "a", "p1", ending=True), pod(11, "b", "p3", ending=True)
    assert not breaches(count([*FOUR, first]), least=3, most=5)
    assert breaches(count([second, first, *FOUR]), least=3, most=5) == ["11 b Pod/p3: 2 of 2 available"]


def test_a_pod_beyond_the_limit_is_found_and_one_that_ends_is_none() -> None:
    more = [pod(10, "a", "p5", ready=False), pod(11, "b", "p6", ready=False)]
    assert breaches(count([*FOUR, *more]), least=3, most=5) == ["11 b Pod/p6: 4 of 6 available"]
    ends = pod(9, "a", "p1", ending=True)
    assert not breaches(count([*FOUR, ends, *more]), least=3, most=5)


def test_what_gets_better_is_no_breach_and_what_gets_worse_once_more_is() -> None:
    low = [pod(10, "a", "p1", gone=True), pod(11, "a", "p2", gone=True), pod(12, "a", "p7")]
    assert len(breaches(count([*FOUR, *low]), least=3, most=5)) == 1
    assert len(breaches(count([*FOUR, *low[:2], pod(13, "b", "p3", gone=True)]), least=3, most=5)) == 2


def test_a_member_that_leaves_the_limits_of_its_own_spec_is_counted_apart() -> None:
    own = deployment(5, "a", replicas=2, unavailable=1, surge=0)
    goes = [pod(10, "a", "p1", gone=True), pod(11, "a", "p2", gone=True)]
    counts = count([*FOUR, own, *goes])
    assert not breaches(counts, least=3, most=5)
    assert breaches(counts, least=3, most=5, native=True) == ["11 a Pod/p2: 2 of 2 available"]
