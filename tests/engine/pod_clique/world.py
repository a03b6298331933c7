"""A cluster with one set, as values: objects in their wire forms, nodes that run pods, users, a controller that plans.

Nothing waits for anything here: a moment passes when a test says so. Objects are replaced and never changed, so that a
view of an earlier moment is a copy of a dictionary. What a server would refuse is refused: writes of another version.
"""

import copy
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias, TypeVar

from echelon.api.base import JSONObject
from echelon.api.grove import KINDS, POD_CLIQUE, POD_CLIQUE_SCALING_GROUP, POD_CLIQUE_SET
from echelon.api.podgangs import POD_GANG
from echelon.api.times import format_time
from echelon.engine.plan import Create, Delete, Emit, InOrder, Patch, Plan, Together, Write
from echelon.engine.pod_clique.names import GANG, GATE, TEMPLATE_HASH
from echelon.engine.pod_clique.plan import plan
from echelon.engine.pod_clique.pod_facts import read_pod
from echelon.engine.pod_clique.set_spec import Settings
from echelon.engine.pod_clique.view import (
    CliqueView,
    SetReading,
    SetView,
    read_clique,
    read_gang,
    read_group,
    read_set,
    reread_clique,
    reread_set,
)

BEGIN = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
NAMESPACE = "ns"
POD = "Pod"
Key: TypeAlias = tuple[str, str]  # kind and name
Store: TypeAlias = dict[Key, JSONObject]
T = TypeVar("T")

_COUNTED = frozenset(kind.kind for kind in KINDS)  # kinds whose generation counts changes of their spec


class Refused(Exception):
    """The server does not take a write."""


