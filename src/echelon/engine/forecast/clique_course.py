"""Walks a PodCliqueSet into the future: asks the controller's plan, does what it says, lets pods start, asks again.

Which pods go, and when, is the plan's. All that is added are pods: one that may be scheduled has a node at once, is
ready after as long as is assumed, or never; one that is deleted is gone. A *wave* has the replicas of the set
whose pods go or come together: one of them is rolled at a time, those that are too many or too few go and come at once.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.controller_revisions import CONTROLLER_REVISION
from echelon.api.core import POD
from echelon.api.grove import POD_CLIQUE, POD_CLIQUE_SCALING_GROUP, POD_CLIQUE_SET
from echelon.api.kinds import Kind
from echelon.api.podgangs import POD_GANG
from echelon.engine.forecast.model import ALL_WELL, Assumptions, Ending, Forecast, Wave
from echelon.engine.forecast.objects import Objects, condition
from echelon.engine.plan import Plan
from echelon.engine.pod_clique.accepting import NotAccepted
from echelon.engine.pod_clique.names import CLIQUE, REPLICA_INDEX
from echelon.engine.pod_clique.outdated import outdated_pods, stand
from echelon.engine.pod_clique.plan import plan
from echelon.engine.pod_clique.pod_facts import read_pod
from echelon.engine.pod_clique.set_spec import Settings
from echelon.engine.pod_clique.view import SetView, read_clique, read_gang, read_group, read_set

_MOST_VISITS = 150_000  # pods times plans
_FARTHEST = timedelta(days=30)
# Whether the controller has the image for pods that wait for others is the controller's to tell.
_ANY = Settings(init_image="any")


def forecast_set(
    documents: Sequence[tuple[Kind[Any], JSONObject]], now: datetime, assumed: Assumptions = ALL_WELL
) -> Forecast:
    """Tell what a set will do. `documents` are the set, its cliques, groups, gangs, pods and revisions.

    A set that is assumed to fail, one of its replicas (`NAME-INDEX`) or one of their cliques, makes pods that never
    become ready.
    """
    return _Course(Objects(documents), now, assumed).run()


class _Course:
    def __init__(self, objects: Objects, now: datetime, assumed: Assumptions) -> None:
        self._objects, self._assumed = objects, assumed
        self._now = self._clock = self._ends = now
        self._waves: list[Wave] = []
        self._due: dict[str, datetime] = {}  # by the name of a pod, when it becomes ready
        self._gone: dict[str, dict[int, str]] = {}  # by clique and index: the last pod that went, which names the next
        self._pods = _by_name(objects)
        self._today = frozenset(self._pods)
        self._name = str(self._set["metadata"]["name"])

    def run(self) -> Forecast:
        """Go on until nothing happens that has not happened before."""
        visited, seen = 0, set[object]()
        while visited <= _MOST_VISITS:
            planned = plan(self._view, self._clock)
            visited += max(20, len(self._pods))
            if self._carry_out(planned):
                continue
            state = self._state
            if state in seen and not self._due:
                return self._told()
            if state not in seen:
                self._ends = self._clock
            seen.add(state)
            if not self._wait(planned):
                return self._told()
        return self._told(Ending.CUT_SHORT)

    def _carry_out(self, planned: Plan) -> bool:
        """Do what a plan says; return whether that was anything."""
        before = self._pods
        changed = bool(self._objects.carry_out(planned, self._clock))
        self._pods = _by_name(self._objects)
        gone = sorted(before.keys() - self._pods.keys())
        made = sorted(self._pods.keys() - before.keys())
        for name in gone:
            self._due.pop(name, None)
            facts = read_pod(before[name])
            if facts.index is not None:
                self._gone.setdefault(_owner(before[name]), {})[facts.index] = facts.uid
        if gone or made:
            touched = {_replica(before[each]) for each in gone} | {_replica(self._pods[each]) for each in made}
            mine = tuple(each for each in gone if each in self._today)
            self._waves.append(
                Wave(self._clock - self._now, replicas=tuple(sorted(touched)), gone=mine, made=len(made))
            )
        for name, body in self._pods.items():
            if name not in self._due and _may_start(body):
                self._start(name, body)
        return changed

    def _start(self, name: str, body: JSONObject) -> None:
        meta = body["metadata"]
        scheduled = condition("PodScheduled", "True", self._clock)
        said: JSONObject = {"phase": "Running", "conditions": [scheduled]}
        self._objects.patch(POD, name, meta["namespace"], {"spec": {"nodeName": "foreseen"}, "status": said})
        failing = self._assumed.failing | self._assumed.silent
        clique = (meta.get("labels") or {}).get(CLIQUE, "")
        if name in self._today or failing.isdisjoint((self._name, f"{self._name}-{_replica(body)}", clique)):
            self._due[name] = self._clock + self._assumed.takes

    def _wait(self, planned: Plan) -> bool:
        """Wait for what comes next; return whether anything does."""
        moments = list(self._due.values())
        if planned.look_again_after is not None:
            moments.append(self._clock + planned.look_again_after)
        coming = min(moments, default=None)
        if coming is None or coming - self._now >= _FARTHEST:
            return False
        self._clock = max(coming, self._clock)
        for name in [name for name, due in self._due.items() if due <= self._clock]:
            del self._due[name]
            said = [condition(each, "True", self._clock) for each in ("PodScheduled", "Ready")]
            namespace = self._pods[name]["metadata"]["namespace"]
            self._objects.patch(POD, name, namespace, {"status": {"phase": "Running", "conditions": said}})
        self._pods = _by_name(self._objects)
        return True

    @property
    def _set(self) -> JSONObject:
        return next(iter(self._objects.of(POD_CLIQUE_SET)))

    @property
    def _view(self) -> SetView:
        """What the controller would observe."""
        objects = self._objects
        pods: dict[str, list[JSONObject]] = {}
        for pod in self._objects.of(POD):
            pods.setdefault(_owner(pod), []).append(pod)
        cliques = [
            read_clique(each, [read_pod(pod) for pod in pods.get(uid, ())], self._gone.get(uid, {}))
            for each in objects.of(POD_CLIQUE)
            if (uid := each["metadata"]["uid"])
        ]
        groups, gangs = map(read_group, objects.of(POD_CLIQUE_SCALING_GROUP)), map(read_gang, objects.of(POD_GANG))
        return SetView(
            read_set(self._set, list(objects.of(CONTROLLER_REVISION)), _ANY),
            cliques={each.name: each for each in cliques},
            groups={each.name: each for each in groups},
            gangs={each.name: each for each in gangs},
        )

    @property
    def _state(self) -> object:
        """What has to be otherwise than ever before for something new to have happened."""
        progress = (self._set.get("status") or {}).get("updateProgress") or {}
        chosen = tuple(each.get("replicaIndex") for each in progress.get("currentlyUpdating") or ())
        ready = tuple(sorted(_slots(self._pods.values())))
        return frozenset(self._today & self._pods.keys()), chosen, ready, bool(progress.get("updateEndedAt"))

    def _told(self, ending: Ending | None = None) -> Forecast:
        view = self._view
        standing = stand(view)
        outdated = tuple(each.pod.name for each in outdated_pods(standing))
        spec = view.set.spec
        message = ""
        if ending is None:
            ending = Ending.COMPLETE
            missing = [each.index for each in standing.replicas if not each.available]
            if missing:
                ending, message = Ending.WAITING, f"replicas that are not available: {', '.join(map(str, missing))}"
            elif spec is None or (outdated and not spec.on_delete):
                ending = Ending.BLOCKED
            if isinstance(view.set.accepted, NotAccepted):
                ending, message = Ending.BLOCKED, view.set.accepted.message
        revision = spec.generation_hash if spec is not None else view.set.status.current_generation_hash
        return Forecast(
            revision,
            tuple(_turns(self._waves)),
            self._ends - self._now,
            ending,
            message,
            outdated=tuple(sorted(outdated)),
        )


def _turns(waves: Iterable[Wave]) -> Iterator[Wave]:
    """Put together what happens at one moment, and then moments that follow each other with the same replicas."""
    moments = (list(each) for _, each in groupby(waves, key=lambda wave: wave.after))
    for _, row in groupby(map(_one, moments), key=lambda wave: wave.replicas):
        yield _one(row)


def _one(waves: Iterable[Wave]) -> Wave:
    found = list(waves)
    replicas = {each for wave in found for each in wave.replicas}
    gone = tuple(sorted(name for wave in found for name in wave.gone))
    return Wave(found[0].after, replicas=tuple(sorted(replicas)), gone=gone, made=sum(wave.made for wave in found))


def _by_name(objects: Objects) -> dict[str, JSONObject]:
    return {each["metadata"]["name"]: each for each in objects.of(POD)}


def _owner(body: JSONObject) -> str:
    return next((each["uid"] for each in body["metadata"].get("ownerReferences") or () if each.get("controller")), "")


def _replica(body: JSONObject) -> int:
    return int((body["metadata"].get("labels") or {}).get(REPLICA_INDEX, -1))


def _may_start(body: JSONObject) -> bool:
    """Whether a pod is on its way, or may be: nothing keeps a scheduler from it, and it neither runs nor has ended."""
    facts = read_pod(body)
    return not facts.gated and not facts.foreign_gates and not facts.ready and facts.live and not _foreseen(body)


def _foreseen(body: JSONObject) -> bool:
    return bool(body["spec"].get("nodeName") == "foreseen")


def _slots(pods: Iterable[JSONObject]) -> Iterator[tuple[str, str, bool]]:
    """Walk what matters of pods but for their names."""
    for body in pods:
        facts = read_pod(body)
        yield _owner(body), f"{facts.index} {facts.hash}", facts.ready
