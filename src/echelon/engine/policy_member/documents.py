"""Policies and the objects of their templates, as an agent reads them.

What people write into a policy has to arrive on the cluster with every field, also with those that this version does
not know. So the spec of a policy stays a document here, and so do the objects of templates, whose kinds are anybody's.
Of the status only what an agent reads and writes is typed.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import msgspec

from echelon.api.base import APIStruct, JSONObject
from echelon.api.kinds import Kind
from echelon.api.meta import ObjectMeta
from echelon.api.policy import GROUP, POLICY
from echelon.engine.policy.names import HELD_ANNOTATION, PARENT_LABEL, ROOT_LABEL, root_of

# On a template's object whose kind tells no generation: its latest report before the template changed.
REPORT_BEFORE_CHANGE = "echelon.dev/report-before-change"
TRUE = "true"


class ReplicaStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """The status of a replica, as far as an agent reads it."""

    compliant: str = ""
    rollout_status: str = ""
    rollout_last_transition_time: str = ""
    observed_generation: int = 0
    details: list[JSONObject] | None = None


class PolicyDocument(APIStruct, frozen=True, gc=False, kw_only=True):
    """A replica on the hub, or its copy on the cluster."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JSONObject = msgspec.field(default_factory=dict)
    status: ReplicaStatus = ReplicaStatus()


POLICY_DOCUMENT: Kind[PolicyDocument] = replace(POLICY, type=PolicyDocument)  # type: ignore[arg-type,assignment]


def is_replica(policy: PolicyDocument) -> bool:
    """Whether it is the replica of a policy, or a copy of one; others in the namespace are nobody's business."""
    meta = policy.metadata
    return meta.labels.get(ROOT_LABEL) == meta.name and root_of(meta.name) is not None


def is_held(policy: PolicyDocument) -> bool:
    """Whether the cluster waits for its turn, and nothing is changed there until then."""
    return policy.metadata.annotations.get(HELD_ANNOTATION) == TRUE


def content_mark(policy: PolicyDocument) -> Hashable:
    """Return what changes with the content of a policy and with nothing else."""
    meta = policy.metadata
    return meta.uid, meta.generation, frozenset(meta.labels.items()), frozenset(meta.annotations.items())


class ChildKey(NamedTuple):
    """Which object of a template is meant; all of them are in the cluster's namespace."""

    group: str
    kind: str
    name: str


@dataclass(frozen=True)
class Child:
    """The object of a template, or one that has its name."""

    kind: Kind[Any]
    document: JSONObject

    @property
    def key(self) -> ChildKey:
        """Which object it is."""
        return ChildKey(self.kind.group, self.kind.kind, self.name)

    @property
    def metadata(self) -> JSONObject:
        """Its metadata."""
        found: JSONObject = self.document["metadata"]
        return found

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.metadata["name"])

    @property
    def generation(self) -> int:
        """Which generation of its spec this is."""
        return int(self.metadata.get("generation") or 0)

    @property
    def terminating(self) -> bool:
        """Whether its deletion has been asked for."""
        return bool(self.metadata.get("deletionTimestamp"))

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""
        return self.metadata.get("labels") or {}

    @property
    def annotations(self) -> Mapping[str, str]:
        """Its annotations."""
        return self.metadata.get("annotations") or {}

    @property
    def spec(self) -> JSONObject:
        """What it asks for."""
        return _object(self.document.get("spec"))

    @property
    def status(self) -> JSONObject:
        """What its controller says of it."""
        return _object(self.document.get("status"))

    @property
    def compliant(self) -> str:
        """The verdict of its latest evaluation."""
        return str(self.status.get("compliant") or "")

    @property
    def enforced(self) -> bool:
        """Whether it repairs what it finds."""
        return is_enforce(self.spec.get("remediationAction"))

    @property
    def policy(self) -> str:
        """The policy that it belongs to; empty if there is none."""
        owner = next((each for each in self._owners if _is_policy(each)), None)
        if owner is not None:
            return str(owner.get("name", ""))
        return "" if any(each.get("controller") for each in self._owners) else self.labels.get(PARENT_LABEL, "")

    @property
    def other_owners(self) -> list[JSONObject]:
        """Its owners that are no policies, and do not control it."""
        return [each for each in self._owners if not _is_policy(each) and not each.get("controller")]

    def has_owner(self, policy: PolicyDocument) -> bool:
        """Whether it says itself that it is this policy's, and no predecessor's of that name."""
        return any(each.get("uid") == policy.metadata.uid and each.get("controller") for each in self._owners)

    @property
    def _owners(self) -> list[JSONObject]:
        return self.metadata.get("ownerReferences") or []


def is_enforce(action: object) -> bool:
    """Whether a remediation action repairs."""
    return isinstance(action, str) and action.lower() == "enforce"


def _is_policy(owner: JSONObject) -> bool:
    return owner.get("kind") == POLICY.kind and str(owner.get("apiVersion", "")).partition("/")[0] == GROUP


def _object(value: object) -> JSONObject:
    return value if isinstance(value, dict) else {}
