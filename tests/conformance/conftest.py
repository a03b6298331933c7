"""Runs the suite against all targets, asynchronous tests in one event loop per worker."""

import asyncio
import inspect
import itertools
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from echelon.api.namespaces import NAMESPACE
from echelon.kube.client import Client
from tests.conformance import targets
from tests.conformance.targets import Target

# A test that hangs must not hang the run; none needs a tenth of this.
LIMIT_SECONDS = 200.0
RUNNER = pytest.StashKey[asyncio.Runner]()
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def runner(request: pytest.FixtureRequest) -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as running:
        request.config.stash[RUNNER] = running
        yield running


@pytest.fixture(scope="session", params=["in-process", "hub", "kubernetes"])
def target(
    request: pytest.FixtureRequest, runner: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Target]:
    """A server with Echelon's CRDs."""
    opening: AbstractAsyncContextManager[Target]
    if request.param == "in-process":
        opening = targets.in_process()
    elif request.param == "hub":
        opening = targets.embedded(tmp_path_factory.mktemp("hub"))
    else:
        opening = targets.kubernetes(request.getfixturevalue("control_plane"))
    opened = runner.run(opening.__aenter__())
    try:
        runner.run(targets.serve_crds(opened.client))
        yield opened
    finally:
        runner.run(_closed(opening))


async def _closed(opening: AbstractAsyncContextManager[Target]) -> None:
    await opening.__aexit__(None, None, None)


@pytest.fixture
def client(target: Target) -> Client:
    return target.client


@pytest.fixture
def new_namespace(target: Target, runner: asyncio.Runner) -> Iterator[Callable[[], Awaitable[str]]]:
    """Makes namespaces that nobody else uses."""
    made: list[str] = []

    async def make() -> str:
        name = f"conformance-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}-{next(_numbers)}-{target.name}"
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await target.client.create(NAMESPACE, body)
        made.append(name)
        return name

    async def clean() -> None:
        for name in made:
            await target.client.delete(NAMESPACE, name)

    yield make
    runner.run(clean())


@pytest.fixture
def namespace(new_namespace: Callable[[], Coroutine[Any, Any, str]], runner: asyncio.Runner) -> str:
    return runner.run(new_namespace())


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> object | None:
    """Run a test that is a coroutine, in the loop in which its target lives."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = inspect.signature(pyfuncitem.obj).parameters
    given = {name: pyfuncitem.funcargs[name] for name in wanted}

    async def limited() -> None:
        async with asyncio.timeout(LIMIT_SECONDS):
            running: Awaitable[None] = pyfuncitem.obj(**given)
            await running

    pyfuncitem.config.stash[RUNNER].run(limited())
    return True
