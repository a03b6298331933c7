"""What a server's audit log says about pods: every write in the order in which it was committed.

Whoever asks the controllers, or watches, learns what they say, or what there was a moment later. The audit log has the
answer to every write, with its version, so the pods that there were at the very moment of a deletion can be told.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "RequestResponse",
            "verbs": ["create", "update", "patch", "delete"],
            "resources": [{"group": "", "resources": ["pods", "pods/status"]}],
        },
        {"level": "None"},
    ],
}


@dataclass(frozen=True)
class PodWrite:
    """A write that was taken, and the pod after it; a pod that was deleted shows as it last was."""

    version: int
    verb: str
    user: str
    pod: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The name of the pod."""
        return str(self.pod["metadata"]["name"])


def read_writes(log: Path) -> list[PodWrite]:
    """Return the writes of an audit log, in the order in which they were committed."""
    writes = []
    for line in log.read_text().splitlines():
        event = json.loads(line)
        found = event.get("responseObject") or {}
        if event["responseStatus"].get("code", 500) >= 300 or found.get("kind") != "Pod":
            continue  # refused, or the last step of a deletion, after which nothing is left to be told
        if event["verb"] == "delete" and "resourceVersion" not in found["metadata"]:
            continue  # the pod was gone already: the server answers with what it had last seen, as it never was stored
        version = int(found["metadata"]["resourceVersion"])
        writes.append(PodWrite(version, event["verb"], event["user"]["username"], found))
    return sorted(writes, key=lambda write: write.version)


@dataclass(frozen=True)
class Group:
    """A scaling group: its cliques with the pods that each needs, and how many replicas have to stay."""

    cliques: Mapping[str, int]
    floor: int


@dataclass
class Pods:
    """The pods of a namespace while writes come in."""

    labels: dict[str, Mapping[str, str]] = field(default_factory=dict)  # by uid, of those that are ready

    def see(self, write: PodWrite) -> None:
        """Take a write in."""
        meta = write.pod["metadata"]
        if _is_ready(write.pod) and write.verb != "delete" and "deletionTimestamp" not in meta:
            self.labels[meta["uid"]] = meta["labels"]
        else:
            self.labels.pop(meta["uid"], None)

    def ready(self, clique: str) -> int:
        """Return how many pods of a clique are ready and stay."""
        return sum(each.get("grove.io/podclique") == clique for each in self.labels.values())

    def ready_replicas(self, name: str, group: Group) -> int:
        """Return how many replicas of a group have enough ready pods in every clique."""
        counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for each in self.labels.values():
            if each.get("grove.io/podcliquescalinggroup") == name:
                replica = each["grove.io/podcliquescalinggroup-replica-index"]
                counts[replica][each["grove.io/podclique"].removeprefix(f"{name}-{replica}-")] += 1
        return sum(all(found[clique] >= least for clique, least in group.cliques.items()) for found in counts.values())


def below_the_floor(
    writes: Iterable[PodWrite], controller: str, cliques: Mapping[str, int], groups: Mapping[str, Group]
) -> Iterator[str]:
    """Tell of each deletion by a controller that took something ready, and left too little: of cliques and groups.

    `cliques` has how many ready pods of a standalone clique have to stay, by its full name.
    """
    pods = Pods()
    for write in writes:
        before = _counts(pods, cliques, groups)
        pods.see(write)
        if write.verb != "delete" or write.user != controller:
            continue
        for name, left in _counts(pods, cliques, groups).items():
            floor = cliques[name] if name in cliques else groups[name].floor
            if left < before[name] and left < floor:
                yield f"{name}: {left} of at least {floor} left when {write.name} went"


def _counts(pods: Pods, cliques: Mapping[str, int], groups: Mapping[str, Group]) -> dict[str, int]:
    found = {name: pods.ready(name) for name in cliques}
    return {**found, **{name: pods.ready_replicas(name, group) for name, group in groups.items()}}


def _is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
