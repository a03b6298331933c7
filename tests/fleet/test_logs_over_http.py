"""The log of a simulated container over HTTP, as kubectl asks for it; and what nobody can do with such a container."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from echelon.cli.hub import write_kubeconfig
from echelon.fleet.local import Local, Settings
from tests.hub.api import Api

PODS = "/api/v1/namespaces/default/pods"
TWO = {"containers": [{"name": "a", "image": "i:1", "command": ["run", "fast"]}, {"name": "b", "image": "i:2"}]}


@contextmanager
def served(directory: Path, fleet: str) -> Iterator[Api]:
    """A hub with one member in a thread of its own; what is asked is asked of the member."""
    path, loop, ready = directory / "kubeconfig", asyncio.new_event_loop(), asyncio.Event()
    stopping = asyncio.Event()

    async def main() -> None:
        local = await Local.start(Settings(fleet))
        try:
            write_kubeconfig(local.hub, path)
            ready.set()
            await stopping.wait()
        finally:
            await local.stop()

    thread = Thread(target=loop.run_until_complete, args=(main(),), daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(ready.wait(), loop).result(60)
        yield Api.of(path, "eu-1")
    finally:
        loop.call_soon_threadsafe(stopping.set)
        thread.join(60)
        loop.close()


@pytest.mark.full
def test_a_log_is_cut_followed_and_refused_as_kubelets_do(tmp_path: Path) -> None:
    with served(tmp_path, "1 cluster; image *:bad* fails on all") as api:
        api.ok("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": TWO})
        bad = {"containers": [{"name": "a", "image": "i:bad"}]}
        api.ok("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bad"}, "spec": bad})
        log = f"{PODS}/p/log"
        for event in _until(api, "p", "Running"):
            assert event["status"]["phase"] in ("Pending", "Running")
        said = api("GET", log, container="a")
        assert said.headers["Content-Type"] == "text/plain"
        lines = said.data.decode().splitlines()
        assert lines[:4] == ["simulated container a of pod p", "image i:1", "would run run fast", "started"]
        assert api("GET", log, container="a", tailLines=1).data.decode().splitlines() == lines[-1:]
        assert api("GET", log, container="a", tailLines=0).data == b""
        assert api("GET", log, container="a", limitBytes=9).data == b"simulated"
        assert api("GET", log, container="a", sinceTime="2100-01-01T00:00:00Z").data == b""
        stamped = api("GET", log, container="a", timestamps="true").data.decode().splitlines()
        assert [each.partition("Z ")[2] for each in stamped] == lines
        many = api("GET", log).message
        assert many == "a container name must be specified for pod p, choose one of: [a b]"
        assert api("GET", log, container="c").message == "container c is not valid for pod p"
        before = api("GET", log, container="a", previous="true").message
        assert before == 'previous terminated container "a" in pod "p" not found'
        assert api("GET", log, container="a", tailLines="x").status == 400
        assert api("GET", f"{PODS}/nobody/log").status == 404
        deadline, begin = time.monotonic() + 60, 'container "a" in pod "bad" is waiting to start'
        while (failing := api("GET", f"{PODS}/bad/log").message) == f"{begin}: ContainerCreating":
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert failing == f"{begin}: trying and failing to pull image"
        for way in ("exec", "attach", "portforward"):
            assert (
                f"{way} is not possible: the containers of this cluster are simulated"
                in api("POST", f"{PODS}/p/{way}", container="a", command="ls").message
            )
        with api.lines(log, container="b", follow="true") as following:
            assert [next(following) for _ in lines][-1] == lines[-1]
            api.ok("DELETE", f"{PODS}/p")
            assert list(following) == [], "it ends with the pod"
        hub = Api.of(tmp_path / "kubeconfig")
        hub.ok("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": TWO})
        assert "there are no machines behind this server" in hub("GET", log, container="a").message


def _until(api: Api, name: str, phase: str) -> Iterator[dict[str, dict[str, str]]]:
    with api.watch(PODS, fieldSelector=f"metadata.name={name}") as changes:
        for change in changes:
            yield change["object"]
            if change["object"]["status"]["phase"] == phase:
                return
