"""`echelon cluster list`, `show`, `cordon`, `uncordon`, `join` and `accept`, as one types them."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from tests.joining.place import install

from echelon.agent.certificate import Wanted
from echelon.agent.joining import Invitation, NotAnInvitation
from echelon.api.base import JSONObject
from echelon.api.certificates import CERTIFICATE_SIGNING_REQUEST
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.cli import main
from echelon.cli.hub import write_kubeconfig
from echelon.hub.server import Hub, Settings
from echelon.kube import certificate_requests
from echelon.kube.client import MergePatch
from echelon.kube.http import HttpClient


@dataclass
class Desk:
    """A hub that runs in another thread, and somebody who types."""

    hub: Hub
    loop: asyncio.AbstractEventLoop
    kubeconfig: Path

    def does(self, what: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(what, self.loop).result(60)

    def types(self, *words: str, code: int = 0) -> str:
        done = CliRunner().invoke(main, [*words, "--kubeconfig", str(self.kubeconfig)], catch_exceptions=False)
        assert done.exit_code == code, done.output
        return done.stdout if code == 0 else done.output

    def cluster(self, name: str, **spec: Any) -> None:
        body: JSONObject = {**MANAGED_CLUSTER.type_meta, "metadata": {"name": name}, "spec": spec}
        self.does(self.hub.client().create(MANAGED_CLUSTER.untyped(), body))

    def taints(self, name: str) -> list[tuple[str, str]]:
        found = self.does(self.hub.client().get(MANAGED_CLUSTER, name))
        return [(each.key, each.effect) for each in found.spec.taints]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever)
    thread.start()
    try:
        hub = asyncio.run_coroutine_threadsafe(Hub.start(Settings()), loop).result(60)
        here = Desk(hub, loop, tmp_path / "kubeconfig")
        write_kubeconfig(hub, here.kubeconfig)
        here.does(install(hub.client()))
        yield here
        here.does(hub.stop())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_clusters_are_listed_for_people_and_for_programs(desk: Desk) -> None:
    assert desk.types("cluster", "list") == ""
    desk.cluster("west", hubAcceptsClient=True)
    desk.cluster("east", hubAcceptsClient=False)
    status = {
        "conditions": [
            {"type": each, "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-11-02T12:00:00Z"}
            for each in ("ManagedClusterJoined", "ManagedClusterConditionAvailable")
        ],
        "version": {"kubernetes": "v1.36.0"},
        "capacity": {"cpu": "32", "memory": "64Gi"},
    }
    desk.does(desk.hub.client().patch(MANAGED_CLUSTER, "west", MergePatch({"status": status}), subresource="status"))
    rows = [line.split() for line in desk.types("cluster", "list").splitlines()]
    assert rows[0] == ["NAME", "STATUS", "SET", "VERSION", "HEARD", "AGE"]
    assert [row[:5] for row in rows[1:]] == [
        ["east", "NotAccepted", "<none>", "<none>", "<none>"],
        ["west", "Available", "<none>", "v1.36.0", "<none>"],
    ]
    assert desk.types("cluster", "list", "-o", "wide").split("\n")[2].split()[6:8] == ["32", "64Gi"]
    listed = json.loads(desk.types("cluster", "list", "-o", "json"))
    assert (listed["kind"], [each["metadata"]["name"] for each in listed["items"]]) == ("List", ["east", "west"])
    assert listed["items"][1]["kind"] == "ManagedCluster"
    assert yaml.safe_load(desk.types("cluster", "show", "west", "-o", "yaml"))["status"]["version"] == status["version"]
    shown = desk.types("cluster", "show", "west")
    assert "Status     Available" in shown
    assert "Capacity   cpu 32, memory 64Gi" in shown
    assert "echelon cluster join east prints" in desk.types("cluster", "show", "east")


def test_a_name_that_is_not_there_is_corrected(desk: Desk) -> None:
    desk.cluster("frankfurt", hubAcceptsClient=True)
    for verb in ("show", "cordon", "uncordon", "accept"):
        told = desk.types("cluster", verb, "frankfrut", code=5)
        assert 'the hub has no cluster "frankfrut"; did you mean frankfurt?' in told
    desk.types("cluster", "cordon", "frankfurt", "nowhere", code=5)
    assert desk.taints("frankfurt") == []  # none is changed if one is not there


def test_a_cordon_keeps_new_work_away_and_an_eviction_the_rest(desk: Desk) -> None:
    desk.cluster("west", hubAcceptsClient=True, taints=[{"key": "gpu", "effect": "NoSelect"}])
    assert "what it has stays" in desk.types("cluster", "cordon", "west", "--reason", "maintenance")
    assert desk.taints("west") == [("gpu", "NoSelect"), ("echelon.dev/cordoned", "NoSelectIfNew")]
    assert "NotJoined,Cordoned" in desk.types("cluster", "list")
    assert "is cordoned already" in desk.types("cluster", "cordon", "west", "--reason", "maintenance")
    assert "placements give it up" in desk.types("cluster", "cordon", "west", "--evict")
    assert desk.taints("west") == [("gpu", "NoSelect"), ("echelon.dev/cordoned", "NoSelect")]
    assert "cluster west uncordoned" in desk.types("cluster", "uncordon", "west")
    assert "is not cordoned" in desk.types("cluster", "uncordon", "west")
    assert desk.taints("west") == [("gpu", "NoSelect")]


def test_an_invitation_is_one_command_and_what_is_none_is_said(desk: Desk) -> None:
    printed = desk.types("cluster", "join", "west")
    assert printed.startswith("echelon agent --join ")
    assert printed.count("\n") == 1
    read = Invitation.read(printed.split()[-1])
    assert (read.server, read.cluster, read.authority) == (desk.hub.url(), "west", desk.hub.keys.authorities_pem)
    assert read.token not in repr(read)
    assert desk.types("cluster", "join", "--server", "https://hub.example").startswith(
        "echelon agent --cluster NAME --join"
    )
    for mistake in ("West", "a.b", "a-", "a" * 64):
        assert "cannot be the name of a cluster" in desk.types("cluster", "join", mistake, code=2)
    assert "168h" in desk.types("cluster", "join", "west", "--ttl", "1000h", code=2)
    assert "--accept needs a NAME" in desk.types("cluster", "join", "--accept", code=2)
    for text in ("", "abc", "eyJ9", str(read)[:-9]):
        with pytest.raises(NotAnInvitation):
            Invitation.read(text)
    told = CliRunner().invoke(main, ["agent", "--join", "nothing"])
    assert told.exit_code == 2
    assert "this is no invitation to join a hub" in " ".join(told.output.split())


def test_a_person_accepts_what_is_an_agents_and_chooses_among_several(desk: Desk) -> None:
    invitation = Invitation.read(desk.types("cluster", "join", "west").split()[-1])

    async def ask(agent: str, **changed: Any) -> str:
        wanted = Wanted("west", agent, certificate_requests.new_key(), 600)
        body = wanted.body
        body["spec"] |= changed
        async with HttpClient(invitation.config) as bearer:
            await bearer.create(CERTIFICATE_SIGNING_REQUEST, body)
        return wanted.name

    forged = desk.does(ask("zero", usages=["client auth", "cert sign"]))
    told = desk.types("cluster", "accept", "west", code=1)
    assert f"request {forged} of" in told
    assert "its usages are client auth, cert sign" in told
    assert "nothing that asks under its name is its agent" in told
    assert not desk.does(desk.hub.client().get(MANAGED_CLUSTER, "west")).spec.hub_accepts_client
    first = desk.does(ask("one"))
    other = Invitation.read(desk.types("cluster", "join", "west").split()[-1])
    invitation = other
    second = desk.does(ask("two"))
    told = desk.types("cluster", "accept", "west", code=1)
    assert first in told
    assert second in told
    assert "--request" in told
    assert "cluster west accepted" in desk.types("cluster", "accept", "west", "--request", second)
    found = desk.does(desk.hub.client().get(CERTIFICATE_SIGNING_REQUEST, second))
    assert found.decision("Approved") is not None
    assert desk.does(desk.hub.client().get(CERTIFICATE_SIGNING_REQUEST, first)).is_pending
