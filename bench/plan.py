"""What `echelon plan` costs: a change of a work set that every cluster of a captured fleet has, in groups of a hundred.

The whole command in a process of its own, from its start over the file of the fleet to the last printed line. CPU time
is beside the seconds, because others may use the machine. With a hub, lists come over the network instead of a file.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from bench import report
from bench.progress import Progress
from echelon.api.base import JSONObject
from echelon.fleet.capture import Capture, to_document

LIMITS = {1_000: 2.0, 10_000: 10.0}
CHANGES = 10  # the exit code
_NS, _GROUP = "bench", 100
_TIME = "2026-11-01T00:00:00Z"
_CLUSTERS, _WORKS = "cluster.open-cluster-management.io", "work.open-cluster-management.io"
_JOINED = ("HubAcceptedManagedCluster", "ManagedClusterJoined", "ManagedClusterConditionAvailable")


@dataclass(frozen=True)
class Planned:
    """A figure: what one plan over so many clusters took."""

    clusters: int
    seconds: float
    cpu: float

    @property
    def title(self) -> str:
        """What was measured."""
        return f"{self.clusters:,} clusters"


def measure(progress: Progress, sizes: Sequence[int] = tuple(LIMITS)) -> list[Planned]:
    """Plan a change for fleets of these sizes."""
    return [_measured(progress, size) for size in sizes]


def _measured(progress: Progress, size: int) -> Planned:
    progress.begin(f"planning for {size:,} clusters")
    with tempfile.TemporaryDirectory() as directory:
        fleet, change = Path(directory, "fleet.json"), Path(directory, "change.yaml")
        captured = Capture(datetime(2026, 11, 18, tzinfo=UTC), tuple(objects(size)))
        fleet.write_text(json.dumps(to_document(captured)))
        change.write_text(yaml.safe_dump(work_set("web:2")))
        command = [sys.executable, "-m", "echelon", "plan", "-f", str(change), "--fleet", str(fleet)]
        before, began = children_cpu(), time.monotonic()
        ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
        seconds, cpu = time.monotonic() - began, children_cpu() - before
    if ended.returncode != CHANGES or f"{size} clusters get something" not in ended.stdout:
        raise RuntimeError(f"the plan failed: {ended.stdout[-500:]}{ended.stderr[-500:]}")
    return Planned(size, seconds, cpu)


def children_cpu() -> float:
    """Return the CPU seconds of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def objects(size: int) -> Iterator[JSONObject]:
    """Return a fleet that has a work set everywhere."""
    names = [f"cluster-{number:05d}" for number in range(size)]
    yield _made("v1", "Namespace", _NS)
    yield _made(f"{_CLUSTERS}/v1beta2", "ManagedClusterSet", "all")
    yield _made(f"{_CLUSTERS}/v1beta2", "ManagedClusterSetBinding", "all", _NS, spec={"clusterSet": "all"})
    placement = _made(f"{_CLUSTERS}/v1beta1", "Placement", "p", _NS)
    groups = [names[begin : begin + _GROUP] for begin in range(0, size, _GROUP)]
    told = [
        {"decisionGroupIndex": index, "decisionGroupName": "", "decisions": [_slice(index)], "clusterCount": len(each)}
        for index, each in enumerate(groups)
    ]
    strategy = {"groupStrategy": {"clustersPerDecisionGroup": _GROUP}}
    placement["spec"] = {"clusterSets": ["all"], "decisionStrategy": strategy}
    placement["status"] = {"numberOfSelectedClusters": size, "decisionGroups": told}
    yield placement
    for index, each in enumerate(groups):
        yield _decision(placement, index, each)
    yield work_set("web:1")
    template = work_set("web:1")["spec"]["manifestWorkTemplate"]
    said = [_condition(kind, status) for kind, status in (("Applied", "True"), ("Available", "True"))]
    for name in names:
        yield _made("v1", "Namespace", name)
        yield {
            **_made(f"{_CLUSTERS}/v1", "ManagedCluster", name, spec={"hubAcceptsClient": True}),
            "metadata": {"name": name, "uid": name, "generation": 1, "labels": {f"{_CLUSTERS}/clusterset": "all"}},
            "status": {"conditions": [_condition(kind, "True") for kind in _JOINED]},
        }
        work = _made(f"{_WORKS}/v1", "ManifestWork", "web", name, spec=template, status={"conditions": said})
        work["metadata"]["labels"] = {f"{_WORKS}/manifestworkreplicaset": f"{_NS}.web", f"{_WORKS}/placementname": "p"}
        yield work


def work_set(image: str) -> JSONObject:
    """Return a work set with a Deployment of an image."""
    labels = {"app": "web"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": image}]}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": pod},
    }
    strategy = {"type": "ProgressivePerGroup", "progressivePerGroup": {"minSuccessTime": "5m", "maxFailures": "2%"}}
    spec = {
        "manifestWorkTemplate": {"workload": {"manifests": [deployment]}},
        "placementRefs": [{"name": "p", "rolloutStrategy": strategy}],
    }
    return _made(f"{_WORKS}/v1alpha1", "ManifestWorkReplicaSet", "web", _NS, spec=spec)


def _decision(placement: JSONObject, index: int, clusters: Sequence[str]) -> JSONObject:
    meta = placement["metadata"]
    owner = {"apiVersion": placement["apiVersion"], "kind": "Placement", "name": meta["name"], "uid": meta["uid"]}
    status = {"decisions": [{"clusterName": name, "reason": ""} for name in clusters]}
    found = _made(f"{_CLUSTERS}/v1beta1", "PlacementDecision", _slice(index), _NS, status=status)
    found["metadata"] |= {
        "labels": {
            f"{_CLUSTERS}/placement": meta["name"],
            f"{_CLUSTERS}/decision-group-index": str(index),
            f"{_CLUSTERS}/decision-group-name": "",
        },
        "ownerReferences": [{**owner, "controller": True}],
    }
    return found


def _slice(index: int) -> str:
    return f"p-decision-{index + 1}"


def _condition(kind: str, status: str) -> JSONObject:
    said = {"reason": "Said", "message": "", "observedGeneration": 1}
    return {"type": kind, "status": status, "lastTransitionTime": _TIME, **said}


def _made(api_version: str, kind: str, name: str, namespace: str = "", **fields: Any) -> JSONObject:
    where = {"namespace": namespace} if namespace else {}
    meta = {"name": name, "uid": f"{kind}-{namespace}-{name}", "generation": 1, **where}
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, **fields}


def table(found: Sequence[Planned]) -> str:
    """Return the figures next to what is allowed."""
    rows = [("echelon plan, of a captured fleet", "seconds", "CPU s", "limit")]
    for one in found:
        limit = LIMITS.get(one.clusters)
        rows.append((one.title, f"{one.seconds:.1f}", f"{one.cpu:.1f}", f"{limit:g}" if limit else ""))
    return report.aligned(rows)
