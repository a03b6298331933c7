"""Designs name modules and functions that exist, and the two walks go the way that they tell."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from random import Random
from types import CodeType, FrameType
from typing import Any

import pytest

from echelon.api.apps import DEPLOYMENT
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.placement import PLACEMENT
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.controllers.running import Controllers
from echelon.fleet.local import agent_user, register
from echelon.fleet.loop import run, running
from echelon.fleet.member.fleet import Fleet
from echelon.hub.client import InProcessClient
from echelon.hub.server import ROOT, bootstrap, memory_cluster
from echelon.kube.client import MergePatch
from echelon.kube.metrics import Metrics
from tests.controllers.strict import STRICT, end
from tests.docs.designs import PAGES, SOURCE, everything, is_there, modules, quoted, section, walk
from tests.fleet.test_leaving import NS, agent, furnish

LABEL = ("0003-placement.md", "The walk of a label change")
CHANGE = ("0004-rollouts.md", "The walk of a spec change to a member and back")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.stem))
def test_modules_and_members_that_a_design_names_exist(page: Path) -> None:
    wrong = []
    for said, module in quoted(page.read_text()):
        if said.endswith(".py"):
            wrong += [said] if not modules(said) else []
        elif module:
            wrong += [f"{said} ({module})"] if not modules(module) or not is_there(said, module) else []
        elif "." in said and said.partition(".")[0] in everything() and said.partition(".")[0][:1].isupper():
            wrong += [said] if not is_there(said) else []
    assert wrong == []


@pytest.mark.parametrize("page_and_title", [LABEL, CHANGE], ids=["label", "change"])
def test_functions_of_a_walk_exist(page_and_title: tuple[str, str]) -> None:
    said = [(name, module) for name, module in quoted(section(*page_and_title)) if not name.endswith(".py")]
    assert [each for each in said if not is_there(*each)] == []
    assert len(walk(*page_and_title)) > 10


def test_what_a_design_says_wrong_is_found() -> None:
    assert not is_there("Controller.nothing")
    assert not is_there("act", "kube/write.py")
    assert not modules("kube/nothing.py")
    assert is_there("act", "kube/act.py")
    assert is_there("Controller.follow")


def test_a_label_has_fewer_rooms_to_go_through_than_fifteen() -> None:
    assert len(walk(*LABEL)) < 15


Trace = list[str]  # functions as `module name`, in the order of their calls


class Tracer:
    """Notes which functions of ours are called while somebody listens."""

    def __init__(self) -> None:
        self._names: dict[CodeType, str] = {}
        self._calls: Trace | None = None

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Have calls noted. This begins outside of the event loop: from within, not every call is heard of."""
        sys.setprofile(self._called)
        try:
            yield
        finally:
            sys.setprofile(None)

    @contextmanager
    def listening(self) -> Iterator[Trace]:
        """Return a list that is filled meanwhile."""
        calls: Trace = []
        self._calls = calls
        try:
            yield calls
        finally:
            self._calls = None

    def _called(self, frame: FrameType, event: str, _: Any) -> None:
        if self._calls is None or event != "call":
            return
        code = frame.f_code
        if (name := self._names.get(code)) is None:
            path = Path(code.co_filename)
            inside = path.is_relative_to(SOURCE)
            name = self._names[code] = f"{path.relative_to(SOURCE).as_posix()} {code.co_qualname}" if inside else ""
        if name:
            self._calls.append(name)


def is_call(call: str, said: str, module: str) -> bool:
    """Whether a call is one of a function, or of what it left behind to be called."""
    where, _, name = call.partition(" ")
    return (not module or where == module) and (name == said or name.startswith(f"{said}.<locals>."))


def lost(trace: Trace, functions: list[tuple[str, str]]) -> list[str]:
    """Return the functions that are not called in this order, from the first one on that is not."""
    calls = iter(trace)
    for number, each in enumerate(functions):
        if not any(is_call(call, *each) for call in calls):
            return [said for said, _ in functions[number:]]
    return []


def test_the_walks_go_the_way_that_they_tell() -> None:
    tracer = Tracer()
    traces: list[Trace] = []

    async def main() -> None:
        logical = memory_cluster(clock=running().clock.now, seed=1)
        await bootstrap(logical)
        client = InProcessClient(logical, ROOT)
        await furnish(client)
        fleet = await Fleet.build("1 clusters; nodes 1", clock=running().clock.now)
        await fleet.start()
        chance = Random(1)  # noqa: S311 - repeatable on purpose
        controllers = Controllers(
            client, running().clock, random=chance, metrics=Metrics(), instance="test", settings=STRICT
        )
        tasks = [asyncio.create_task(controllers.run())]
        (member,) = fleet.members.values()
        await register(client, member)
        tasks.append(asyncio.create_task(agent(InProcessClient(logical, agent_user(member.name)), member).run()))
        await asyncio.sleep(120)

        found = await client.get(MANIFEST_WORK_REPLICA_SET.untyped(), "web", NS)
        template = deepcopy(found["spec"]["manifestWorkTemplate"])  # what is stored is shared with whoever reads it
        template["workload"]["manifests"][0]["spec"]["template"]["spec"]["containers"][0]["image"] = "web:2"
        with tracer.listening() as trace:
            patch = MergePatch({"spec": {"manifestWorkTemplate": template}})
            await client.patch(MANIFEST_WORK_REPLICA_SET.untyped(), "web", patch, NS)
            await asyncio.sleep(60)
        traces.append(trace)
        (there,) = (await member.client().list(DEPLOYMENT.untyped())).items
        assert there["spec"]["template"]["spec"]["containers"][0]["image"] == "web:2"

        elsewhere = {"matchExpressions": [{"key": "vendor", "operator": "NotIn", "values": ["other"]}]}
        predicate = {"requiredClusterSelector": {"labelSelector": elsewhere}}
        await client.patch(PLACEMENT.untyped(), "p", MergePatch({"spec": {"predicates": [predicate]}}), NS)
        await asyncio.sleep(20)
        with tracer.listening() as trace:
            away = MergePatch({"metadata": {"labels": {"vendor": "other"}}})
            await client.patch(MANAGED_CLUSTER.untyped(), member.name, away)
            await asyncio.sleep(20)
        traces.append(trace)
        await end(*tasks)
        await fleet.stop()

    with tracer.at_work():
        run(main())
    change, label = traces
    assert lost(change, walk(*CHANGE)) == []
    assert lost(label, walk(*LABEL)) == []
    # Nothing that comes later was asked before: the first calls are in the same order.
    firsts = [next(n for n, call in enumerate(label) if is_call(call, *each)) for each in walk(*LABEL)]
    assert firsts == sorted(firsts)