def merge(into: Any, patch: Any) -> Any:
    """Merge a patch as RFC 7396 has it."""
    if not isinstance(patch, Mapping):
        return patch
    found = dict(into) if isinstance(into, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = merge(found.get(name), value)
    return found


@dataclass(frozen=True)
class Deleted:
    """A deletion that the controller made, with what its plan had seen."""

    name: str
    seen: Store
    plan: int
    at: datetime


@dataclass
class World:
    """A cluster."""

    now: datetime = BEGIN
    store: Store = field(default_factory=dict)
    starts_in: float = 2.0  # seconds from having a node to being ready
    ends_in: float = 1.0  # seconds from being deleted to being gone
    homeless: set[str] = field(default_factory=set)  # images that no node takes
    sick: set[str] = field(default_factory=set)  # images that never become ready
    cordoned: bool = False
    capacity: int | None = None
    lost: set[str] = field(default_factory=set)  # pods on dead nodes: they do not end by themselves
    frozen: set[str] = field(default_factory=set)  # pods that never become ready
    refuse: Callable[[Write], bool] = lambda _: False
    events: list[Emit] = field(default_factory=list)
    deleted: list[Deleted] = field(default_factory=list)
    made: list[tuple[str, Store]] = field(default_factory=list)  # pods that the controller made, and what it had seen
    plans: list[Plan] = field(default_factory=list)
    settings: Settings = field(default_factory=Settings)
    reread: bool = True
    watchers: list[Callable[[], None]] = field(default_factory=list)  # told after each commit
    on_plan: Callable[[Store], None] = lambda _: None
    on_write: Callable[[Write, Store], None] = lambda _, __: None
    _number: Any = field(default_factory=lambda: itertools.count(1))
    _cliques: dict[str, tuple[Any, CliqueView]] = field(default_factory=dict)
    _others: dict[str, tuple[JSONObject, Any]] = field(default_factory=dict)
    _sets: tuple[JSONObject, list[JSONObject], SetReading] | None = None

    # The server

    def get(self, kind: str, name: str) -> JSONObject:
        return self.store[kind, name]

    def of(self, kind: str) -> dict[str, JSONObject]:
        return {name: body for (each, name), body in self.store.items() if each == kind}

    def create(self, body: JSONObject) -> None:
        key = (body["kind"], body["metadata"]["name"])
        if key in self.store:
            raise Refused(f"{key} exists")
        number = next(self._number)
        metadata = {
            **body["metadata"],
            "uid": f"uid-{number}",
            "resourceVersion": str(number),
            "generation": 1,
            "creationTimestamp": format_time(self.now),
            "namespace": NAMESPACE,
        }
        made = {**copy.deepcopy(body), "metadata": metadata}
        if body["kind"] == POD:
            gated = bool(body["spec"].get("schedulingGates"))
            word = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated" if gated else "Waiting"}
            made["status"] = {"phase": "Pending", "conditions": [word]}
        self._put(key, made)

    def patch(self, kind: str, name: str, body: JSONObject, seen: Patch | None = None) -> None:
        if (kind, name) not in self.store:
            raise Refused(f"{kind} {name} is not there")
        before = self.store[kind, name]
        metadata = before["metadata"]
        if seen is not None and (seen.uid, seen.resource_version) != (metadata["uid"], metadata["resourceVersion"]):
            raise Refused(f"{kind} {name} has changed")
        after = merge(before, body)
        if after == before:
            return
        number = next(self._number)
        counted = kind in _COUNTED and after.get("spec") != before.get("spec")
        after["metadata"] = {
            **after["metadata"],
            "resourceVersion": str(number),
            "generation": metadata["generation"] + counted,
        }
        self._put((kind, name), after)

    def delete(self, kind: str, name: str, *, force: bool = False) -> None:
        """Delete an object; pods take their time, unless they are forced or have ended."""
        body = self.store.get((kind, name))
        if body is None:
            raise Refused(f"{kind} {name} is not there")
        if kind == POD and not force and body["status"]["phase"] not in ("Failed", "Succeeded") and not _waits(body):
            if not body["metadata"].get("deletionTimestamp"):
                self.patch(kind, name, {"metadata": {"deletionTimestamp": format_time(self.now)}})
            return
        del self.store[kind, name]
        uid = body["metadata"]["uid"]
        for (child_kind, child), each in list(self.store.items()):
            owners = each["metadata"].get("ownerReferences", ())
            if any(owner["uid"] == uid for owner in owners) and (child_kind, child) in self.store:
                self.delete(child_kind, child)
        self._told()

    def _put(self, key: Key, body: JSONObject) -> None:
        self.store[key] = body
        self._told()

    def _told(self) -> None:
        for watcher in self.watchers:
            watcher()

    # Nodes

    def tick(self, seconds: float = 1.0) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)
        running = sum(bool(body["spec"].get("nodeName")) for body in self.of(POD).values())
        for name, body in sorted(self.of(POD).items()):
            if (POD, name) not in self.store:
                continue
            deleted = body["metadata"].get("deletionTimestamp")
            if deleted:
                over = self.now - datetime.fromisoformat(deleted) >= timedelta(seconds=self.ends_in)
                if over and name not in self.lost:
                    self.delete(POD, name, force=True)
            elif body["status"]["phase"] in ("Failed", "Succeeded") or body["spec"].get("schedulingGates"):
                continue
            elif not body["spec"].get("nodeName"):
                fits = self.capacity is None or running < self.capacity
                running += self._place(name, body, fits=fits)
            else:
                self._run(name, body)

    def _place(self, name: str, body: JSONObject, *, fits: bool) -> bool:
        if self.cordoned or not fits or image(body) in self.homeless:
            self._say(name, "PodScheduled", "False", "Unschedulable")
            return False
        self.patch(POD, name, {"spec": {"nodeName": "node"}})
        self._say(name, "PodScheduled", "True", "")
        return True

    def _run(self, name: str, body: JSONObject) -> None:
        begun = body["status"].get("startTime")
        if begun is None:
            container = {"name": "c", "started": False, "ready": False}
            change = {"phase": "Running", "startTime": format_time(self.now), "containerStatuses": [container]}
            self.patch(POD, name, {"status": change})
            return
        waited = self.now - datetime.fromisoformat(begun) >= timedelta(seconds=self.starts_in)
        if not waited or is_ready(body):
            return
        well = image(body) not in self.sick and name not in self.frozen
        kept = body["status"]["containerStatuses"][0]
        self.patch(POD, name, {"status": {"containerStatuses": [{**kept, "started": True, "ready": well}]}})
        self._say(name, "Ready", str(well), "")

    def _say(self, name: str, kind: str, status: str, reason: str) -> None:
        body = self.get(POD, name)
        before = [each for each in body["status"].get("conditions", ()) if each["type"] != kind]
        known = [each for each in body["status"].get("conditions", ()) if each["type"] == kind]
        if known and (known[0]["status"], known[0].get("reason", "")) == (status, reason):
            return
        word = {"type": kind, "status": status, "reason": reason, "lastTransitionTime": format_time(self.now)}
        self.patch(POD, name, {"status": {"conditions": [*before, word]}})

    def crash(self, name: str) -> None:
        """Let a container of a pod end with an error and be started again."""
        kept = {"name": "c", "started": True, "ready": False, "lastState": {"terminated": {"exitCode": 1}}}
        change = {"startTime": format_time(self.now), "containerStatuses": [kept]}
        self.patch(POD, name, {"status": change})
        self._say(name, "Ready", "False", "")

    def fail(self, name: str, phase: str = "Failed") -> None:
        """Let a pod end."""
        ended = {"name": "c", "state": {"terminated": {"exitCode": 1, "finishedAt": format_time(self.now)}}}
        self.patch(POD, name, {"status": {"phase": phase, "reason": "Evicted", "containerStatuses": [ended]}})
        self._say(name, "Ready", "False", "")

    # The controller

    def view(self, store: Store | None = None) -> SetView:
        """Observe what a store holds; what was read before is not read again."""
        store = self.store if store is None else store
        pods: dict[str, list[JSONObject]] = {}
        kinds: dict[str, dict[str, JSONObject]] = {}
        for (kind, name), body in store.items():
            kinds.setdefault(kind, {})[name] = body
            if kind == POD:
                pods.setdefault(body["metadata"]["labels"]["grove.io/podclique"], []).append(body)
        body = next(iter(kinds[POD_CLIQUE_SET.kind].values()))
        return SetView(
            self._set(body, list(kinds.get("ControllerRevision", {}).values())),
            cliques={
                name: self._clique(name, each, pods.get(name, []))
                for name, each in kinds.get(POD_CLIQUE.kind, {}).items()
            },
            groups={
                name: self._once(read_group, each)
                for name, each in kinds.get(POD_CLIQUE_SCALING_GROUP.kind, {}).items()
            },
            gangs={name: self._once(read_gang, each) for name, each in kinds.get(POD_GANG.kind, {}).items()},
            services=kinds.get("Service", {}),
            service_accounts=kinds.get("ServiceAccount", {}),
            roles=kinds.get("Role", {}),
            role_bindings=kinds.get("RoleBinding", {}),
            secrets=kinds.get("Secret", {}),
            autoscalers=kinds.get("HorizontalPodAutoscaler", {}),
            reread=self.reread,
        )

    def _set(self, body: JSONObject, revisions: list[JSONObject]) -> SetReading:
        known = self._sets
        if known is None or list(map(id, known[1])) != list(map(id, revisions)):
            known = self._sets = (body, revisions, read_set(body, revisions, self.settings))
        elif known[0] is not body:
            known = self._sets = (body, revisions, reread_set(known[2], body))
        return known[2]

    def _once(self, read: Callable[[JSONObject], T], body: JSONObject) -> T:
        """Read a version of an object once."""
        known = self._others.get(body["metadata"]["uid"])
        if known is None or known[0] is not body:
            known = self._others[body["metadata"]["uid"]] = (body, read(body))
        found: T = known[1]
        return found

    def _clique(self, name: str, body: JSONObject, pods: list[JSONObject]) -> CliqueView:
        owned = [pod for pod in pods if pod["metadata"]["ownerReferences"][0]["uid"] == body["metadata"]["uid"]]
        version = (body["metadata"]["resourceVersion"], tuple(pod["metadata"]["resourceVersion"] for pod in owned))
        known = self._cliques.get(name)
        if known is None or known[1].metadata.uid != body["metadata"]["uid"]:
            known = self._cliques[name] = (version, read_clique(body, [read_pod(pod) for pod in owned]))
        elif known[0] != version:
            facts = [self._once(read_pod, pod) for pod in owned] if known[0][1] != version[1] else None
            known = self._cliques[name] = (version, reread_clique(known[1], body, facts, {}))
        return known[1]

    def forget(self) -> None:
        """Let the controller's process start anew."""
        self._cliques.clear()
        self._others.clear()
        self._sets = None

    def reconcile(self, store: Store | None = None, *, stop_after: int | None = None) -> Plan:
        """Plan what is there, or was, and carry it out; a controller that dies does so after some writes."""
        seen = dict(self.store if store is None else store)
        planned = plan(self.view(seen), self.now)
        self.on_plan(seen)
        self.plans.append(planned)
        self.carry_out(planned, seen, stop_after=stop_after)
        return planned

    def carry_out(self, planned: Plan, seen: Store, *, stop_after: int | None = None) -> int:
        """Do what a plan says; return how many writes were not taken."""
        left, failed = [10**9 if stop_after is None else stop_after], 0
        for action in planned.actions:
            if isinstance(action, Emit):
                self.events.append(action)
            elif isinstance(action, Together):
                failed += sum(not self._row(each, seen, left) for each in action.actions)
            else:
                failed += not self._row(action, seen, left)
        if planned.status is not None:
            failed += not self._write(planned.status, seen, left)
        return failed

    def _row(self, action: Write | InOrder, seen: Store, left: list[int]) -> bool:
        writes = action.actions if isinstance(action, InOrder) else (action,)
        written: set[tuple[str, str]] = set()
        for each in writes:
            if isinstance(each, Emit):
                self.events.append(each)
            elif isinstance(each, Together):
                if sum(not self._row(one, seen, left) for one in each.actions):
                    return False
            elif not self._write(each, seen, left, own=written):
                return False
        return True

    def _write(self, write: Write, seen: Store, left: list[int], own: set[tuple[str, str]] | None = None) -> bool:
        if left[0] <= 0:
            return True
        left[0] -= 1
        key = (write.kind.kind, write.name)
        if self.refuse(write):
            return False
        try:
            self._take(write, seen, again=own is not None and key in own)
        except Refused:
            return False
        if own is not None:
            own.add(key)
        return True

    def _take(self, write: Write, seen: Store, *, again: bool) -> None:
        kind, name = write.kind.kind, write.name
        if isinstance(write, Create):
            if not _owner_is_there(write.body, self.store):
                raise Refused("garbage")
            if kind == POD:
                self.on_write(write, seen)
            self.create(write.body)
            if kind == POD:
                self.made.append((name, seen))
        elif isinstance(write, Patch):
            self.patch(kind, name, write.body, None if again else write)
        elif isinstance(write, Delete):
            body = self.store.get((kind, name))
            if body is None or body["metadata"]["uid"] != write.uid:
                raise Refused("not there")
            if write.resource_version and body["metadata"]["resourceVersion"] != write.resource_version:
                raise Refused("changed")
            self.on_write(write, seen)
            if kind == POD:
                self.deleted.append(Deleted(name, seen, len(self.plans), self.now))
            self.delete(kind, name)

    def settle(self, seconds: float = 60, step: float = 1.0) -> None:
        """Let the controller work until nothing is left to be done now, again and again, for some time."""
        for _ in range(int(seconds / step)):
            self.work()
            self.tick(step)
        self.work()

    def work(self, most: int = 60) -> None:
        """Let the controller work until nothing is left to be done now."""
        for _ in range(most):
            if self.reconcile().empty:
                return
        raise AssertionError(f"the controller does not come to rest: {self.plans[-1]}")

    # What tests ask

    def live(self, clique: str) -> list[JSONObject]:
        """Return the live pods of a clique, by index."""
        found = [body for body in self.of(POD).values() if pod_clique(body) == clique and is_live(body)]
        return sorted(found, key=pod_index)

    def told(self, reason: str) -> list[Emit]:
        return [each for each in self.events if each.reason == reason]

    def status(self, kind: str, name: str) -> JSONObject:
        found: JSONObject = self.get(kind, name).get("status", {})
        return found

    def condition(self, kind: str, name: str, which: str) -> JSONObject | None:
        conditions = self.status(kind, name).get("conditions", ())
        return next((each for each in conditions if each["type"] == which), None)


