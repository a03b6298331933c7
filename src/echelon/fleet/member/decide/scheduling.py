"""Which node a pod goes to: one that it may use, that has room, and that has the most of it left."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

import msgspec

from echelon.api.base import JSONObject
from echelon.api.quantity import QuantityError, parse_quantity

DISK_PRESSURE = "node.kubernetes.io/disk-pressure"


class NodeView(msgspec.Struct, frozen=True, gc=False):
    """A node, as the scheduler sees it; resources are thousandths of a core, bytes of memory, and pods."""

    name: str
    labels: Mapping[str, str]
    allocatable: tuple[int, int, int]
    taints: tuple[tuple[str, str, str], ...] = ()  # key, value, effect
    ready: bool = True
    cordoned: bool = False


class Usage(msgspec.Struct, gc=False):
    """What the pods of a node have asked for."""

    cpu: int = 0
    memory: int = 0
    pods: int = 0

    def add(self, requests: tuple[int, int], sign: int = 1) -> None:
        """Take in a pod, or with -1 let one go."""
        self.cpu += sign * requests[0]
        self.memory += sign * requests[1]
        self.pods += sign


def amount(value: str | int | None, scale: int = 1) -> int:
    """Read a quantity, in parts of one; what cannot be read asks for nothing."""
    try:
        exact: Fraction = parse_quantity(value).exact() * scale if value is not None else Fraction(0)
    except QuantityError:
        return 0
    return -(-exact.numerator // exact.denominator)


def read_node(node: JSONObject) -> NodeView:
    """Take the facts from a node."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    room = status.get("allocatable") or {}
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    return NodeView(
        name=node["metadata"]["name"],
        labels=node["metadata"].get("labels") or {},
        allocatable=(amount(room.get("cpu"), 1000), amount(room.get("memory")), amount(room.get("pods"))),
        taints=tuple((t["key"], t.get("value") or "", t["effect"]) for t in spec.get("taints") or ()),
        ready=conditions.get("Ready") == "True",
        cordoned=bool(spec.get("unschedulable")),
    )


def requests_of(pod_spec: JSONObject) -> tuple[int, int]:
    """Return what a pod asks for: the sum of its containers, or its hungriest init container."""

    def total(name: str, scale: int) -> int:
        each = [_request(container, name, scale) for container in pod_spec.get("containers") or ()]
        first = [_request(container, name, scale) for container in pod_spec.get("initContainers") or ()]
        return max(sum(each), max(first, default=0)) + amount((pod_spec.get("overhead") or {}).get(name), scale)

    return total("cpu", 1000), total("memory", 1)


def _request(container: JSONObject, name: str, scale: int) -> int:
    return amount(((container.get("resources") or {}).get("requests") or {}).get(name), scale)


def choose(
    pod_spec: JSONObject, requests: tuple[int, int], nodes: Iterable[NodeView], usage: Mapping[str, Usage]
) -> tuple[str, str]:
    """Return the node for a pod, or an empty name and why there is none."""
    reasons: Counter[str] = Counter()
    best: tuple[Fraction, str] | None = None
    total = 0
    for node in nodes:
        total += 1
        used = usage.get(node.name) or Usage()
        if why := _obstacle(pod_spec, requests, node, used):
            reasons[why] += 1
            continue
        load = Fraction(used.cpu + requests[0], node.allocatable[0] or 1) + Fraction(
            used.memory + requests[1], node.allocatable[1] or 1
        )
        if best is None or (load, node.name) < best:
            best = (load, node.name)
    if best is not None:
        return best[1], ""
    listed = ", ".join(f"{count} {why}" for why, count in sorted(reasons.items()))
    hint = "preemption: not helpful for scheduling"
    return "", f"0/{total} nodes are available: {listed or 'no nodes'}. {hint}"


def _obstacle(pod_spec: JSONObject, requests: tuple[int, int], node: NodeView, used: Usage) -> str:
    if (pinned := pinned_node(pod_spec)) and pinned != node.name:
        return "node(s) didn't satisfy plugin(s) [NodeAffinity]"
    if node.cordoned:
        return "node(s) were unschedulable"
    if not node.ready:
        return "node(s) had untolerated taint {node.kubernetes.io/not-ready: }"
    if taint := untolerated(pod_spec.get("tolerations") or (), node.taints):
        return f"node(s) had untolerated taint {{{taint[0]}: {taint[1]}}}"
    if not selected(pod_spec, node):
        return "node(s) didn't match Pod's node affinity/selector"
    if used.pods + 1 > node.allocatable[2]:
        return "Too many pods"
    if used.cpu + requests[0] > node.allocatable[0] and requests[0]:
        return "Insufficient cpu"
    if used.memory + requests[1] > node.allocatable[1] and requests[1]:
        return "Insufficient memory"
    return ""


def selected(pod_spec: JSONObject, node: NodeView) -> bool:
    """Tell whether a node has the labels that a pod wants."""
    return all(node.labels.get(name) == value for name, value in (pod_spec.get("nodeSelector") or {}).items())


def pinned_node(pod_spec: JSONObject) -> str:
    """Return the one node that a pod is for, as a DaemonSet says it; empty for any other pod."""
    required = ((pod_spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    for term in required.get("nodeSelectorTerms") or ():
        for each in term.get("matchFields") or ():
            if each.get("key") == "metadata.name" and each.get("operator") == "In" and each.get("values"):
                return str(each["values"][0])
    return ""


def untolerated(
    tolerations: Sequence[JSONObject], taints: Sequence[tuple[str, str, str]]
) -> tuple[str, str, str] | None:
    """Return the first taint that keeps a pod away."""
    for taint in taints:
        if taint[2] != "PreferNoSchedule" and not any(_tolerates(each, taint) for each in tolerations):
            return taint
    return None


def _tolerates(toleration: JSONObject, taint: tuple[str, str, str]) -> bool:
    key, value, effect = taint
    if toleration.get("effect") not in (None, "", effect):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return toleration.get("key") in (None, "", key)
    return toleration.get("key") == key and (toleration.get("value") or "") == value
