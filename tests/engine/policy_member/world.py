"""Policies, templates and the objects of templates for tests, and a cluster that does as plans say."""

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import msgspec

from echelon.api.base import JSONObject
from echelon.api.configuration_policy import CONFIGURATION_POLICY
from echelon.api.core import Event
from echelon.api.kinds import Kind
from echelon.engine.plan import Create, Delete, Patch, Write
from echelon.engine.policy_member.copies import copy_write
from echelon.engine.policy_member.documents import Child, ChildKey, PolicyDocument
from echelon.engine.policy_member.reports import Report, event_of
from echelon.engine.policy_member.sync import TemplateSync, TemplateView, sync_templates
from echelon.hub.verbs.patch import merge_patch

CLUSTER, NAME = "c1", "policies.web"
HELD, ENFORCED_BEFORE, RETRIED = "echelon.dev/held", "echelon.dev/enforced-before", "echelon.dev/retried-at"
PARENT = "policy.open-cluster-management.io/policy"
KINDS: dict[tuple[str, str], Any] = {
    (CONFIGURATION_POLICY.api_version, CONFIGURATION_POLICY.kind): CONFIGURATION_POLICY
}
LABELS = {
    "policy.open-cluster-management.io/root-policy": NAME,
    "policy.open-cluster-management.io/cluster-name": CLUSTER,
    "policy.open-cluster-management.io/cluster-namespace": CLUSTER,
}


def template(name: str = "web", value: str = "1", *, action: str = "", **more: Any) -> JSONObject:
    """Return a template that wants a config map with a value."""
    data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value}}
    spec: JSONObject = {"object-templates": [{"complianceType": "musthave", "objectDefinition": data}]}
    if action:
        spec["remediationAction"] = action
    definition = {**CONFIGURATION_POLICY.type_meta, "metadata": {"name": name}, "spec": spec}
    return {"objectDefinition": definition, **more}


def policy(
    *templates: JSONObject,
    action: str = "enforce",
    annotations: dict[str, str] | None = None,
    held: bool = False,
    uid: str = "u1",
    name: str = NAME,
    **spec: Any,
) -> PolicyDocument:
    """Return a policy, on the hub or on the cluster; a held one is set to inform, as the hub does."""
    notes = {**(annotations or {}), **({HELD: "true"} if held else {})}
    wanted = "inform" if held else action
    content = {"disabled": False, "policy-templates": list(templates), **spec}
    if wanted:
        content["remediationAction"] = wanted
    meta = {
        "name": name,
        "namespace": CLUSTER,
        "uid": uid,
        "generation": 1,
        "resourceVersion": "1",
        "labels": LABELS,
        "annotations": notes,
    }
    return msgspec.convert({"metadata": meta, "spec": content}, PolicyDocument)


@dataclass
class Cluster:
    """The namespace of a cluster: what is in it, and what plans make of that."""

    policy: PolicyDocument
    children: dict[ChildKey, Child] = field(default_factory=dict)
    kinds: dict[tuple[str, str], Any] = field(default_factory=lambda: dict(KINDS))
    compliance: dict[Any, str] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    finalizer: bool = False  # whether objects stay for a while when they are deleted
    version: int = 1

    def plan(self) -> TemplateSync:
        view = TemplateView(self.policy, dict(self.children), self.kinds, self.compliance, self.events, self.refused)
        planned = sync_templates(view)
        assert sync_templates(view) == planned
        return planned

    def sync(self, rounds: int = 3) -> TemplateSync:
        """Do what is planned until there is nothing left to do."""
        for _ in range(rounds):
            planned = self.plan()
            for each in planned.writes:
                for write in each.writes:
                    self.apply(write)
            if not planned.writes:
                break
        return self.plan()

    def receive(self, replica: PolicyDocument) -> None:
        """Make the copy equal to a replica, as another write would."""
        write = copy_write(replica, self.policy, CLUSTER)
        if write is not None:
            assert isinstance(write, Patch)
            meta = msgspec.structs.replace(
                self.policy.metadata, labels=replica.metadata.labels, annotations=replica.metadata.annotations
            )
            spec = merge_patch(self.policy.spec, write.body.get("spec", {}))
            self.policy = msgspec.structs.replace(self.policy, metadata=meta, spec=spec)
        assert copy_write(replica, self.policy, CLUSTER) is None

    def apply(self, write: Write) -> None:
        self.version += 1
        if isinstance(write, Create):
            key = ChildKey(write.kind.group, write.kind.kind, write.name)
            assert key not in self.children
            meta = {"uid": f"u-{self.version}", "generation": 1, "resourceVersion": str(self.version)}
            body = deepcopy(write.body)
            self.children[key] = Child(write.kind, {**body, "metadata": {**body["metadata"], **meta}})
            return
        key = ChildKey(write.kind.group, write.kind.kind, write.name)
        before = self.children[key]
        assert not isinstance(write, Delete) or write.uid == before.metadata["uid"]
        if isinstance(write, Delete):
            if self.finalizer:
                self.put({"deletionTimestamp": "2026-01-01T00:00:00Z"}, before.kind, before.document)
            else:
                del self.children[key]
            return
        assert isinstance(write, Patch)
        assert write.resource_version == before.metadata["resourceVersion"], "somebody else was faster"
        after = merge_patch(before.document, write.body)
        changed = after.get("spec") != before.document.get("spec")
        generation = before.generation + (1 if changed else 0)
        self.put({"generation": generation, "resourceVersion": str(self.version)}, before.kind, after)

    def put(self, meta: JSONObject, kind: Kind[Any], document: JSONObject) -> None:
        child = Child(kind, {**document, "metadata": {**document["metadata"], **meta}})
        self.children[child.key] = child

    def child(self, name: str = "web") -> Child:
        return self.children[ChildKey(CONFIGURATION_POLICY.group, CONFIGURATION_POLICY.kind, name)]

    def report(self, compliant: str, name: str = "web", **status: Any) -> None:
        """Let the controller of an object say something about its present generation."""
        before = self.child(name)
        said = {"compliant": compliant, "lastEvaluatedGeneration": before.generation, **status}
        self.version += 1
        document = {**before.document, "status": {**before.status, **said}}
        self.put({"resourceVersion": str(self.version)}, before.kind, document)

    def tell(self, message: str, name: str = "web", moment: int = 1) -> None:
        """Report something of a template by an event."""
        report = Report(f"{NAME}.{moment:x}", moment, message)
        self.events.append(msgspec.convert(event_of(self.policy, name, report, "test"), Event))

    @property
    def names(self) -> list[str]:
        return sorted(each.name for each in self.children.values() if not each.terminating)
