"""A policy with its spec as it was given: typed objects lose the fields that they do not know.

What is replicated is the whole spec, with whatever a newer client put there.
"""

from dataclasses import replace
from typing import Annotated

from echelon.api.base import APIStruct, JSONObject
from echelon.api.base import field as described
from echelon.api.kinds import Kind
from echelon.api.meta import ObjectMeta
from echelon.api.policy import POLICY, PolicyStatus


class RawPolicy(APIStruct, frozen=True, gc=False, kw_only=True):
    """A Policy, or the replica of one."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JSONObject = {}  # noqa: RUF012 - msgspec copies empty containers that are defaults of a Struct
    status: Annotated[PolicyStatus, described("How far the policy is.")] = PolicyStatus()


RAW_POLICY: Kind[RawPolicy] = replace(POLICY, type=RawPolicy)  # type: ignore[arg-type,assignment]
