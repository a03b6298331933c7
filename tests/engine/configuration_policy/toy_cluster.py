"""A cluster in a dictionary, and policies that are evaluated on it."""

import copy
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec

from echelon.api.apps import DEPLOYMENT
from echelon.api.base import JSONObject
from echelon.api.configuration_policy import ConfigurationPolicy
from echelon.api.core import CONFIG_MAP, POD, SECRET
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.service_accounts import SERVICE_ACCOUNT
from echelon.engine.configuration_policy.ending import Ending, end
from echelon.engine.configuration_policy.evaluate import evaluate
from echelon.engine.configuration_policy.names import FINALIZER, LEDGER_ANNOTATION
from echelon.engine.configuration_policy.namespaces import NamespaceFacts
from echelon.engine.configuration_policy.requests import (
    Cause,
    Do,
    FindKind,
    Get,
    IsGone,
    List,
    ListNamespaces,
    Pause,
    Refusal,
    Remember,
    Request,
    Steps,
    Try,
)
from echelon.engine.configuration_policy.status import Conclusion, conclude
from echelon.engine.plan import Create, Delete, Patch
from echelon.hub.verbs.patch import merge_patch

T = TypeVar("T")
Place = tuple[str, str, str]  # plural, namespace, name

START = datetime(2026, 5, 1, 12, tzinfo=UTC)
MANAGER = "policy-agent"
WIDGET = Kind[Any]("example.io", "v1", "Widget", "widgets", dict, namespaced=True)
KINDS: tuple[Kind[Any], ...] = (CONFIG_MAP, SECRET, POD, NAMESPACE, SERVICE_ACCOUNT, DEPLOYMENT, WIDGET)


def as_stored(_: Kind[Any], obj: JSONObject) -> JSONObject:
    """Store an object as it is sent."""
    return obj


