"""A fleet on real control planes: a hub and its members, each an API server of its own, and Echelon as people run it.

Everything of Echelon is a process of its own that was started from the command line, with the token of its service
account on the hub and nothing else there: the controllers with the rights that the guide gives them, each agent with
those that its cluster got when it was accepted, and on its cluster with those of the guide. Members run Deployments
with Kubernetes' own controllers; only the machines are missing, whose part kwok plays.

All servers store in one etcd, whose revisions are the versions of all objects: so it can be told of any two changes,
on whatever clusters, which came first.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from echelon.api.base import JSONObject
from echelon.controllers.running import NAMES, POLICY_NAMES, WORKLOAD_NAMES
from tests.environment import Administrator, ControlPlane, Programs, start_together
from tests.environment.etcd import Etcd
from tests.environment.processes import ProcessGroup, Server

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
PATIENCE_SECONDS = 150.0
HUB = "hub"
DOCS = Path(__file__).parents[2] / "docs"
RIGHTS, MEMBER_RIGHTS = DOCS / "rights.yaml", DOCS / "member-rights.yaml"
CONTROLLERS = ",".join((*NAMES, *POLICY_NAMES, *WORKLOAD_NAMES))
# Templates of workloads are on the hub, and nobody may run them there: that is how a hub of workloads is started.
NO_WORKLOADS = "--controllers=*,-deployment-controller,-replicaset-controller,-statefulset-controller"
_PYTHON = Path(sys.executable)


@dataclass(frozen=True)
class Answer:
    """What a command said, and its exit code."""

    code: int
    text: str


class Fleet:
    """A running fleet; use it as a context manager. `clusters` are the members, with their labels on the hub."""

    def __init__(
        self, programs: Programs, kubectl: str, directory: Path, clusters: Mapping[str, Mapping[str, str]]
    ) -> None:
        self._kubectl = kubectl
        self._directory = directory
        self._clusters = clusters
        self._etcd = Etcd(programs, directory / "etcd")
        self._planes = {
            HUB: ControlPlane(
                programs, directory / HUB, controller_manager=True, manager_options=(NO_WORKLOADS,), etcd=self._etcd
            )
        }
        for name in clusters:
            self._planes[name] = ControlPlane(
                programs, directory / name, controller_manager=True, scheduler=True, kwok_nodes=1, etcd=self._etcd
            )
        self._echelon: ProcessGroup | None = None
        self._agents: dict[str, Server] = {}

    def __enter__(self) -> Self:
        self._etcd.__enter__()
        try:
            start_together(self._planes.values())
            self._echelon = ProcessGroup(self._directory)
            self._install()
            self._register()
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
        for plane in self._planes.values():
            plane.stop()
        self._etcd.__exit__(None, None, None)

    def _install(self) -> None:
        crds = self.echelon("crds", "--controllers", CONTROLLERS)
        self.kubectl("apply", "--server-side", "-f", "-", stdin=crds.text)
        self.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        self.kubectl("apply", "-f", str(RIGHTS))
        identity = self._identify("echelon-controllers", "echelon-system")
        self._start("controllers", "run", "--kubeconfig", str(identity), "--controllers", CONTROLLERS)

    def _register(self) -> None:
        """Accept the clusters, and give each of its agents the identity that an accepted cluster has."""
        self.apply(
            {
                "apiVersion": "cluster.open-cluster-management.io/v1",
                "kind": "ManagedCluster",
                "metadata": {"name": name, "labels": dict(labels)},
                "spec": {"hubAcceptsClient": True},
            }
            for name, labels in self._clusters.items()
        )
        for name in self._clusters:
            self._wait_for("HubAcceptedManagedCluster", name)
            self._identify("echelon-agent", name)
            self.kubectl("apply", "-f", str(MEMBER_RIGHTS), where=name)
            self._identify("echelon-agent", "echelon-agent", name)
            self.start_agent(name)
        for name in self._clusters:
            self._wait_for("ManagedClusterConditionAvailable", name)

    def _wait_for(self, condition: str, cluster: str) -> None:
        def so() -> bool:
            return bool(self.condition(condition, "managedcluster", cluster).get("status") == "True")

        self.until(so, f"{cluster} is not {condition}")

    def _identify(self, account: str, namespace: str, where: str = HUB) -> Path:
        """Write the kubeconfig of a service account of the hub, or of a member."""
        path, access = self.identity(namespace, where), self._planes[where].access
        token = self.kubectl("create", "token", account, "-n", namespace, where=where).strip()
        target = ("config", f"--kubeconfig={path}")
        authority = f"--certificate-authority={access.keys / 'ca.crt'}"
        self.kubectl(*target, "set-cluster", "hub", f"--server={access.url}", authority, "--embed-certs")
        self.kubectl(*target, "set-credentials", account, f"--token={token}")
        self.kubectl(*target, "set-context", "hub", "--cluster=hub", f"--user={account}", f"--namespace={namespace}")
        self.kubectl(*target, "use-context", "hub")
        return path

    @property
    def url(self) -> str:
        """The address of the hub, as agents know it."""
        return self._planes[HUB].access.url

    def identity(self, namespace: str, where: str = HUB) -> Path:
        """Return the kubeconfig with which the account of a namespace, that of an agent, speaks to a server."""
        return self._directory / f"{where}-{namespace}"

    def start_agent(self, cluster: str) -> None:
        """Start the agent of a cluster."""
        identity, own = self.identity(cluster), self.identity("echelon-agent", cluster)
        options = ("--cluster", cluster, "--hub-kubeconfig", str(identity), "--kubeconfig", str(own))
        self._agents[cluster] = self._start(f"agent-{cluster}", "agent", *options)

    def kill_agent(self, cluster: str) -> None:
        """End the agent of a cluster as a power cut would."""
        process = self._agents.pop(cluster).process
        process.kill()
        process.wait()

    def _start(self, name: str, *arguments: str) -> Server:
        assert self._echelon is not None
        return self._echelon.start(_PYTHON, ["-m", "echelon", *arguments], name)

    def _kubeconfig(self, where: str) -> Path:
        return self._planes[where].access.kubeconfig

    def echelon(self, *arguments: str) -> Answer:
        """Run a command of Echelon; on the hub, if it is about one."""
        about = () if arguments[0] == "crds" else ("--kubeconfig", str(self._kubeconfig(HUB)))
        command = [str(_PYTHON), "-m", "echelon", *arguments, *about]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)
        return Answer(done.returncode, done.stdout + done.stderr)

    def ask(self, *arguments: str, kubeconfig: Path | None = None, stdin: str | None = None) -> Answer:
        """Run kubectl, as an administrator of the hub unless another kubeconfig is given."""
        command = [self._kubectl, "--kubeconfig", str(kubeconfig or self._kubeconfig(HUB)), *arguments]
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
        )
        return Answer(done.returncode, done.stdout if done.returncode == 0 else done.stderr)

    def kubectl(self, *arguments: str, where: str = HUB, stdin: str | None = None) -> str:
        """Run kubectl as an administrator; it has to succeed."""
        answer = self.ask(*arguments, kubeconfig=self._kubeconfig(where), stdin=stdin)
        assert answer.code == 0, f"kubectl {' '.join(arguments)}: {answer.text}"
        return answer.text

    def apply(self, objects: Iterable[JSONObject]) -> None:
        """Apply objects to the hub."""
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.kubectl("apply", "-f", "-", stdin=json.dumps(listed))

    def get(self, kind: str, name: str, namespace: str = "", where: str = HUB) -> JSONObject:
        """Return an object; an empty one if it is not there."""
        found = self.kubectl("get", kind, name, *_in(namespace), "-o", "json", "--ignore-not-found", where=where)
        read: JSONObject = json.loads(found) if found else {}
        return read

    def condition(self, of: str, kind: str, name: str, namespace: str = "") -> JSONObject:
        """Return a condition of an object on the hub; an empty one if there is none."""
        said = self.get(kind, name, namespace).get("status", {}).get("conditions", ())
        found: JSONObject = next((each for each in said if each["type"] == of), {})
        return found

    def administrator(self, where: str) -> Administrator:
        """Return the administrator of a cluster, who sees everything there."""
        return Administrator.of(self._planes[where].access)

    def pods_available(self, namespace: str, clusters: Iterable[str]) -> dict[str, int]:
        """Return how many pods of a namespace are available on each cluster, as its Deployments have it."""
        found = {}
        for name in clusters:
            listed = json.loads(self.kubectl("get", "deployments", "-n", namespace, "-o", "json", where=name))
            found[name] = sum(each.get("status", {}).get("availableReplicas", 0) for each in listed["items"])
        return found

    def until(self, asked: Callable[[], object], otherwise: str) -> None:
        """Wait until something is true; fails with the last words of Echelon when that takes too long."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not asked():
            assert time.monotonic() < deadline, f"{otherwise}\n{self._last_words()}"
            time.sleep(0.1)

    def _last_words(self) -> str:
        servers: Sequence[Server] = self._echelon.servers if self._echelon else ()
        return "\n".join(f"{server.name}:\n{server.last_words(5)}" for server in servers)


def _in(namespace: str) -> tuple[str, ...]:
    return ("-n", namespace) if namespace else ()