def _waits(body: JSONObject) -> bool:
    """Whether a pod has no node, so that nobody has to end it."""
    return not body["spec"].get("nodeName")


def _owner_is_there(body: JSONObject, store: Store) -> bool:
    owners = body["metadata"].get("ownerReferences", ())
    uids = {each["metadata"]["uid"] for each in store.values()}
    return all(owner["uid"] in uids for owner in owners)


def is_live(body: JSONObject) -> bool:
    return not body["metadata"].get("deletionTimestamp") and body["status"]["phase"] not in ("Failed", "Succeeded")


def is_ready(body: JSONObject) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in body["status"].get("conditions", ()))


def is_scheduled(body: JSONObject) -> bool:
    return bool(body["spec"].get("nodeName"))


def image(body: JSONObject) -> str:
    found: str = body["spec"]["containers"][0]["image"]
    return found


def pod_clique(body: JSONObject) -> str:
    found: str = body["metadata"]["labels"]["grove.io/podclique"]
    return found


def pod_index(body: JSONObject) -> int:
    return int(body["spec"]["hostname"].rpartition("-")[2])


def pod_hash(body: JSONObject) -> str:
    found: str = body["metadata"]["labels"][TEMPLATE_HASH]
    return found


def gated(body: JSONObject) -> bool:
    return any(each["name"] == GATE for each in body["spec"].get("schedulingGates", ()))


