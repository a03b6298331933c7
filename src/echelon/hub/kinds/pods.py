"""What the server fills in for pods, and checks, that concerns where and when they are placed."""

from echelon.api.base import JSONObject
from echelon.kube.errors import Cause

_FAILING = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_BEARS_SECONDS = 300


def bear_failing_nodes(spec: JSONObject) -> None:
    """Let a pod stay for five minutes on a node that fails, unless it says something about that itself."""
    present = spec.get("tolerations") or []
    missing = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _BEARS_SECONDS}
        for key in _FAILING
        if not any(t.get("key") in (None, "", key) and t.get("effect") in (None, "", "NoExecute") for t in present)
    ]
    if missing:
        spec["tolerations"] = [*present, *missing]


def gated_conditions(spec: JSONObject, now: str) -> JSONObject:
    """Return what the status of a new pod says about its gates."""
    if not spec.get("schedulingGates"):
        return {}
    why = "Scheduling is blocked due to non-empty scheduling gates"
    gated = {"type": "PodScheduled", "status": "False", "lastTransitionTime": now}
    return {"conditions": [{**gated, "reason": "SchedulingGated", "message": why}]}


def check_gates(spec: JSONObject, old: JSONObject | None) -> list[Cause]:
    """Find what may not be while there are gates: a node, more gates, a place that is not part of the one before."""
    gates = [gate.get("name") or "" for gate in spec.get("schedulingGates") or ()]
    causes: list[Cause] = []
    if gates and spec.get("nodeName"):
        why = "Forbidden: cannot be set until all schedulingGates have been cleared"
        causes.append(Cause("spec.nodeName", why, "FieldValueForbidden"))
    if old is None:
        return causes
    before = {gate.get("name") for gate in old.get("schedulingGates") or ()}
    for number, name in enumerate(gates):
        if name not in before:
            why = f"Forbidden: only deletion is allowed, but found new scheduling gate '{name}'"
            causes.append(Cause(f"spec.schedulingGates[{number}].name", why, "FieldValueForbidden"))
    return causes + _check_place(spec, old) if before else causes


def without_place(spec: JSONObject) -> JSONObject:
    """Return a spec without what may be narrowed while there are gates."""
    rest = {name: value for name, value in spec.items() if name != "nodeSelector"}
    affinity = {name: value for name, value in (rest.pop("affinity", None) or {}).items() if name != "nodeAffinity"}
    return {**rest, "affinity": affinity} if affinity else rest


def _check_place(spec: JSONObject, old: JSONObject) -> list[Cause]:
    causes: list[Cause] = []
    selector = spec.get("nodeSelector") or {}
    if any(selector.get(name) != value for name, value in (old.get("nodeSelector") or {}).items()):
        why = "Invalid value: only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        causes.append(Cause("spec.nodeSelector", why))
    path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    before, after = _required_terms(old), _required_terms(spec)
    if before and len(before) != len(after):
        causes.append(
            Cause(path, "Invalid value: no additions/deletions to non-empty NodeSelectorTerms list are allowed")
        )
    elif before:
        causes += [
            Cause(f"{path}[{number}]", "Invalid value: only additions are allowed (no mutations or deletions)")
            for number, (was, term) in enumerate(zip(before, after, strict=True))
            if not _narrows(was, term)
        ]
    return causes


def _required_terms(spec: JSONObject) -> list[JSONObject]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return list(required.get("nodeSelectorTerms") or ())


def _narrows(was: JSONObject, term: JSONObject) -> bool:
    if not any(was.values()):
        return was == term  # a term without conditions matches nothing; with one it would match something
    return all(
        (term.get(part) or [])[: len(was.get(part) or [])] == (was.get(part) or [])
        for part in ("matchExpressions", "matchFields")
    )
