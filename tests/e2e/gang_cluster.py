"""A real control plane with kwok nodes that runs the controller of PodCliqueSets, and what tests do with it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from tests.e2e.pod_audit import POLICY, Group, PodWrite, below_the_floor, read_writes
from tests.environment import Administrator, ControlPlane, Programs
from tests.environment.processes import ProcessGroup

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
CONTROLLER = "system:serviceaccount:echelon-system:echelon-pod-cliques"
GROUPS = ("system:serviceaccounts", "system:serviceaccounts:echelon-system")
RIGHTS = Path(__file__).parents[2] / "docs" / "member-rights.yaml"
INIT_IMAGE = "registry.example.com/wait-for-cliques:1"
PATIENCE_SECONDS = 60.0
GROVE = "/apis/grove.io/v1alpha1/namespaces"
Object = dict[str, Any]


class GangCluster:
    """A cluster with nodes that have GPUs. Use it as a context manager."""

    def __init__(self, programs: Programs, kubectl: str, directory: Path, nodes: int = 8) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        policy, self._log = directory / "audit-policy.json", directory / "audit.jsonl"
        policy.write_text(json.dumps(POLICY))
        self._plane = ControlPlane(
            programs,
            directory,
            controller_manager=True,
            scheduler=True,
            kwok_nodes=nodes,
            api_options=(f"--audit-policy-file={policy}", f"--audit-log-path={self._log}"),
        )
        self._kubectl, self._directory, self._nodes = kubectl, directory, nodes
        self._echelon: ProcessGroup | None = None

    def __enter__(self) -> Self:
        self._plane.start()
        try:
            self.administrator = Administrator.of(self._plane.access)
            crds = self._run(sys.executable, "-m", "echelon", "crds", "--controllers", "pod-cliques")
            self.kubectl("apply", "--server-side", "-f", "-", stdin=crds)
            self.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
            self.kubectl("apply", "-f", str(RIGHTS))
            for number in range(self._nodes):
                body = {"status": {"capacity": {"example.com/gpu": "32"}, "allocatable": {"example.com/gpu": "32"}}}
                self.patch(f"/api/v1/nodes/node-{number}/status", body)
            self._echelon = ProcessGroup(self._directory)
            self.start_controller()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._echelon is not None:
            self._echelon.stop()
        self._plane.stop()

    def start_controller(self) -> None:
        """Run the controller as its account, with the documented rights; the audit log tells its writes by the name."""
        assert self._echelon is not None
        identity = self._plane.access.kubeconfig_for(CONTROLLER, GROUPS)
        options = ["-m", "echelon", "run", "--kubeconfig", str(identity), "--controllers", "pod-cliques"]
        options += ["--init-image", INIT_IMAGE]
        self._echelon.start(Path(sys.executable), options, "controller")

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """Run kubectl as the administrator."""
        return self._run(self._kubectl, "--kubeconfig", str(self._plane.access.kubeconfig), *arguments, stdin=stdin)

    def echelon(self, *arguments: str) -> str:
        """Run an echelon command as the administrator."""
        command = (sys.executable, "-m", "echelon", *arguments)
        return self._run(*command, "--kubeconfig", str(self._plane.access.kubeconfig))

    def _run(self, *command: str, stdin: str = "") -> str:
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
        return done.stdout

    def get(self, path: str) -> Object:
        """Read an object or a list."""
        found: Object = self.administrator.request("GET", path)
        return found

    def patch(self, path: str, body: Object) -> Object:
        """Merge fields into an object."""
        found: Object = self.administrator.request("PATCH", path, body)
        return found

    def apply(self, document: Object) -> None:
        """Apply an object, as people do."""
        self.kubectl("apply", "-f", "-", stdin=json.dumps(document))

    def namespace(self, name: str) -> "GangNamespace":
        """Make a namespace."""
        self.kubectl("create", "namespace", name)
        return GangNamespace(self, name)

    def writes(self) -> list[PodWrite]:
        """Return all writes to pods, in the order in which they were committed."""
        return read_writes(self._log)

    def start_waiter(self, namespace: str, account: str, gang: str, arguments: list[str]) -> "subprocess.Popen[str]":
        """Run the program of an init container, with what it would find in its pod."""
        inside = self._directory / f"inside-{namespace}"
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        token = self.administrator.request("POST", path, asked)["status"]["token"]
        files = {"info/namespace": namespace, "info/podgangname": gang, "account/token": token}
        files["account/ca.crt"] = (self._plane.access.keys / "ca.crt").read_text()
        for name, text in files.items():
            (inside / name).parent.mkdir(parents=True, exist_ok=True)
            (inside / name).write_text(text)
        where = urlsplit(self._plane.access.url)
        address = {"KUBERNETES_SERVICE_HOST": str(where.hostname), "KUBERNETES_SERVICE_PORT": str(where.port)}
        command = [sys.executable, "-m", "echelon.waiter", "--pod-info", str(inside / "info")]
        command += ["--service-account", str(inside / "account"), *arguments]
        return subprocess.Popen(command, env={**os.environ, **address}, stdout=subprocess.PIPE, text=True)

    def controller_log(self) -> str:
        """Return what the controller said."""
        return (self._directory / "controller.log").read_text()


class GangNamespace:
    """A namespace with one set in it."""

    def __init__(self, cluster: GangCluster, name: str) -> None:
        self.cluster = cluster
        self.name = name

    def get(self, plural: str, name: str) -> Object:
        """Read a set, a clique or a group."""
        return self.cluster.get(f"{GROVE}/{self.name}/{plural}/{name}")

    def patch(self, plural: str, name: str, body: Object) -> None:
        """Change a set, a clique or a group."""
        self.cluster.patch(f"{GROVE}/{self.name}/{plural}/{name}", body)

    def scale(self, plural: str, name: str, replicas: int) -> None:
        """Scale a set, a clique or a group as `kubectl scale` does."""
        self.cluster.patch(f"{GROVE}/{self.name}/{plural}/{name}/scale", {"spec": {"replicas": replicas}})

    def pods(self, clique: str = "") -> dict[str, Object]:
        """Return the pods that are not ending, by name; of one clique, if it is given."""
        query = f"?labelSelector=grove.io/podclique%3D{clique}" if clique else ""
        items = self.cluster.get(f"/api/v1/namespaces/{self.name}/pods{query}")["items"]
        return {each["metadata"]["name"]: each for each in items if "deletionTimestamp" not in each["metadata"]}

    def delete(self, *pods: str) -> None:
        """Delete pods by hand."""
        self.cluster.kubectl("delete", "pods", "-n", self.name, "--wait=false", *pods)

    def until(self, reached: Callable[[], bool]) -> None:
        """Wait for something to come true."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not reached():
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.described()}\n{self.cluster.controller_log()[-3000:]}")
            time.sleep(0.2)

    def ready(self, count: int) -> None:
        """Wait until there are so many pods, all ready."""
        self.until(lambda: [is_ready(each) for each in self.pods().values()] == [True] * count)

    def described(self) -> str:
        """Return what there is, for people."""
        return self.cluster.kubectl("get", "pcs,pclq,pcsg,pg,pods,events", "-n", self.name, "-o", "wide")

    def deleted_by_the_controller(self, since: int = 0) -> list[str]:
        """Return the names of the pods that the controller deleted, of all that were written since a version."""
        return [
            write.name
            for write in self.cluster.writes()
            if write.verb == "delete" and write.user == CONTROLLER and write.version > since and self._is_here(write)
        ]

    def version(self) -> int:
        """Return the version of the last write to a pod."""
        return max((write.version for write in self.cluster.writes()), default=0)

    def below_the_floor(self, cliques: Mapping[str, int], groups: Mapping[str, Group]) -> list[str]:
        """Return what the controller deleted and should not have."""
        writes: Iterable[PodWrite] = filter(self._is_here, self.cluster.writes())
        return list(below_the_floor(writes, CONTROLLER, cliques, groups))

    def _is_here(self, write: PodWrite) -> bool:
        return bool(write.pod["metadata"]["namespace"] == self.name)


def is_ready(pod: Object) -> bool:
    """Whether a pod serves."""
    conditions = pod.get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def image_of(pod: Object) -> str:
    """Return the image of a pod's first container."""
    return str(pod["spec"]["containers"][0]["image"])