@dataclass
class ToyCluster:
    """Objects, and everything that was written to them."""

    kinds: Sequence[Kind[Any]] = KINDS
    store: Callable[[Kind[Any], JSONObject], JSONObject] = as_stored
    objects: dict[Place, JSONObject] = field(default_factory=dict)
    writes: list[str] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    refuse: Callable[[Request], Refusal | None] = lambda _: None
    stuck: set[str] = field(default_factory=set)  # names of objects that a finalizer keeps
    past: dict[Place, JSONObject] = field(default_factory=dict)  # what reads of an object show, while they are behind
    memory: Remember | None = None
    _versions: Any = field(default_factory=lambda: itertools.count(1))

    def put(self, kind: Kind[Any], name: str, namespace: str = "default", **body: Any) -> JSONObject:
        """Let somebody else create an object."""
        inside = namespace if kind.namespaced else ""
        metadata = {"name": name, **({"namespace": inside} if inside else {}), **body.pop("metadata", {})}
        made: JSONObject = self._put(kind, inside, {**kind.type_meta, "metadata": metadata, **body}, "somebody")
        return made

    def get(self, kind: Kind[Any], name: str, namespace: str = "default") -> JSONObject | None:
        return self.objects.get((kind.plural, namespace if kind.namespaced else "", name))

    def drop(self, kind: Kind[Any], name: str, namespace: str = "default") -> None:
        del self.objects[kind.plural, namespace if kind.namespaced else "", name]

    def namespace(self, name: str, **labels: str) -> None:
        self.put(NAMESPACE, name, metadata={"labels": labels})

    def carry_out(self, steps: Steps[T]) -> T:
        """Answer what is asked, to the end."""
        answer: Any = None
        while True:
            try:
                request = steps.send(answer)
            except StopIteration as stop:
                result: T = stop.value
                return result
            self.requests.append(request)
            answer = self.refuse(request) or self._answer(request)

    def _answer(self, request: Request) -> Any:
        match request:
            case FindKind(version, name):
                return next((each for each in self.kinds if (each.api_version, each.kind) == (version, name)), None)
            case ListNamespaces():
                found = [each["metadata"] for (plural, _, _), each in self.objects.items() if plural == "namespaces"]
                return [NamespaceFacts(each["name"], each.get("labels") or {}) for each in found]
            case Get(kind, namespace, name):
                seen = self.past.get((kind.plural, namespace, name))
                return copy.deepcopy(seen or self.get(kind, name, namespace))
            case IsGone(kind, namespace, name, uid):
                there = self.get(kind, name, namespace)
                return there is None or uid not in ("", there["metadata"]["uid"])
            case List(kind, namespace):
                places = [key for key in self.objects if key[0] == kind.plural and namespace in ("", key[1])]
                # As servers do, without saying in each item what it is.
                return [_without_type(copy.deepcopy(self.objects[each])) for each in places]
            case Try(write):
                return self._write(write, dry=True)
            case Do(write):
                return self._write(write, dry=False)
            case Remember():
                self.memory = request
                self.writes.append("Remember")
                return None
            case Pause():
                return None

    def _write(self, write: Create | Patch | Delete, *, dry: bool) -> Any:
        place = (write.kind.plural, write.namespace, write.name)
        live = self.objects.get(place)
        if not dry:
            self.writes.append(f"{type(write).__name__} {write.kind.kind} {write.name}")
        if isinstance(write, Create):
            if live is not None:
                return Refusal(Cause.CONFLICT, f'{write.kind.plural} "{write.name}" already exists')
            if write.namespace and ("namespaces", "", write.namespace) not in self.objects:
                return Refusal(Cause.NOT_FOUND, f'namespaces "{write.namespace}" not found')
            return self._put(write.kind, write.namespace, copy.deepcopy(write.body), MANAGER, dry=dry)
        if live is None:
            return Refusal(Cause.NOT_FOUND, f'{write.kind.plural} "{write.name}" not found')
        metadata = live["metadata"]
        if write.uid not in ("", metadata["uid"]) or write.resource_version not in ("", metadata["resourceVersion"]):
            return Refusal(Cause.CONFLICT, "the object has been modified")
        if isinstance(write, Delete):
            if write.name in self.stuck:
                metadata["deletionTimestamp"] = "2026-05-01T12:00:00Z"
            else:
                del self.objects[place]
            return None
        merged = merge_patch(live, copy.deepcopy(write.body))
        assert isinstance(merged, dict)
        return self._put(write.kind, write.namespace, merged, MANAGER, dry=dry)

    def _put(self, kind: Kind[Any], namespace: str, obj: JSONObject, manager: str, *, dry: bool = False) -> Any:
        number, metadata = str(next(self._versions)), obj["metadata"]
        managers = {each["manager"] for each in metadata.get("managedFields", ())} | {manager}
        metadata = {
            **metadata,
            "uid": metadata.get("uid") or f"uid-{number}",
            "resourceVersion": number,
            "managedFields": [{"manager": each} for each in sorted(managers)],
        }
        stored = self.store(kind, {**obj, **kind.type_meta, "metadata": metadata})
        if not dry:
            self.objects[kind.plural, namespace, metadata["name"]] = stored
        return copy.deepcopy(stored)

    def content(self) -> dict[Place, JSONObject]:
        """Return everything without what only the server cares for."""
        ours = ("uid", "resourceVersion", "managedFields")
        return {
            place: {**obj, "metadata": {key: value for key, value in obj["metadata"].items() if key not in ours}}
            for place, obj in self.objects.items()
        }


