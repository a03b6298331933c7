"""Which node a pod goes to: one that it may use, that has room, that it prefers, and that has the most room left."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

import msgspec

from echelon.api.base import JSONObject
from echelon.api.quantity import QuantityError, parse_quantity
from echelon.fleet.member.decide.affinity import ANYWHERE, NodeChoice, place_of

DISK_PRESSURE = "node.kubernetes.io/disk-pressure"
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
_NUMBER = re.compile(r"\d+")
_COUNTED = ("cpu", "memory", "pods")
_OFTEN_UNLISTED = "ephemeral-storage"  # where a node does not say how much it has, it has enough
Taint = tuple[str, str, str]  # key, value, effect


class Requests(msgspec.Struct, frozen=True, gc=False):
    """What a pod asks for: thousandths of a core, bytes of memory, and any other resource by name."""

    cpu: int = 0
    memory: int = 0
    others: tuple[tuple[str, int], ...] = ()


class NodeView(msgspec.Struct, frozen=True, gc=False):
    """A node, as the scheduler sees it; resources are thousandths of a core, bytes of memory, and pods."""

    name: str
    labels: Mapping[str, str]
    allocatable: tuple[int, int, int]
    taints: tuple[Taint, ...] = ()
    ready: bool = True
    cordoned: bool = False
    others: Mapping[str, int] = {}  # whatever else it has, such as GPUs


class Usage(msgspec.Struct):
    """What the pods of a node have asked for."""

    cpu: int = 0
    memory: int = 0
    pods: int = 0
    others: dict[str, int] = {}

    def add(self, requests: Requests, sign: int = 1) -> None:
        """Take in a pod, or with -1 let one go."""
        self.cpu += sign * requests.cpu
        self.memory += sign * requests.memory
        self.pods += sign
        for name, number in requests.others:
            self.others[name] = self.others.get(name, 0) + sign * number


class Demand(msgspec.Struct, frozen=True, eq=False):
    """All that decides where a pod can go. Pods with one demand are interchangeable, so it is compared by identity."""

    requests: Requests = Requests()
    place: NodeChoice = ANYWHERE
    tolerations: tuple[JSONObject, ...] = ()


NOTHING_SPECIAL = Demand()


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
        others={name: amount(value) for name, value in room.items() if name not in _COUNTED},
    )


def demand_of(pod_spec: JSONObject) -> Demand:
    """Take from a pod what decides where it can go."""
    return Demand(requests_of(pod_spec), place_of(pod_spec), tuple(pod_spec.get("tolerations") or ()))


def requests_of(pod_spec: JSONObject) -> Requests:
    """Return what a pod asks for: the sum of its containers, or the most that it needs before they start."""
    first = [(_asked(each), each.get("restartPolicy") == "Always") for each in pod_spec.get("initContainers") or ()]
    then = [_asked(each) for each in pod_spec.get("containers") or ()]
    overhead = pod_spec.get("overhead") or {}
    names = dict.fromkeys(name for each in (*(asked for asked, _ in first), *then, overhead) for name in each)

    def total(name: str) -> int:
        scale = 1000 if name == "cpu" else 1
        staying = peak = 0
        for asked, stays in first:
            number = amount(asked.get(name), scale)
            peak = max(peak, staying + number)
            staying += number if stays else 0
        running = staying + sum(amount(asked.get(name), scale) for asked in then)
        return max(peak, running) + amount(overhead.get(name), scale)

    others = [(name, total(name)) for name in sorted(names) if name not in _COUNTED]
    return Requests(total("cpu"), total("memory"), tuple(each for each in others if each[1]))


def _asked(container: JSONObject) -> JSONObject:
    """Return the requests of a container; what has only a limit is asked for up to there."""
    resources = container.get("resources") or {}
    return {**(resources.get("limits") or {}), **(resources.get("requests") or {})}


def choose(demand: Demand, nodes: Iterable[NodeView], usage: Mapping[str, Usage]) -> tuple[str, str]:
    """Return the node for a pod, or an empty name and why there is none."""
    known = [(node, usage.get(node.name) or Usage()) for node in nodes]
    fit = [each for each in known if not obstacles(demand, *each)]
    if fit:
        return min((rank(demand, node), load(demand, node, used), node.name) for node, used in fit)[2], ""
    return "", explanation(demand, (node for node, _ in known), usage)


def rank(demand: Demand, node: NodeView) -> int:
    """Return what decides between nodes before their load does: lower is better."""
    return -demand.place.preference(node.name, node.labels)


def load(demand: Demand, node: NodeView, used: Usage) -> float:
    """Return how full a node would be with a pod."""
    cpu, memory, _ = node.allocatable
    requests = demand.requests
    return (used.cpu + requests.cpu) / (cpu or 1) + (used.memory + requests.memory) / (memory or 1)


def explanation(demand: Demand, nodes: Iterable[NodeView], usage: Mapping[str, Usage]) -> str:
    """Say why no node will do, in the words of the scheduler."""
    reasons: Counter[str] = Counter()
    total = 0
    for node in nodes:
        total += 1
        reasons.update(obstacles(demand, node, usage.get(node.name) or Usage()))
    listed = ", ".join(f"{count} {why}" for why, count in sorted(reasons.items()))
    hint = "preemption: not helpful for scheduling"
    return f"0/{total} nodes are available: {listed or 'no nodes'}. {hint}"


def same_but_numbers(one: str, other: str) -> bool:
    """Tell whether two explanations differ in numbers only: these change with every pod, and would be news to all."""
    return _NUMBER.sub("", one) == _NUMBER.sub("", other)


def obstacles(demand: Demand, node: NodeView, used: Usage) -> list[str]:
    """Return what keeps a pod from a node: the first reason that lies in the node itself, or all that it lacks."""
    if why := closed(demand, node):
        return [why]
    return shortage(demand.requests, node, used)


def closed(demand: Demand, node: NodeView) -> str:
    """Return why a pod may not use a node, however much room it has; empty if it may."""
    place = demand.place
    if (names := place.names) and node.name not in names:
        return "node(s) didn't satisfy plugin(s) [NodeAffinity]"
    if node.cordoned and untolerated(demand.tolerations, [_UNSCHEDULABLE]):
        return "node(s) were unschedulable"
    if taint := untolerated(demand.tolerations, node.taints):
        return f"node(s) had untolerated taint {{{taint[0]}: {taint[1]}}}"
    if not node.ready and untolerated(demand.tolerations, [_NOT_READY]):
        return "node(s) had untolerated taint {node.kubernetes.io/not-ready: }"
    if not place.allows(node.name, node.labels):
        return "node(s) didn't match Pod's node affinity/selector"
    return ""


# A node that is cordoned or not ready keeps pods away even before somebody has tainted it.
_UNSCHEDULABLE: Taint = ("node.kubernetes.io/unschedulable", "", "NoSchedule")
_NOT_READY: Taint = (NOT_READY, "", "NoSchedule")


def shortage(requests: Requests, node: NodeView, used: Usage) -> list[str]:
    """Return what a node has too little of."""
    cpu, memory, pods = node.allocatable
    lacking = []
    if used.pods + 1 > pods:
        lacking.append("Too many pods")
    if requests.cpu and used.cpu + requests.cpu > cpu:
        lacking.append("Insufficient cpu")
    if requests.memory and used.memory + requests.memory > memory:
        lacking.append("Insufficient memory")
    for name, number in requests.others:
        if name == _OFTEN_UNLISTED and name not in node.others:
            continue
        if used.others.get(name, 0) + number > node.others.get(name, 0):
            lacking.append(f"Insufficient {name}")
    return lacking


def untolerated(tolerations: Sequence[JSONObject], taints: Sequence[Taint]) -> Taint | None:
    """Return the first taint that keeps a pod away."""
    for taint in taints:
        if taint[2] != "PreferNoSchedule" and not any(tolerates(each, taint) for each in tolerations):
            return taint
    return None


def tolerates(toleration: JSONObject, taint: Taint) -> bool:
    """Tell whether a toleration is about a taint."""
    key, value, effect = taint
    if toleration.get("effect") not in (None, "", effect):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return toleration.get("key") in (None, "", key)
    return toleration.get("key") == key and (toleration.get("value") or "") == value