def gang_of(body: JSONObject) -> str:
    found: str = body["metadata"]["labels"][GANG]
    return found


def names(bodies: Iterable[JSONObject]) -> list[str]:
    return [each["metadata"]["name"] for each in bodies]


# Sets


def clique(name: str, replicas: int, minimum: int | None = None, **more: Any) -> JSONObject:
    """Return a clique of a set, which runs image `v1`."""
    spec: JSONObject = {
        "roleName": name,
        "replicas": replicas,
        "podSpec": {"containers": [{"name": "c", "image": "v1"}]},
    }
    if minimum is not None:
        spec["minAvailable"] = minimum
    return {"name": name, "spec": spec, **more}


def group(name: str, cliques: list[str], replicas: int = 1, minimum: int = 1, **more: Any) -> JSONObject:
    return {"name": name, "cliqueNames": cliques, "replicas": replicas, "minAvailable": minimum, **more}


def pod_clique_set(
    cliques: list[JSONObject],
    groups: list[JSONObject] | None = None,
    *,
    name: str = "w",
    replicas: int = 1,
    strategy: str | None = None,
    **template: Any,
) -> JSONObject:
    spec: JSONObject = {"replicas": replicas, "template": {"cliques": cliques, **template}}
    if groups:
        spec["template"]["podCliqueScalingGroups"] = groups
    if strategy is not None:
        spec["updateStrategy"] = {"type": strategy}
    return {**POD_CLIQUE_SET.type_meta, "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def world_of(body: JSONObject, *, settled: bool = True, **more: Any) -> World:
    """Return a world with a set, by default one whose pods all run."""
    world = World(**more)
    world.create(body)
    if settled:
        world.settle(15)
    return world


def edit(world: World, cliques: str | Iterable[str], to: str) -> None:
    """Change the image of some cliques of the set."""
    wanted = {cliques} if isinstance(cliques, str) else set(cliques)
    (body,) = world.of(POD_CLIQUE_SET.kind).values()
    listed = copy.deepcopy(body["spec"]["template"]["cliques"])
    for each in listed:
        if each["name"] in wanted:
            each["spec"]["podSpec"]["containers"][0]["image"] = to
    world.patch(POD_CLIQUE_SET.kind, body["metadata"]["name"], {"spec": {"template": {"cliques": listed}}})


def change(world: World, **spec: Any) -> None:
    """Change the spec of the set: `strategy`, `replicas`."""
    if "strategy" in spec:
        spec["updateStrategy"] = {"type": spec.pop("strategy")}
    (body,) = world.of(POD_CLIQUE_SET.kind).values()
    world.patch(POD_CLIQUE_SET.kind, body["metadata"]["name"], {"spec": spec})


def scale(world: World, kind: str, name: str, replicas: int) -> None:
    world.patch(kind, name, {"spec": {"replicas": replicas}})
