"""`echelon up` and `echelon rollout` as people use them: a fleet in another process, kubectl, and the examples."""

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.cli import main
from echelon.kube.client import JSONPatch
from echelon.kube.config import load
from echelon.kube.http import HttpClient

EXAMPLES = Path(__file__).parents[2] / "examples"
ROLLOUTS = {
    "canary-then-regions": ("shop", "storefront"),
    "few-at-a-time": ("settings", "feature-flags"),
    "everywhere": ("observability", "node-agent"),
    "own-condition": ("batch", "migrate"),
}
PATIENCE_SECONDS = 120.0

pytestmark = pytest.mark.xdist_group("up")
IMAGE = "/spec/manifestWorkTemplate/workload/manifests/1/spec/template/spec/containers/0/image"
DEADLINE = "/spec/placementRefs/0/rolloutStrategy/progressivePerGroup/progressDeadline"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Six clusters in a process of their own; where its kubeconfig is."""
    directory = tmp_path_factory.mktemp("up")
    kubeconfig, log = directory / "kubeconfig", directory / "log"
    clauses = "no troubles; canary label on 1; image *:bad* fails on all"
    command = [sys.executable, "-m", "echelon", "up", "--clusters", "6", "--fleet", clauses, "--kubeconfig"]
    with log.open("wb") as output:
        process = subprocess.Popen([*command, str(kubeconfig)], stdout=output, stderr=output)
    try:
        _wait(lambda: process.poll() is not None or "Look around" in log.read_text())
        assert process.poll() is None, log.read_text()
        yield kubeconfig
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0, log.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert "Traceback" not in log.read_text(), log.read_text()


@pytest.mark.full
def test_controllers_beside_those_of_the_fleet_wait(up: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as output:
        command = [sys.executable, "-m", "echelon", "run", "--kubeconfig", str(up)]
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        _wait(lambda: process.poll() is not None or "waits: echelon-up holds the lease" in log.read_text())
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0, log.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert "the controllers are ready" not in log.read_text()


def _wait(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.fixture(scope="module")
def kube(up: Path, kubectl: str) -> Callable[..., str]:
    """Give kubectl, and apply at once what tests wait for one after the other: it all soaks meanwhile."""

    def run(*arguments: str) -> str:
        command = [kubectl, "--kubeconfig", str(up), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    for example in ROLLOUTS:
        run("apply", "-f", str(EXAMPLES / f"{example}.yaml"))
    return run


@pytest.fixture
def rollout(up: Path) -> Callable[..., Result]:
    def invoke(*arguments: str, code: int = 0) -> Result:
        done = CliRunner().invoke(main, ["rollout", *arguments, "--kubeconfig", str(up)])
        assert done.exit_code == code, done.output
        return done

    return invoke


def change(up: Path, namespace: str, name: str, path: str, value: Any) -> None:
    async def patch() -> None:
        async with HttpClient(load(up)) as client:
            body = JSONPatch([{"op": "replace", "path": path, "value": value}])
            await client.patch(MANIFEST_WORK_REPLICA_SET.untyped(), name, body, namespace)

    asyncio.run(patch())


def test_the_hub_asks_who_may_move_a_cluster_into_a_set(up: Path, kube: Callable[..., str], kubectl: str) -> None:
    done = CliRunner().invoke(main, ["doctor", "--kubeconfig", str(up)])
    assert done.exit_code == 0, done.output
    kube("create", "clusterrole", "writer", "--verb=get,patch", "--resource=managedclusters")
    kube("create", "clusterrolebinding", "writer", "--clusterrole=writer", "--user=guest")
    (cluster, *_) = kube("get", "managedclusters", "-o", "name").split()
    command = [kubectl, "--kubeconfig", str(up), "--as=guest", "label", cluster]
    for label, code in (("team=blue", 0), ("cluster.open-cluster-management.io/clusterset=prod", 1)):
        said = subprocess.run([*command, "--overwrite", label], capture_output=True, text=True, timeout=60, check=False)
        assert said.returncode == code, said.stderr
    # Either side of the change: an accepted cluster is soon in the set default, unless somebody put it elsewhere.
    assert re.search(
        "user guest may not (put|take) a cluster (into|out of) the cluster set (prod|default)", said.stderr
    )


@pytest.mark.full
@pytest.mark.parametrize("example", ROLLOUTS)
def test_an_example_is_applied_and_reaches_every_cluster(
    example: str, kube: Callable[..., str], rollout: Callable[..., Result]
) -> None:
    namespace, name = ROLLOUTS[example]
    assert " unchanged" in kube("apply", "-f", str(EXAMPLES / f"{example}.yaml"))
    said = rollout("watch", name, "-n", namespace, "--timeout", str(PATIENCE_SECONDS)).output
    assert "complete" in said.splitlines()[-1]
    picture = json.loads(rollout("status", name, "-n", namespace, "-o", "json").output)
    assert picture["state"] == "complete"
    assert set(picture["counts"]) == {"done"}


def test_there_is_a_context_for_every_cluster_and_the_workload_runs_there(
    kube: Callable[..., str], rollout: Callable[..., Result]
) -> None:
    kube("apply", "-f", str(EXAMPLES / "canary-then-regions.yaml"))
    rollout("watch", "storefront", "-n", "shop", "--timeout", str(PATIENCE_SECONDS))
    for member in ("eu-1", "us-2", "ap-1"):
        row = kube("--context", f"echelon-{member}", "get", "deployment", "storefront", "-n", "shop", "--no-headers")
        assert row.split()[1] == "3/3"


def test_a_rollout_waits_for_its_approval_and_says_so(kube: Callable[..., str], rollout: Callable[..., Result]) -> None:
    kube("apply", "-f", str(EXAMPLES / "with-approval.yaml"))
    status = ("status", "payments", "-n", "payments")
    _wait(lambda: "awaiting approval" in rollout(*status).output)
    assert (
        "there is no group nowhere"
        in rollout("approve", "payments", "-n", "payments", "--group", "nowhere", code=2).output
    )
    rollout("approve", "payments", "-n", "payments")
    rollout("watch", "payments", "-n", "payments", "--timeout", str(PATIENCE_SECONDS))
    assert "no group waits" in rollout("approve", "payments", "-n", "payments", code=1).output


def test_a_bad_change_stops_at_the_canary_and_is_undone(
    up: Path, kube: Callable[..., str], rollout: Callable[..., Result]
) -> None:
    where = ("storefront", "-n", "shop")
    kube("apply", "-f", str(EXAMPLES / "canary-then-regions.yaml"))
    rollout("watch", *where, "--timeout", str(PATIENCE_SECONDS))
    rollout("pause", *where)
    change(up, "shop", "storefront", IMAGE, "registry.example.com/storefront:bad")
    change(up, "shop", "storefront", DEADLINE, "3s")
    _wait(lambda: "paused" in rollout("status", *where).output)
    assert "-          - image: registry.example.com/storefront:2.0" in rollout("diff", *where, code=1).output
    rollout("resume", *where)
    assert (
        rollout("watch", *where, "--timeout", str(PATIENCE_SECONDS), code=1)
        .output.splitlines()[-1]
        .startswith("stopped")
    )
    picture = json.loads(rollout("status", *where, "-o", "json").output)
    assert [sum(each["counts"].values()) - each["counts"].get("waiting", 0) for each in picture["groups"]] == [
        1,
        0,
        0,
        0,
    ]
    change(up, "shop", "storefront", DEADLINE, "30s")  # however slow the machine is, the good one is in time
    assert "no revision 99" in rollout("undo", *where, "--to-revision", "99", code=5).output
    rollout("undo", *where)
    rollout("watch", *where, "--timeout", str(PATIENCE_SECONDS))
    stored = json.loads(rollout("history", *where, "-o", "json").output)
    assert [(each["revision"], each["present"]) for each in stored] == [(2, False), (3, True)]


@pytest.mark.full
def test_a_mistyped_placement_takes_nothing_away_until_somebody_approves_it(
    kube: Callable[..., str], rollout: Callable[..., Result]
) -> None:
    kube("apply", "-f", str(EXAMPLES / "few-at-a-time.yaml"))
    of = ("feature-flags", "-n", "settings")
    rollout("watch", *of, "--timeout", str(PATIENCE_SECONDS))

    def select(region: str) -> None:
        predicates = [{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"region": region}}}}]
        body = json.dumps({"spec": {"predicates": predicates}})
        kube("patch", "placement", "europe", "-n", "settings", "--type=merge", "-p", body)

    def state() -> str:
        found: str = json.loads(rollout("status", *of, "-o", "json").output)["state"]
        return found

    select("ue")
    _wait(lambda: state() == "held")
    said = rollout("watch", *of, "--timeout", str(PATIENCE_SECONDS), code=8).output
    assert "No ManagedCluster matches" in said
    assert "clusters lose what they have" in rollout("approve", *of, "--removal").output
    _wait(lambda: state() == "no clusters")
    rollout("watch", *of, "--timeout", str(PATIENCE_SECONDS), code=8)
    rollout("watch", *of, "--timeout", str(PATIENCE_SECONDS), "--allow-no-clusters")
    select("eu")
    rollout("watch", *of, "--timeout", str(PATIENCE_SECONDS))


@pytest.mark.full
def test_a_set_of_pod_cliques_on_one_cluster_is_worked_through_after_an_edit(
    kube: Callable[..., str], rollout: Callable[..., Result]
) -> None:
    there = ("--context", "echelon-eu-1")
    for each in ("inference", "on-delete"):
        kube(*there, "apply", "-f", str(EXAMPLES / f"pod-cliques-{each}.yaml"))
    for name in ("chat", "podcliqueset/trainer"):
        said = rollout("watch", name, *there, "--timeout", str(PATIENCE_SECONDS)).output
        assert said.splitlines()[-1].startswith("complete")
    path = "/spec/template/cliques/0/spec/podSpec/containers/0/image"
    edit = json.dumps([{"op": "replace", "path": path, "value": "registry.example.com/trainer:1.1"}])
    kube(*there, "patch", "podcliqueset", "trainer", "--type=json", "-p", edit)
    _wait(lambda: "complete, pods outdated" in rollout("status", "pcs/trainer", *there).output)
    left = json.loads(rollout("outdated", "trainer", *there, "-o", "json").output)
    assert {each["revision"] for each in left} == {1}
    assert len(left) == 4
    said = rollout("outdated", "trainer", *there, "--delete", "--max", "50%", "--dry-run").output
    assert said.count("would be deleted") == 1, "three of four are needed"
    assert "3 stay: trainer-0-worker has 3 ready pods and needs 3" in said
    assert "1 of 4" not in rollout("promote", "trainer", *there, code=1).output
    deadline = time.monotonic() + PATIENCE_SECONDS
    while json.loads(rollout("outdated", "trainer", *there, "-o", "json").output):
        assert time.monotonic() < deadline
        rollout("outdated", "trainer", *there, "--delete", "--max", "100%")
        time.sleep(0.2)
    rollout("watch", "trainer", *there, "--updated", "--timeout", str(PATIENCE_SECONDS))
    rollout("undo", "trainer", *there)
    _wait(lambda: "complete, pods outdated" in rollout("status", "trainer", *there).output)
    stored = json.loads(rollout("history", "trainer", *there, "-o", "json").output)
    assert [(each["revision"], each["images"]) for each in stored] == [
        (2, "worker=registry.example.com/trainer:1.1"),
        (3, "worker=registry.example.com/trainer:1.0"),
    ]


def test_rollouts_are_listed_and_what_does_not_exist_is_named(
    rollout: Callable[..., Result], kube: Callable[..., str]
) -> None:
    kube("apply", "-f", str(EXAMPLES / "few-at-a-time.yaml"))
    rollout("watch", "feature-flags", "-n", "settings", "--timeout", str(PATIENCE_SECONDS))
    listed = rollout("list", "-A").output.splitlines()
    assert listed[0].split() == ["NAMESPACE", "NAME", "STATE", "DONE", "INFLIGHT", "FAILED", "AT", "AGE"]
    assert ["settings", "feature-flags", "complete"] in [line.split()[:3] for line in listed]
    assert '"nothing" not found' in rollout("status", "nothing", "-n", "settings", code=5).output
    assert "No rollouts found in namespace empty." in rollout("list", "-n", "empty").output


def test_a_policy_that_cannot_be_enforced_is_found_out_by_the_canary_and_changes_nobody_else(
    up: Path, rollout: Callable[..., Result], kube: Callable[..., str]
) -> None:
    kube("apply", "-f", str(EXAMPLES / "policy-stopped-by-canary.yaml"))
    of = ("policy/card-limits", "-n", "payments-policy")
    said = rollout("watch", *of, "--timeout", str(PATIENCE_SECONDS), code=1).output
    assert "stopped, 0 of 6 done, 1 failed, 5 waiting" in said
    assert 'namespaces "payments" not found' in " ".join(rollout("status", *of).output.split())
    there = ["--kubeconfig", str(up), "-n", "payments-policy"]

    def preview() -> Result:
        return CliRunner().invoke(main, ["policy", "diff", "card-limits", *there])

    _wait(lambda: preview().output.startswith("5 clusters would change"))  # all have looked by then
    assert preview().exit_code == 1
    assert "create ConfigMap payments/card-limits" in preview().output


def test_a_clause_that_describes_nothing_is_named() -> None:
    done = CliRunner().invoke(main, ["up", "--fleet", "purple clusters"])
    assert done.exit_code == 2
    assert '"purple clusters" describes nothing of a fleet' in done.output
