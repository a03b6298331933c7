"""A world in which plans of work sets are carried out, write by write, without a server."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from echelon.api.base import JSONObject
from echelon.api.controller_revisions import CONTROLLER_REVISION, ControllerRevision
from echelon.api.placement import Placement, PlacementDecision
from echelon.api.work import MANIFEST_WORK, ManifestWork
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET, ManifestWorkReplicaSetStatus
from echelon.engine.placement.slices import INDEX_LABEL, NAME_LABEL
from echelon.engine.plan import Action, Create, Delete, Emit, InOrder, Patch, Plan, Together, Write
from echelon.engine.rollout.evaluate import roll_out
from echelon.engine.rollout.references import PlacementReference, read_placement
from echelon.engine.rollout.removal import EVERYONE
from echelon.engine.rollout.secret_data import restored
from echelon.engine.rollout.state import Rollout
from echelon.engine.rollout.subject import WriteOutcomes
from echelon.engine.rollout.thresholds import Threshold
from echelon.engine.work_set.content import read_content
from echelon.engine.work_set.names import FINALIZER, SET_LABEL
from echelon.engine.work_set.plan import plan
from echelon.engine.work_set.subject import choose_works, subject_of
from echelon.engine.work_set.view import WorkSet, WorkSetView, WorkView, read_revision, read_work

NS, NAME = "apps", "web"
START = datetime(2026, 11, 1, 12, tzinfo=UTC)

Groups = Sequence[tuple[str, Sequence[str]]]


def template(version: str = "1", **spec: Any) -> JSONObject:
    metadata = {"name": "demo", "namespace": "default"}
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"version": version}}
    return {"workload": {"manifests": [manifest]}, **spec}


def progressive(**settings: Any) -> JSONObject:
    return {"type": "Progressive", "progressive": settings}


def per_group(**settings: Any) -> JSONObject:
    return {"type": "ProgressivePerGroup", "progressivePerGroup": settings}


def merge(into: Any, patch: Any) -> Any:
    """Merge a JSON merge patch."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(into) if isinstance(into, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


@dataclass
class PlacementState:
    groups: list[tuple[str, list[str]]]
    settled: bool = True
    size: int | str = "100%"
    lost: frozenset[int] = frozenset()  # slices that are not there at the moment
    silent: bool = False  # its status does not tell of groups
    doubtful: bool = False  # numbers agree, and may be of different times
    named: Sequence[str] = ()  # groups that its spec has
    wanted: int | None = None  # numberOfClusters
    why: str = ""  # not more are selected, in the words of its status

    def view(self) -> Any:
        status: JSONObject = {
            "numberOfSelectedClusters": len({c for _, clusters in self.groups for c in clusters}),
            "decisionGroups": [
                {
                    "decisionGroupIndex": index,
                    "decisionGroupName": name,
                    "decisions": [f"d-{index}"],
                    "clusterCount": len(clusters) + (0 if self.settled else 1),
                }
                for index, (name, clusters) in enumerate(self.groups)
                if not self.silent
            ],
        }
        named = [{"groupName": name, "groupClusterSelector": {}} for name in self.named]
        grouping = {"clustersPerDecisionGroup": self.size, "decisionGroups": named}
        if self.why:
            said = {"type": "PlacementSatisfied", "status": "False", "reason": "Said", "message": self.why}
            status["conditions"] = [{**said, "lastTransitionTime": START.strftime("%Y-%m-%dT%H:%M:%SZ")}]
        spec: JSONObject = {"decisionStrategy": {"groupStrategy": grouping}}
        if self.wanted is not None:
            spec["numberOfClusters"] = self.wanted
        decisions = [
            {
                "metadata": {"name": f"d-{index}", "labels": {INDEX_LABEL: str(index), NAME_LABEL: name}},
                "status": {"decisions": [{"clusterName": cluster, "reason": ""} for cluster in clusters]},
            }
            for index, (name, clusters) in enumerate(self.groups)
            if index not in self.lost
        ]
        return read_placement(
            msgspec.convert({"spec": spec, "status": status}, Placement),
            msgspec.convert(decisions, list[PlacementDecision]),
        )