@dataclass
class Story:
    """A policy on a cluster, from evaluation to evaluation."""

    cluster: ToyCluster
    policy: ConfigurationPolicy
    now: datetime = START

    def evaluate(self) -> Conclusion:
        """Evaluate the policy as it is, and store what is told of it."""
        self.now += timedelta(seconds=10)
        self.cluster.writes.clear()
        evaluation = self.cluster.carry_out(evaluate(self.policy, self.now, MANAGER))
        self._remember()
        told = conclude(self.policy, evaluation, self.now)
        # As a server stores it, and as it is read again.
        stored = msgspec.convert(msgspec.to_builtins(told.status), type(told.status))
        assert stored == told.status
        self.policy = msgspec.structs.replace(self.policy, status=stored)
        return told

    def end(self) -> Ending:
        """Let the policy be deleted."""
        self.now += timedelta(seconds=10)
        self.cluster.writes.clear()
        ending = self.cluster.carry_out(end(self.policy, MANAGER))
        self._remember()
        return ending

    def change(self, **spec: Any) -> None:
        """Give the policy another spec."""
        body = {**msgspec.to_builtins(self.policy.spec), **spec}
        metadata = self.policy.metadata
        self.policy = msgspec.structs.replace(
            self.policy,
            spec=policy(**body).spec,
            metadata=msgspec.structs.replace(metadata, generation=metadata.generation + 1),
        )

    def annotate(self, **annotations: str) -> None:
        known = self.policy.metadata.annotations
        said = {f"echelon.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
        metadata = msgspec.structs.replace(self.policy.metadata, annotations={**known, **said})
        self.policy = msgspec.structs.replace(self.policy, metadata=metadata)

    def _remember(self) -> None:
        if (memory := self.cluster.memory) is None:
            return
        self.cluster.memory = None
        metadata = self.policy.metadata
        annotations = {key: value for key, value in metadata.annotations.items() if key != LEDGER_ANNOTATION}
        if memory.ledger is not None:
            annotations[LEDGER_ANNOTATION] = memory.ledger
        finalizers = [FINALIZER] if memory.finalizer else []
        metadata = msgspec.structs.replace(metadata, annotations=annotations, finalizers=finalizers)
        self.policy = msgspec.structs.replace(self.policy, metadata=metadata)

    def live(self, kind: Kind[Any], name: str) -> JSONObject:
        found = self.cluster.get(kind, name)
        assert found is not None
        return found

    @property
    def state(self) -> str:
        return self.policy.status.compliant

    @property
    def reasons(self) -> list[str]:
        return [each.conditions[0].reason for each in self.policy.status.compliancy_details]

    @property
    def messages(self) -> list[str]:
        return [each.conditions[0].message for each in self.policy.status.compliancy_details]

    @property
    def related(self) -> list[tuple[str, str, str]]:
        """Return the names of related objects, with their state and reason."""
        return [(each.object.metadata.name, each.compliant, each.reason) for each in self.policy.status.related_objects]

    @property
    def pending(self) -> list[tuple[str, str, str]]:
        return [(each.change, each.kind, each.name) for each in self.policy.status.pending_changes]


def policy(*templates: JSONObject, **spec: Any) -> ConfigurationPolicy:
    body: JSONObject = {"object-templates": list(templates), **spec} if templates else spec
    metadata = {"name": "p", "namespace": "c1", "uid": "p-uid", "generation": 1, "resourceVersion": "1"}
    return msgspec.convert({"metadata": metadata, "spec": body}, ConfigurationPolicy)


def template(definition: JSONObject, type_: str = "musthave", **more: Any) -> JSONObject:
    return {"complianceType": type_, "objectDefinition": definition, **more}


def config_map(name: str | None = "x", namespace: str | None = "default", **body: Any) -> JSONObject:
    metadata = {"name": name, "namespace": namespace, **body.pop("metadata", {})}
    metadata = {key: value for key, value in metadata.items() if value is not None}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **body}


def story(*templates: JSONObject, cluster: ToyCluster | None = None, **spec: Any) -> Story:
    """Begin with a cluster that has a namespace, and a policy that enforces."""
    cluster = cluster or ToyCluster()
    if cluster.get(NAMESPACE, "default") is None:
        cluster.namespace("default")
    return Story(cluster, policy(*templates, **{"remediationAction": "enforce", **spec}))


def _without_type(obj: JSONObject) -> JSONObject:
    return {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}
