"""Replicas as tests want them."""

from datetime import UTC, datetime
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.meta import ObjectMeta
from echelon.api.policy import ComplianceHistory, PolicyStatus, TemplateDetails
from echelon.api.times import format_micro_time
from echelon.engine.policy.names import EVENTS_ANNOTATION
from echelon.engine.policy.raw_policy import RawPolicy
from echelon.engine.policy.replica import Replica, read_replica
from tests.controllers.policy_world import template

START = datetime(2026, 11, 1, 12, tzinfo=UTC)


def replica(
    cluster: str = "c1",
    *,
    spec: JSONObject | None = None,
    written: datetime | None = START,
    generation: int = 2,
    events: str = "",
    reports: dict[str, str] | None = None,
    **status: Any,
) -> Replica:
    """Return a replica that enforces a template, unless something else is said."""
    notes = {"echelon.dev/written-at": format_micro_time(written)} if written is not None else {}
    if events:
        notes[EVENTS_ANNOTATION] = events
    meta = ObjectMeta(name="apps.audit", namespace=cluster, uid=cluster, generation=generation, annotations=notes)
    details = status.pop("details", None) or [
        TemplateDetails(template_meta={"name": name}, history=[ComplianceHistory(event_name=event)])
        for name, event in (reports or {}).items()
    ]
    wanted = spec or {"disabled": False, "remediationAction": "enforce", "policy-templates": [template()]}
    return read_replica(RawPolicy(metadata=meta, spec=wanted, status=PolicyStatus(details=details, **status)))
