"""Leader election: never two at once, seen by somebody who watches only the work, and the next one begins in time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

import pytest
from tests.budgets import Lives

from echelon.api.coordination import LEASE, Lease
from echelon.api.rbac import CLUSTER_ROLE as ROLE
from echelon.api.rbac import CLUSTER_ROLE_BINDING
from echelon.fleet.loop import PROCESS, run, running
from echelon.hub.access.identity import AUTHENTICATED, User
from echelon.hub.client import InProcessClient
from echelon.hub.server import ROOT, bootstrap, memory_cluster
from echelon.kube.client import Client, MergePatch
from echelon.kube.faults import Crash, Faults, FaultyClient, Process
from echelon.kube.leader import ElectionImpossible, LeaderElection, WorkDidNotStop

T = TypeVar("T")

LEASE_SECONDS, RENEW_SECONDS, RETRY_SECONDS = 15.0, 10.0, 2.0
# The last renewal is seen within a retry period, and from then on the lease lasts.
HAND_OVER_SECONDS = LEASE_SECONDS + RETRY_SECONDS


@dataclass
class Observer:
    """Sees when who works. It knows nothing of leases."""

    stop_seconds: float = 0.0  # how long work takes to stop
    intervals: list[tuple[str, float, float]] = field(default_factory=list)
    working: dict[str, float] = field(default_factory=dict)
    overlaps: list[str] = field(default_factory=list)

    def work_of(self, name: str) -> Callable[[], Awaitable[None]]:
        async def work() -> None:
            if self.working:
                self.overlaps.append(f"{name} begins at {running().time()} while {self.working} work")
            self.working[name] = running().time()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await asyncio.sleep(self.stop_seconds)
                raise
            finally:
                self.intervals.append((name, self.working.pop(name), running().time()))

        return work


async def hub() -> InProcessClient:
    cluster = memory_cluster(clock=running().clock.now, seed=running().random.getrandbits(64))
    await bootstrap(cluster)
    return InProcessClient(cluster, ROOT)


def contender(client: Client, name: str, namespace: str = "kube-system") -> LeaderElection:
    chance = Random(running().random.getrandbits(64))  # noqa: S311 - repeatable on purpose
    return LeaderElection(client, running().clock, "controllers", namespace, name, random=chance)


async def lease_of(client: Client) -> Lease:
    return await client.get(LEASE, "controllers", "kube-system")


def on_seeds(count: int, main: Callable[[], Coroutine[Any, Any, T]]) -> list[T]:
    return [run(main(), seed) for seed in range(count)]


async def stop(task: "asyncio.Task[None]") -> BaseException | None:
    task.cancel()
    await asyncio.wait([task])
    return None if task.cancelled() else task.exception()


def test_one_of_many_leads_and_keeps_the_lease() -> None:
    async def main() -> None:
        client, observer = await hub(), Observer()
        tasks = [asyncio.create_task(contender(client, name).run(observer.work_of(name))) for name in "abc"]
        await asyncio.sleep(600)
        assert len(observer.working) == 1
        assert not observer.intervals
        spec = (await lease_of(client)).spec
        assert spec.holder_identity in observer.working
        assert (spec.lease_duration_seconds, spec.lease_transitions) == (15, 0)
        assert spec.acquire_time < spec.renew_time
        for task in tasks:
            await stop(task)

    on_seeds(4, main)


def test_whoever_stops_releases_the_lease_and_the_next_one_begins_at_once() -> None:
    async def main() -> None:
        client, observer = await hub(), Observer(stop_seconds=3)
        first = asyncio.create_task(contender(client, "first").run(observer.work_of("first")))
        await asyncio.sleep(10)
        second = asyncio.create_task(contender(client, "second").run(observer.work_of("second")))
        await asyncio.sleep(60)
        assert list(observer.working) == ["first"]
        await stop(first)
        stopped = running().time()
        assert (await lease_of(client)).spec.holder_identity == ""
        await asyncio.sleep(5)
        assert stopped <= observer.working["second"] <= stopped + RETRY_SECONDS
        spec = (await lease_of(client)).spec
        assert (spec.holder_identity, spec.lease_transitions) == ("second", 1)
        assert not observer.overlaps
        await stop(second)

    on_seeds(10, main)


def test_work_that_takes_longer_to_stop_than_the_lease_lasts_keeps_it_while_it_stops() -> None:
    async def main() -> None:
        client, observer = await hub(), Observer(stop_seconds=120)
        first = asyncio.create_task(contender(client, "first").run(observer.work_of("first")))
        await asyncio.sleep(10)
        second = asyncio.create_task(contender(client, "second").run(observer.work_of("second")))
        await stop(first)
        await asyncio.sleep(5)
        assert not observer.overlaps
        assert list(observer.working) == ["second"]
        await stop(second)

    on_seeds(5, main)


def test_after_a_kill_another_one_takes_over_in_time() -> None:
    async def main() -> float:
        client, observer = await hub(), Observer()
        process = Process()
        doomed = FaultyClient(client, Faults(), running().random, process)
        first = asyncio.create_task(contender(doomed, "first").run(observer.work_of("first")))
        await asyncio.sleep(10)
        second = asyncio.create_task(contender(client, "second").run(observer.work_of("second")))
        await asyncio.sleep(running().random.uniform(30, 60))
        killed = running().time()
        process.die()
        assert isinstance(await stop(first), Crash)
        assert (await lease_of(client)).spec.holder_identity == "first"
        await asyncio.sleep(HAND_OVER_SECONDS)
        assert not observer.overlaps
        took = observer.working["second"] - killed
        await stop(second)
        return took

    took = on_seeds(50, main)
    assert max(took) <= HAND_OVER_SECONDS
    assert min(took) > RENEW_SECONDS


TROUBLE = Faults(
    conflict=0.1,
    too_many_requests=0.1,
    server_error=0.2,
    lost_answer=0.2,
    late_write=0.5,
    latency=(0.0, 3.0),
    stale=0.1,
    stale_seconds=(1.0, 20.0),
)


async def contend(faults: Faults, seconds: float, stop_seconds: float) -> Observer:
    """Let three contenders live, die and come back for a while."""
    client, observer = await hub(), Observer(stop_seconds)

    async def live(name: str) -> None:
        chance, life = running().random, 0
        while True:
            life += 1
            process = Process()
            faulty = FaultyClient(client, faults, chance, process)
            identity = f"{name}-{life}"
            task = asyncio.create_task(contender(faulty, identity).run(observer.work_of(identity)))
            try:
                await asyncio.wait([task], timeout=chance.uniform(20, 400))
            finally:
                if chance.random() < 0.5 and stop_seconds == 0:
                    process.die()
                error = await stop(task)
            assert error is None or process.dead, repr(error)
            await asyncio.sleep(chance.uniform(0, 20))

    lives = [asyncio.create_task(live(name)) for name in "abc"]
    await asyncio.sleep(seconds)
    for task in lives:
        assert await stop(task) is None
    return observer


@pytest.mark.lives("leader election")
def test_never_two_leaders_whatever_the_network_does(lives: Lives) -> None:
    for seed in lives:
        observer = run(contend(TROUBLE, 2400, stop_seconds=4.5 if seed % 2 else 0.0), seed)
        assert observer.overlaps == [], seed
        assert len(observer.intervals) > 5, seed


def test_the_observer_would_see_two_leaders() -> None:
    """The same contenders with a leader that believes in its lease for too long."""

    class Careless(LeaderElection):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self._renew_seconds = 60.0

    def careless(client: Client, name: str) -> LeaderElection:
        return Careless(client, running().clock, "controllers", "kube-system", name, random=running().random)

    async def main() -> list[str]:
        client, observer = await hub(), Observer()
        process = Process()
        cut_off = FaultyClient(client, Faults(server_error=1.0), running().random, process)
        process.calm = True
        first = asyncio.create_task(careless(cut_off, "first").run(observer.work_of("first")))
        await asyncio.sleep(10)
        second = asyncio.create_task(careless(client, "second").run(observer.work_of("second")))
        process.calm = False
        await asyncio.sleep(60)
        await stop(first)
        await stop(second)
        return observer.overlaps

    assert run(main())


@pytest.mark.parametrize("latency", [0.0, 1.2])
def test_a_leader_that_is_cut_off_has_stopped_before_another_one_begins(latency: float) -> None:
    """With latency: the lease counts from when a renewal was sent, because others may see it long before the answer."""

    async def main() -> None:
        client, observer = await hub(), Observer(stop_seconds=4.9)
        process = Process(calm=True)
        faults = Faults(server_error=1.0, latency=(latency, latency))
        cut_off = FaultyClient(client, faults, running().random, process)
        first = asyncio.create_task(contender(cut_off, "first").run(observer.work_of("first")))
        await asyncio.sleep(10)
        second = asyncio.create_task(contender(client, "second").run(observer.work_of("second")))
        await asyncio.sleep(30)
        process.calm = False
        await asyncio.sleep(40)
        assert not observer.overlaps
        assert [name for name, *_ in observer.intervals] == ["first"]
        assert list(observer.working) == ["second"]
        process.calm = True
        await stop(second)
        await asyncio.sleep(10)
        assert list(observer.working) == ["first"], "it contends again"
        await stop(first)

    on_seeds(20, main)


def test_a_lease_is_not_released_while_the_work_goes_on() -> None:
    async def main() -> None:
        client, observer = await hub(), Observer(stop_seconds=100)
        task = asyncio.create_task(contender(client, "first").run(observer.work_of("first")))
        await asyncio.sleep(10)
        task.cancel()
        await asyncio.sleep(1)
        await stop(task)
        assert list(observer.working) == ["first"], "whoever is in such a hurry does not wait for it"
        assert (await lease_of(client)).spec.holder_identity == "first"
        await asyncio.sleep(100)

    run(main())


def test_work_that_does_not_stop_is_an_error_before_the_lease_runs_out() -> None:
    async def main() -> None:
        client = await hub()
        process = Process(calm=True)
        cut_off = FaultyClient(client, Faults(server_error=1.0), running().random, process)

        async def stubborn() -> None:
            for _ in range(2):
                try:
                    await asyncio.sleep(1000)
                except asyncio.CancelledError:
                    await asyncio.sleep(100)

        task = asyncio.create_task(contender(cut_off, "first").run(stubborn))
        await asyncio.sleep(10)
        renewed = (await lease_of(client)).spec.renew_time
        process.calm = False
        await asyncio.wait([task], timeout=60)
        with pytest.raises(WorkDidNotStop, match="the lease kube-system/controllers is lost and the work of first"):
            task.result()
        assert running().time() <= 10 + LEASE_SECONDS
        lease = await lease_of(client)
        assert (lease.spec.holder_identity, lease.spec.renew_time) == ("first", renewed), "it is not released"

    run(main())


def test_a_leader_whose_process_stood_still_stops_as_soon_as_it_runs_again() -> None:
    async def main() -> None:
        client, observer = await hub(), Observer()

        async def first() -> None:
            PROCESS.set("first")
            await contender(client, "first").run(observer.work_of("first"))

        paused = asyncio.create_task(first())
        await asyncio.sleep(10)
        other = asyncio.create_task(contender(client, "second").run(observer.work_of("second")))
        await asyncio.sleep(10)
        running().pause("first", 60)
        await asyncio.sleep(59)
        assert sorted(observer.working) == ["first", "second"], "nothing can stop what stands still"
        await asyncio.sleep(2)
        assert list(observer.working) == ["second"]
        await stop(paused)
        await stop(other)

    run(main())


def test_a_lost_answer_to_the_first_write_is_no_obstacle() -> None:
    async def main() -> None:
        client, observer = await hub(), Observer()
        faulty = FaultyClient(client, Faults(lost_answer=1.0, lost_seconds=(0, 0)), running().random)
        task = asyncio.create_task(contender(faulty, "first").run(observer.work_of("first")))
        await asyncio.sleep(1)
        assert (await lease_of(client)).spec.holder_identity == "first"
        assert not observer.working, "it does not know yet"
        faulty.process.calm = True
        await asyncio.sleep(3)
        assert list(observer.working) == ["first"]
        await stop(task)

    run(main())


def test_a_request_that_hangs_leaves_time_for_another_one() -> None:
    async def main() -> None:
        client, observer = await hub(), Observer()
        faulty = FaultyClient(client, Faults(lost_answer=1.0, lost_seconds=(600, 600)), running().random)
        faulty.process.calm = True
        task = asyncio.create_task(contender(faulty, "first").run(observer.work_of("first")))
        await asyncio.sleep(20)
        faulty.process.calm = False
        while not faulty.injected["lost_answer"]:  # noqa: ASYNC110 - virtual time costs nothing
            await asyncio.sleep(0.1)
        faulty.process.calm = True
        await asyncio.sleep(60)
        assert list(observer.working) == ["first"]
        assert not observer.intervals
        await stop(task)

    on_seeds(10, main)


def test_a_deleted_lease_is_not_taken_before_its_holder_can_have_noticed() -> None:
    async def main() -> None:
        client, observer = await hub(), Observer()
        process = Process(calm=True)
        cut_off = FaultyClient(client, Faults(server_error=1.0), running().random, process)
        first = asyncio.create_task(contender(cut_off, "first").run(observer.work_of("first")))
        await asyncio.sleep(10)
        second = asyncio.create_task(contender(client, "second").run(observer.work_of("second")))
        await asyncio.sleep(30)
        process.calm = False
        await client.delete(LEASE, "controllers", "kube-system")
        await asyncio.sleep(HAND_OVER_SECONDS)
        assert not observer.overlaps
        assert list(observer.working) == ["second"]
        await stop(first)
        await stop(second)

    on_seeds(10, main)


def test_a_leader_makes_a_deleted_lease_anew() -> None:
    async def main() -> None:
        client, observer = await hub(), Observer()
        task = asyncio.create_task(contender(client, "first").run(observer.work_of("first")))
        await asyncio.sleep(10)
        await client.delete(LEASE, "controllers", "kube-system")
        await asyncio.sleep(10)
        assert (await lease_of(client)).spec.holder_identity == "first"
        assert not observer.intervals
        await stop(task)

    run(main())


def test_somebody_who_writes_a_label_does_not_prolong_the_lease() -> None:
    async def main() -> None:
        client, observer = await hub(), Observer()
        process = Process()
        doomed = FaultyClient(client, Faults(), running().random, process)
        first = asyncio.create_task(contender(doomed, "first").run(observer.work_of("first")))
        await asyncio.sleep(10)
        process.die()
        await stop(first)
        second = asyncio.create_task(contender(client, "second").run(observer.work_of("second")))
        for number in range(20):
            note = MergePatch({"metadata": {"labels": {"number": str(number)}}})
            await client.patch(LEASE, "controllers", note, "kube-system")
            await asyncio.sleep(1)
        assert list(observer.working) == ["second"]
        await stop(second)

    run(main())


def test_work_that_ends_ends_the_election_and_what_it_raises_is_raised() -> None:
    async def main() -> None:
        client = await hub()

        async def ends() -> None:
            await asyncio.sleep(1)

        async def fails() -> None:
            raise ValueError("a mistake")

        await contender(client, "first").run(ends)
        assert (await lease_of(client)).spec.holder_identity == ""
        with pytest.raises(ValueError, match="a mistake"):
            await contender(client, "second").run(fails)
        assert (await lease_of(client)).spec.holder_identity == ""

    run(main())


@pytest.mark.parametrize("steps", range(5))
def test_work_that_fails_as_it_stops_is_heard_of_also_by_one_who_is_told_twice(
    steps: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        stopping = asyncio.Event()

        async def fails_at_the_end() -> None:
            try:
                await asyncio.sleep(1000)
            finally:
                stopping.set()
                raise ValueError("a mistake")

        task = asyncio.create_task(contender(await hub(), "first").run(fails_at_the_end))
        await asyncio.sleep(10)
        task.cancel()
        await stopping.wait()
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        raised = not task.cancelled() and "a mistake" in str(task.exception())
        assert raised or "work of first ended with ValueError('a mistake')" in caplog.text

    run(main())


def test_a_missing_namespace_is_said_at_once() -> None:
    async def main() -> None:
        election = contender(await hub(), "first", namespace="nowhere")
        said = r'needs the namespace nowhere \(kubectl create namespace nowhere\): namespaces "nowhere" not found'
        with pytest.raises(ElectionImpossible, match=said):
            await election.run(asyncio.Event().wait)  # type: ignore[arg-type]

    run(main())


def test_whoever_waits_says_for_whom(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        client, observer = await hub(), Observer()
        first = asyncio.create_task(contender(client, "first").run(observer.work_of("first")))
        await asyncio.sleep(10)
        second = asyncio.create_task(contender(client, "second").run(observer.work_of("second")))
        await asyncio.sleep(600)
        await stop(second)
        await stop(first)

    with caplog.at_level(logging.INFO):
        run(main())
    waits = [record.message for record in caplog.records if "waits" in record.message]
    assert waits == ["second waits: first holds the lease kube-system/controllers"]


def test_an_outage_is_told_when_it_begins_and_when_it_is_over_and_not_at_every_try(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        client, observer = await hub(), Observer()
        process = Process(calm=True)
        cut_off = FaultyClient(client, Faults(server_error=1.0), running().random, process)
        task = asyncio.create_task(contender(cut_off, "alone").run(observer.work_of("alone")))
        for _ in range(2):
            await asyncio.sleep(10)
            process.calm = False
            await asyncio.sleep(600)
            process.calm = True
        await asyncio.sleep(10)
        await stop(task)

    with caplog.at_level(logging.INFO):
        run(main())
    said = [record.message for record in caplog.records if "the lease kube-system/controllers: " in record.message]
    assert sum(each.endswith("the server answers again") for each in said) == 2
    assert 4 <= len(said) <= 8, said


@pytest.mark.parametrize("verb", ["get", "create", "patch"])
def test_whoever_may_not_use_the_lease_says_which_verb_is_missing_where_and_goes_on_when_it_may(
    verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        client, observer = await hub(), Observer()
        somebody = User("somebody", (AUTHENTICATED,))
        if verb == "patch":  # there is a lease already
            task = asyncio.create_task(contender(client, "before").run(observer.work_of("before")))
            await asyncio.sleep(5)
            await stop(task)
        await grant(client, [each for each in ("get", "create", "patch") if each != verb])
        limited = InProcessClient(client._cluster, somebody)
        task = asyncio.create_task(contender(limited, "limited").run(observer.work_of("limited")))
        await asyncio.sleep(110)
        assert "limited" not in observer.working
        await client.patch(ROLE.untyped(), "leases", MergePatch({"rules": [rule("get", "create", "patch")]}))
        await asyncio.sleep(10)
        assert "limited" in observer.working
        await stop(task)

    with caplog.at_level(logging.WARNING):
        run(main())
    said = [record.message for record in caplog.records]
    assert len(said) == 2  # one a minute
    where = f"limited may not {verb} the lease controllers in namespace kube-system, and waits until it may: "
    assert said[0].startswith(where)
    assert f'User "somebody" cannot {verb} resource "leases"' in said[0]


def rule(*verbs: str) -> dict[str, Any]:
    return {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": list(verbs)}


async def grant(client: Client, verbs: list[str]) -> None:
    """Let somebody do some things with leases."""
    await client.create(ROLE.untyped(), {"metadata": {"name": "leases"}, "rules": [rule(*verbs)]})
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "somebody"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "leases"}
    binding = {"metadata": {"name": "leases"}, "subjects": [subject], "roleRef": role}
    await client.create(CLUSTER_ROLE_BINDING.untyped(), binding)


def test_times_that_cannot_be_safe_are_refused() -> None:
    async def main() -> None:
        client = await hub()
        for seconds in ((10, 10, 2), (15, 2, 2), (15, 10, 0)):
            with pytest.raises(ValueError, match="retry_seconds"):
                LeaderElection(
                    client,
                    running().clock,
                    "a",
                    "default",
                    "me",
                    random=running().random,
                    lease_seconds=seconds[0],
                    renew_seconds=seconds[1],
                    retry_seconds=seconds[2],
                )
        with pytest.raises(ValueError, match="identity"):
            contender(client, "")

    run(main())
