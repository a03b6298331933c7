"""The status of a policy on a hub that keeps only upstream's part of it: the rest goes into an annotation.

Without it nobody could see where a rollout stands; nor could the hub itself, whose record of each cluster is in there,
and who would tell the same events again and again.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

import msgspec

from echelon.api.base import APIStruct, JSONObject
from echelon.api.base import field as described
from echelon.api.meta import Condition
from echelon.api.policy import ClusterCompliance, PolicyStatus
from echelon.api.rollout import RolloutSummary
from echelon.engine.policy.view import PolicyView
from echelon.engine.rollout.annotations import STATUS_ANNOTATION
from echelon.engine.rollout.packed import NotPacked, pack, unpack

_UPSTREAM = ("compliant", "placement", "status")


class _Rest(APIStruct, frozen=True, gc=False, kw_only=True):
    """What upstream's status has no fields for."""

    rollout_status: str = ""
    rollout_last_transition_time: str = ""
    conditions: list[Condition] = []  # noqa: RUF012 - msgspec copies empty containers that are defaults of a Struct
    rollout: RolloutSummary | None = None
    clusters: Annotated[dict[str, tuple[str, str]], described("Status and time of each cluster.")] = {}  # noqa: RUF012 - as above


def with_whole_status(view: PolicyView) -> PolicyView:
    """Return a view with the whole status of its policy, wherever that is kept."""
    if view.keeps_status:
        return view
    policy = view.policy
    rest = _read(policy.metadata.annotations)
    listed = [_told(each, rest.clusters) for each in policy.status.status]
    status = msgspec.structs.replace(
        policy.status,
        rollout_status=rest.rollout_status,
        rollout_last_transition_time=rest.rollout_last_transition_time,
        conditions=rest.conditions,
        rollout=rest.rollout,
        status=listed,
    )
    return replace(view, policy=msgspec.structs.replace(policy, status=status))


def upstream_part(status: PolicyStatus) -> JSONObject:
    """Return what a hub keeps that knows only upstream's fields."""
    plain = [
        msgspec.structs.replace(each, rollout_status="", rollout_last_transition_time="") for each in status.status
    ]
    wire: JSONObject = msgspec.to_builtins(msgspec.structs.replace(status, status=plain))
    return {name: value for name, value in wire.items() if name in _UPSTREAM}


def annotation_of(status: PolicyStatus) -> str:
    """Return the value of the annotation that has the rest."""
    rest = _Rest(
        rollout_status=status.rollout_status,
        rollout_last_transition_time=status.rollout_last_transition_time,
        conditions=status.conditions,
        rollout=status.rollout,
        clusters={each.clustername: (each.rollout_status, each.rollout_last_transition_time) for each in status.status},
    )
    return pack(msgspec.json.encode(rest))


def _read(annotations: Mapping[str, str]) -> _Rest:
    """Read the annotation. What cannot be read is as good as nothing: soaks begin again."""
    try:
        return msgspec.json.decode(unpack(annotations.get(STATUS_ANNOTATION, "") or "{}"), type=_Rest)
    except (msgspec.MsgspecError, NotPacked):
        return _Rest()


def _told(entry: ClusterCompliance, known: Mapping[str, tuple[str, str]]) -> ClusterCompliance:
    status, since = known.get(entry.clustername, ("", ""))
    return msgspec.structs.replace(entry, rollout_status=status, rollout_last_transition_time=since)