@dataclass
class World:
    """The set, its placements and all that was written."""

    now: datetime = START
    placements: dict[str, PlacementState] = field(default_factory=dict)
    spec: JSONObject = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    metadata: JSONObject = field(default_factory=lambda: {"finalizers": [FINALIZER]})
    generation: int = 1
    status: JSONObject = field(default_factory=dict)
    works: dict[tuple[str, str], JSONObject] = field(default_factory=dict)  # by cluster and name
    revisions: dict[str, JSONObject] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    outcomes: WriteOutcomes = field(default_factory=WriteOutcomes)
    stale: bool = False  # works may have been written by somebody who knew more
    unbound: set[str] = field(default_factory=set)
    spared: dict[str, datetime] = field(default_factory=dict)
    max_removals: Threshold = EVERYONE
    slow: bool = False  # works stay for a while after they were deleted
    events: list[Emit] = field(default_factory=list)
    seen: dict[str, WorkView] = field(default_factory=dict)  # what a controller remembers of each work
    versions: int = 0

    @classmethod
    def of(cls, groups: Groups, strategy: JSONObject | None = None, **fields: Any) -> "World":
        """Make a world with one placement, `p`."""
        world = cls(**fields)
        world.placements["p"] = PlacementState([(name, list(clusters)) for name, clusters in groups])
        world.spec = {
            "manifestWorkTemplate": template(),
            "placementRefs": [{"name": "p", "rolloutStrategy": strategy or {"type": "All"}}],
        }
        return world

    def change(self, **spec: Any) -> None:
        self.spec |= spec
        self.generation += 1

    def upgrade(self, version: str) -> None:
        self.change(manifestWorkTemplate=template(version))

    def work_set(self) -> WorkSet:
        metadata = {
            **self.metadata,
            "name": NAME,
            "namespace": NS,
            "uid": "set",
            "generation": self.generation,
            "labels": self.labels,
            "annotations": self.annotations,
        }
        return msgspec.convert({"metadata": metadata, "spec": self.spec, "status": self.status}, WorkSet)

    def view(self) -> WorkSetView:
        work_set = self.work_set()
        works: dict[str, tuple[WorkView, ...]] = {}
        for (cluster, _), work in self.works.items():
            if work["metadata"].get("labels", {}).get(SET_LABEL) == f"{NS}.{NAME}":
                uid = work["metadata"]["uid"]
                self.seen[uid] = read_work(msgspec.convert(work, ManifestWork), self.seen.get(uid))
                works[cluster] = (*works.get(cluster, ()), self.seen[uid])
        placements = {name: state.view() for name, state in self.placements.items()}
        return WorkSetView(
            work_set,
            read_content(work_set.spec.manifest_work_template),
            tuple(
                PlacementReference(
                    ref.name,
                    ref.rollout_strategy,
                    placements.get(ref.name),
                    ref.name in placements and self.placements[ref.name].doubtful,
                )
                for ref in work_set.spec.placement_refs
            ),
            works,
            restored(
                [read_revision(msgspec.convert(each, ControllerRevision)) for each in self.revisions.values()],
                self.annotations,
            ),
            frozenset(self.taken),
            self.outcomes,
            frozenset(work.uid for each in works.values() for work in each) if self.stale else frozenset(),
            unbound=frozenset(self.unbound),
            spared=self.spared,
            max_removals=self.max_removals,
        )

    def rollout(self) -> Rollout:
        view = self.view()
        return roll_out(subject_of(view, choose_works(view).by_cluster), self.now)

    def restart(self) -> None:
        """Let another controller take over, who knows nothing but what is written."""
        self.seen.clear()

    def plan(self, *, brief: bool = False) -> Plan:
        return plan(self.view(), self.now, brief=brief)

    def step(self, writes: int | None = None) -> Plan:
        """Plan, and carry out so many writes of it, or all."""
        found = self.plan()
        for number, action in enumerate(flat(found)):
            if writes is not None and number >= writes:
                break
            self.do(action)
        return found

    def settle(self) -> None:
        """Plan and act until there is nothing left to do."""
        for _ in range(20):
            if self.step().empty:
                return
        raise AssertionError(f"still at it: {self.plan()}")

    def do(self, action: Action) -> None:
        self.versions += 1
        if isinstance(action, Emit):
            self.events.append(action)
        elif isinstance(action, Create):
            self._create(action)
        elif isinstance(action, Patch):
            self._patch(action)
        elif isinstance(action, Delete):
            place: dict[Any, JSONObject] = self.works if action.kind is MANIFEST_WORK else self.revisions
            key: Any = (action.namespace, action.name) if action.kind is MANIFEST_WORK else action.name
            assert place[key]["metadata"]["uid"] == action.uid
            if self.slow and action.kind is MANIFEST_WORK:
                place[key]["metadata"]["deletionTimestamp"] = self.now.strftime("%Y-%m-%dT%H:%M:%SZ")
            else:
                del place[key]

    def _create(self, action: Create) -> None:
        made = deepcopy(action.body)
        made["metadata"] |= {"uid": f"u{self.versions}", "resourceVersion": str(self.versions), "generation": 1}
        if action.kind is CONTROLLER_REVISION:
            assert made["metadata"]["name"] not in self.revisions
            self.revisions[made["metadata"]["name"]] = made
        else:
            key = (action.namespace, made["metadata"]["name"])
            assert key not in self.works
            assert action.namespace not in self.taken or key[1] != NAME
            self.works[key] = made

    def _patch(self, action: Patch) -> None:
        body = deepcopy(action.body)
        if action.kind is MANIFEST_WORK_REPLICA_SET:
            if action.subresource:
                self.status = merge(self.status, body["status"])
            else:
                metadata = body["metadata"]
                self.annotations = merge(self.annotations, metadata.pop("annotations", {}))
                self.metadata = merge(self.metadata, metadata)
            return
        place: dict[Any, JSONObject] = self.works if action.kind is MANIFEST_WORK else self.revisions
        key: Any = (action.namespace, action.name) if action.kind is MANIFEST_WORK else action.name
        before = place[key]
        assert (before["metadata"]["uid"], before["metadata"]["resourceVersion"]) == (
            action.uid,
            action.resource_version,
        )
        after = merge(before, body)
        after["metadata"]["resourceVersion"] = str(self.versions)
        after["metadata"]["generation"] += after.get("spec") != before.get("spec")
        place[key] = after

    def report(self, *clusters: str, **said: str) -> None:
        """Have agents report: done, unless something else is said."""
        moment = self.now.strftime("%Y-%m-%dT%H:%M:%SZ")
        states = {"applied": "True", "available": "True", "progressing": "False", **said}
        for (cluster, _), work in self.works.items():
            if cluster in clusters:
                self.versions += 1
                work["metadata"]["resourceVersion"] = str(self.versions)
                work["status"] = {
                    "conditions": [
                        {
                            "type": kind.capitalize(),
                            "status": status,
                            "reason": "Said",
                            "message": f"{kind} {status}",
                            "observedGeneration": work["metadata"]["generation"],
                            "lastTransitionTime": moment,
                        }
                        for kind, status in states.items()
                        if status
                    ]
                }

    def finish(self) -> None:
        self.report(*(cluster for cluster, _ in self.works))

    def end(self, *clusters: str) -> None:
        """Have agents clean up after works that were deleted."""
        for key in [key for key in self.works if key[0] in clusters]:
            assert "deletionTimestamp" in self.works.pop(key)["metadata"]

    def ending(self) -> list[str]:
        """Return the clusters whose works are being deleted."""
        return sorted(cluster for (cluster, _), work in self.works.items() if "deletionTimestamp" in work["metadata"])

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def at(self, version: str) -> list[str]:
        return sorted(cluster for (cluster, _), work in self.works.items() if version_of(work) == version)

    def told(self) -> ManifestWorkReplicaSetStatus:
        return msgspec.convert(self.status, ManifestWorkReplicaSetStatus)

    def said(self, kind: str) -> tuple[str, str, str]:
        found = next(each for each in self.told().conditions if each.type == kind)
        assert found.observed_generation == self.generation
        return found.status, found.reason, found.message

    def add_work(self, cluster: str, name: str, version: str = "1", placement: str = "p", **fields: Any) -> JSONObject:
        """Add a work as upstream's hub makes them."""
        self.versions += 1
        labels = {
            SET_LABEL: f"{NS}.{NAME}",
            **({"work.open-cluster-management.io/placementname": placement} if placement else {}),
        }
        metadata = {
            "name": name,
            "namespace": cluster,
            "uid": f"u{self.versions}",
            "resourceVersion": str(self.versions),
            "generation": 1,
            "labels": labels,
            "creationTimestamp": self.now.strftime("%Y-%m-%dT%H:%M:%SZ"),
            **fields,
        }
        work: JSONObject = {"metadata": metadata, "spec": template(version)}
        self.works[cluster, name] = work
        return work


def flat(found: Plan) -> Iterator[Write | Emit]:
    """Walk all writes of a plan, the status last."""
    for action in (*found.actions, *([found.status] if found.status is not None else [])):
        inside = action.actions if isinstance(action, Together) else (action,)
        yield from (each for each in inside if not isinstance(each, InOrder | Together))


def writes_of(found: Plan, kind: type[Any] = object) -> list[Any]:
    """Return the writes of works in a plan."""
    return [each for each in flat(found) if isinstance(each, kind) and getattr(each, "kind", None) is MANIFEST_WORK]


def version_of(work: JSONObject) -> str:
    version: str = work["spec"]["workload"]["manifests"][0]["data"]["version"]
    return version
