"""The environment itself: what other tests take for granted."""

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.environment import Access, Administrator, ControlPlane, Programs, programs, start_together
from tests.environment.processes import free_ports, is_running, wait_for_the_end
from tests.environment.programs import MissingProgramError
from tests.environment.shared import ROOT, shared_plane

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def kubectl(programs: Programs, kubeconfig: Path, *arguments: str) -> tuple[int, str]:
    command = [str(programs.path("kubectl")), "--kubeconfig", str(kubeconfig), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout + done.stderr


def test_the_administrator_may_everything_and_others_what_rbac_gives_them(
    kubernetes: Programs, control_plane: Access
) -> None:
    limited = control_plane.kubeconfig_for("somebody", ["readers"])
    assert kubectl(kubernetes, control_plane.kubeconfig, "auth", "can-i", "*", "*", "-A") == (0, "yes\n")
    code, said = kubectl(kubernetes, limited, "get", "pods", "-n", "default")
    assert code == 1
    assert 'User "somebody" cannot list resource "pods"' in said
    binding = ["create", "clusterrolebinding", "readers", "--clusterrole=cluster-admin", "--group=readers"]
    assert kubectl(kubernetes, control_plane.kubeconfig, *binding)[0] == 0
    deadline = time.monotonic() + 30
    # The authorizer follows its own watch.
    while kubectl(kubernetes, limited, "get", "pods", "-n", "default")[0] != 0:
        assert time.monotonic() < deadline


def test_two_planes_run_side_by_side_and_share_nothing(kubernetes: Programs, tmp_path: Path) -> None:
    # The first brings everything, so that a deployment becomes ready; the second is bare.
    hub = ControlPlane(kubernetes, tmp_path / "hub", controller_manager=True, scheduler=True, kwok_nodes=2)
    member = ControlPlane(kubernetes, tmp_path / "member")
    start_together([hub, member])
    try:
        pids = [server.process.pid for plane in (hub, member) for server in plane.servers]
        administrator = Administrator.of(hub.access)
        administrator.request("POST", DEPLOYMENTS, deployment("web", replicas=2))
        wait_for_ready(administrator, "web", replicas=2)
        assert Administrator.of(member.access).request("GET", DEPLOYMENTS)["items"] == []
        with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
            Administrator(hub.access.url, Administrator.of(member.access).tls).request("GET", "/readyz")
    finally:
        hub.stop()
        member.stop()
    assert not any(map(is_running, pids))
    assert {log.name for log in (tmp_path / "member").glob("*.log")} == {"etcd.log", "kube-apiserver.log"}


def deployment(name: str, replicas: int) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "example/web:1"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def wait_for_ready(administrator: Administrator, name: str, replicas: int) -> None:
    deadline = time.monotonic() + 60
    while (status := administrator.request("GET", f"{DEPLOYMENTS}/{name}")["status"]).get("readyReplicas") != replicas:
        assert time.monotonic() < deadline, status
        time.sleep(0.1)


def test_a_port_that_somebody_took_is_not_the_end(
    kubernetes: Programs, tmp_path: Path, control_plane: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = int(control_plane.url.rpartition(":")[2])
    answers = iter([[*free_ports(2), taken], free_ports(3)])
    patched = "tests.environment.control_plane.free_ports"
    monkeypatch.setattr(patched, lambda count: next(answers) if count == 3 else free_ports(count))
    with ControlPlane(kubernetes, tmp_path) as plane:
        assert Administrator.of(plane.access).request("GET", "/readyz") == {"text": "ok"}
    assert (tmp_path / "kube-apiserver.1").exists()


def test_servers_do_not_outlive_a_test_run_that_was_killed(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from tests.environment.processes import ProcessGroup\n"
        "group = ProcessGroup(Path(sys.argv[1]))\n"
        "print(*(group.start(Path('/bin/sleep'), ['600']).process.pid for _ in range(2)), flush=True)\n"
        "time.sleep(600)"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as run:
        assert run.stdout is not None
        pids = [int(word) for word in run.stdout.readline().split()]
        assert all(map(is_running, pids))
        run.send_signal(signal.SIGKILL)
    wait_for_the_end(pids)


def test_users_share_a_plane_which_stops_after_the_last_of_them(kubernetes: Programs, tmp_path: Path) -> None:
    with shared_plane(kubernetes, tmp_path) as first:
        with shared_plane(kubernetes, tmp_path) as second:
            assert second == first
        assert Administrator.of(first).request("GET", "/readyz") == {"text": "ok"}
    deadline = time.monotonic() + 60
    while (tmp_path / "plane" / "etcd").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with pytest.raises(OSError, match="Connection refused"):
        Administrator.of(first).request("GET", "/readyz")


def test_a_named_directory_without_the_programs_is_a_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(MissingProgramError, match="kube-apiserver is not there"):
        programs()


def test_what_is_not_built_is_not_built_by_a_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.delenv("ECHELON_KUBERNETES_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text(f"#!/bin/sh\necho go1.0; echo $* >>{tmp_path}/asked\n")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{go.parent}:/bin:/usr/bin")
    assert programs() is None
    assert not (tmp_path / "asked").exists(), "there is no cache, and Go was asked which part of it is ours"
    (tmp_path / "echelon" / "kubernetes").mkdir(parents=True)
    assert programs() is None
    assert (tmp_path / "asked").read_text() == "env GOVERSION GOOS GOARCH\n"


def test_without_go_and_without_programs_there_is_nothing_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.delenv("ECHELON_KUBERNETES_DIR", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    assert programs() is None
