"""A hub and a member with Echelon installed by Helm, on real control planes, and its programs as processes.

There are no machines, so nobody starts the pods. What a pod would be is started here: the arguments are those of the
Deployment that Helm made, and the identity is a token of its service account. Only addresses and files are others.
"""

import base64
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml
from tools import charts

from echelon.api.base import JSONObject
from tests.environment import ControlPlane, Programs, start_together
from tests.environment.etcd import Etcd
from tests.environment.processes import ProcessGroup, Server
from tests.install.audited_calls import Call, audit_policy, calls

PATIENCE_SECONDS = 180.0
HUB, MEMBER = "hub", "member-1"
SYSTEM, AGENT = "echelon-system", "echelon-agent"
CONTROLLERS_USER = f"system:serviceaccount:{SYSTEM}:echelon-controllers"
AGENT_ON_HUB, AGENT_USER = (
    f"system:serviceaccount:{MEMBER}:echelon-agent",
    f"system:serviceaccount:{AGENT}:echelon-agent",
)
# Templates of workloads are on the hub, and nobody may run them there.
NO_WORKLOADS = "--controllers=*,-deployment-controller,-replicaset-controller,-statefulset-controller"


class Installed:
    """Use it as a context manager. `values` are those of the charts."""

    def __init__(self, programs: Programs, kubectl: str, directory: Path, values: Mapping[str, JSONObject]) -> None:
        self._programs = programs
        self._kubectl = kubectl
        self._directory = directory
        self._values = values
        self._etcd = Etcd(programs, directory / "etcd")
        self._planes = {HUB: self._plane(HUB), MEMBER: self._plane(MEMBER)}
        self._echelon: ProcessGroup | None = None
        self.processes: dict[str, Server] = {}

    def _plane(self, name: str) -> ControlPlane:
        place = self._directory / name
        place.mkdir(parents=True)
        users = (CONTROLLERS_USER, AGENT_ON_HUB) if name == HUB else (AGENT_USER,)
        (place / "audit-policy.json").write_text(json.dumps(audit_policy(users)))
        audited = (f"--audit-policy-file={place / 'audit-policy.json'}", f"--audit-log-path={place / 'audit.jsonl'}")
        on_hub = name == HUB
        return ControlPlane(
            self._programs,
            place,
            controller_manager=True,
            manager_options=(NO_WORKLOADS,) if on_hub else (),
            scheduler=not on_hub,
            kwok_nodes=0 if on_hub else 1,
            api_options=audited,
            etcd=self._etcd,
        )

    def __enter__(self) -> Self:
        self._etcd.__enter__()
        try:
            start_together(self._planes.values())
            self._echelon = ProcessGroup(self._directory)
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

    def install(self, chart: str, where: str, namespace: str) -> None:
        """Install a chart, as an administrator does; nobody waits for pods, which never come."""
        command = [
            str(self._programs.path("helm")),
            "install",
            chart,
            str(charts.CHARTS / chart),
            f"--kubeconfig={self._planes[where].access.kubeconfig}",
            f"--namespace={namespace}",
            "--create-namespace",
            "--values=-",
        ]
        places = {name: str(self._directory) for name in ("HOME", "HELM_CACHE_HOME", "HELM_CONFIG_HOME")}
        values = json.dumps(self._values[chart])
        done = subprocess.run(command, input=values, capture_output=True, text=True, check=False, env=places)
        assert done.returncode == 0, done.stderr
        self.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s", where=where)

    def start(self, name: str, deployment: str, where: str, namespace: str, **changed: str) -> Server:
        """Start what a pod of a Deployment would be, with some options changed."""
        found = self.get("deployment", deployment, namespace, where)["spec"]["template"]["spec"]
        (container,) = found["containers"]
        options = {"metrics-listen": "127.0.0.1:0", **{key.replace("_", "-"): value for key, value in changed.items()}}
        arguments = [_changed(each, options) for each in container["args"]]
        own = self.identity(found["serviceAccountName"], namespace, where)
        assert self._echelon is not None
        process = self._echelon.start(
            Path(sys.executable), ["-m", "echelon", *arguments, "--kubeconfig", str(own)], name
        )
        self.processes[name] = process
        return process

    def identity(self, account: str, namespace: str, where: str) -> Path:
        """Write the kubeconfig of an account."""
        access = self._planes[where].access
        token = self.kubectl("create", "token", account, "-n", namespace, where=where).strip()
        authority = (access.keys / "ca.crt").read_bytes()
        path = self._directory / f"{where}-{namespace}-{account}"
        cluster = {"server": access.url, "certificate-authority-data": base64.b64encode(authority).decode()}
        path.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "it", "cluster": cluster}],
                    "users": [{"name": account, "user": {"token": token}}],
                    "contexts": [{"name": "it", "context": {"cluster": "it", "user": account}}],
                    "current-context": "it",
                }
            )
        )
        return path

    def user(self, name: str) -> Path:
        """Return the kubeconfig of a person on the hub, who has what roles give to that name."""
        return self._planes[HUB].access.kubeconfig_for(name)

    def ask(self, *arguments: str, kubeconfig: Path, stdin: str | None = None) -> tuple[int, str]:
        """Run kubectl as somebody."""
        command = [self._kubectl, "--kubeconfig", str(kubeconfig), *arguments]
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
        )
        return done.returncode, done.stdout if done.returncode == 0 else done.stdout + done.stderr

    def kubectl(self, *arguments: str, where: str = HUB, stdin: str | None = None) -> str:
        """Run kubectl as an administrator; it has to succeed."""
        code, text = self.ask(*arguments, kubeconfig=self._planes[where].access.kubeconfig, stdin=stdin)
        assert code == 0, f"kubectl {' '.join(arguments)}: {text}"
        return text

    def echelon(self, *arguments: str, kubeconfig: Path | None = None) -> tuple[int, str]:
        """Run a command of Echelon on the hub, as an administrator unless somebody else is named."""
        way = str(kubeconfig or self._planes[HUB].access.kubeconfig)
        command = [sys.executable, "-m", "echelon", *arguments, "--kubeconfig", way]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)
        return done.returncode, done.stdout + done.stderr

    def get(self, kind: str, name: str, namespace: str = "", where: str = HUB) -> JSONObject:
        """Return an object; an empty one if it is not there."""
        scope = ("-n", namespace) if namespace else ()
        found = self.kubectl("get", kind, name, *scope, "-o", "json", "--ignore-not-found", where=where)
        read: JSONObject = json.loads(found) if found else {}
        return read

    def until_gone(self, kind: str, namespace: str) -> None:
        """Wait until a namespace of the hub has nothing of a kind."""
        asked = ("get", kind, "-n", namespace, "-o", "name")
        self.until(lambda: not self.kubectl(*asked).strip(), f"{kind} stay in {namespace}")

    def delete(self, kind: str, name: str, namespace: str) -> None:
        """Delete an object of the hub, as an administrator, without waiting for its end."""
        self.kubectl("delete", kind, name, "-n", namespace, "--wait=false")

    def condition(self, of: str, kind: str, name: str, namespace: str = "", where: str = HUB) -> JSONObject:
        """Return a condition that is about the present generation; an empty one if there is none."""
        found = self.get(kind, name, namespace, where)
        said = [each for each in found.get("status", {}).get("conditions", ()) if each["type"] == of]
        present = found.get("metadata", {}).get("generation")
        return next((each for each in said if each.get("observedGeneration", present) == present), {})

    def until(self, asked: Callable[[], object], otherwise: str) -> None:
        """Wait until something is true; fails with the last words of Echelon when that takes too long."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not asked():
            assert time.monotonic() < deadline, f"{otherwise}\n{self._last_words()}"
            time.sleep(0.2)

    def until_true(self, condition: str, kind: str, name: str, namespace: str = "") -> None:
        """Wait until a condition holds on the hub."""
        self.until(
            lambda: self.condition(condition, kind, name, namespace).get("status") == "True",
            f"{kind} {name} is not {condition}",
        )

    def metrics_of(self, process: str) -> str:
        """Return where a process serves its metrics."""
        found: list[str] = []

        def told() -> bool:
            found[:] = re.findall(r"metrics at (\S+?)/metrics", self.processes[process].log.read_text())
            return bool(found)

        self.until(told, f"{process} does not say where its metrics are")
        return found[-1]  # of the last start

    def calls(self, where: str, user: str) -> list[Call]:
        """Return what an account was seen to do."""
        return [each for each in calls(self._directory / where / "audit.jsonl") if each.user == user]

    def _last_words(self) -> str:
        return "\n".join(f"{name}:\n{server.last_words(8)}" for name, server in self.processes.items())


def _changed(argument: str, options: Mapping[str, str]) -> str:
    name, equals, _ = argument.removeprefix("--").partition("=")
    return f"--{name}={options[name]}" if equals and name in options else argument
