"""Objects with the statuses that clusters give them."""

from typing import Any

from echelon.api.base import JSONObject


def made(version: str, kind: str, spec: JSONObject | None = None, status: JSONObject | None = None) -> JSONObject:
    meta = {"name": "web", "namespace": "shop", "generation": 3}
    parts = {"spec": spec, "status": status}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": meta,
        **{name: part for name, part in parts.items() if part is not None},
    }


def counts(observed: int, total: int, updated: int, available: int, **more: Any) -> JSONObject:
    return {
        "observedGeneration": observed,
        "replicas": total,
        "updatedReplicas": updated,
        "readyReplicas": available,
        "availableReplicas": available,
        **more,
    }


def said(kind: str, status: str, reason: str = "", message: str = "", **more: Any) -> JSONObject:
    return {"type": kind, "status": status, "reason": reason, "message": message, **more}


def deployment(status: JSONObject, **spec: Any) -> JSONObject:
    return made("apps/v1", "Deployment", {"replicas": 5, **spec}, status)
