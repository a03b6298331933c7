"""Walks a federated workload into the future: asks its controller's plan, does what it says, lets members act.

Who may begin is for the walker, how many pods each may touch is for the budget that all of them share; both are in the
plan, and nothing is known of either here. Members act at once and report at once; all that takes time is the start of a
pod. So a *turn* ends when everybody waits for pods to start, and a wave has the clusters whose pods begin to change in
one turn: what is invariant is which of them do so together, and in which order.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

import msgspec

from echelon.api.base import JSONObject
from echelon.api.controller_revisions import CONTROLLER_REVISION, ControllerRevision
from echelon.api.karmada import RESOURCE_BINDING, WORK, ResourceBinding, Work
from echelon.api.kinds import Kind
from echelon.api.rollout_ledger import ROLLOUT_LEDGER, RolloutLedger
from echelon.engine.align import Grant, Interpreter, MemberView
from echelon.engine.align.reflection import SNAPSHOT
from echelon.engine.forecast.course import approvals_of, told
from echelon.engine.forecast.model import ALL_WELL, Assumptions, ClusterPods, Ending, Forecast, Pods, Start, Wave
from echelon.engine.forecast.objects import Objects, condition
from echelon.engine.placement.decisions import GroupKey
from echelon.engine.rollout.evaluate import roll_out
from echelon.engine.rollout.state import Rollout
from echelon.engine.rollout.stored_revision import StoredRevision
from echelon.engine.workload.names import execution_namespace
from echelon.engine.workload.plan import aligned_as, plan
from echelon.engine.workload.pushing import permitted
from echelon.engine.workload.standing import standing_of
from echelon.engine.workload.templates import Templates
from echelon.engine.workload.view import WorkloadView, read_ledger, read_revision
from echelon.engine.workload.works import APPLIED, WorkView, read_work

MOST_CLUSTERS = 500  # of more, a walk would take minutes
_MOST_VISITS = 60_000  # clusters times plans
_MOST_IDLE = 5  # looks in a row at which nothing is otherwise: a controller that waits for something looks for ever
_MOST_RETURNS = 3  # to what clusters had in the same turn: a controller may send this and that until pods have started
_FARTHEST = timedelta(days=365)


class Member(Protocol):
    """A workload on a cluster, as it is assumed to behave."""

    def begin(self, grant: Grant, seen: MemberView) -> None:
        """Take over what was reported of the last push."""
        ...

    def apply(self, grant: Grant) -> None:
        """Take a push."""
        ...

    def act(self, now: datetime) -> None:
        """Let pods start whose time has come, and controllers do all that they would do now."""
        ...

    def settle(self) -> None:
        """Let controllers do all that they would do now."""
        ...

    def end(self) -> bool:
        """Let pods be gone that are ending; return whether there were any."""
        ...

    def report(self) -> MemberView:
        """Return what an agent says."""
        ...

    @property
    def due(self) -> datetime | None:
        """When the next pod becomes ready."""
        ...

    @property
    def shape(self) -> Counter[str]:
        """How many pods it has, by revision."""
        ...

    @property
    def available(self) -> int:
        """How many pods are available."""
        ...


Play = Callable[[str, Interpreter, JSONObject, datetime], Member]  # of a cluster and a manifest


def forecast_workload(
    view: WorkloadView,
    documents: Sequence[tuple[Kind[Any], JSONObject]],
    now: datetime,
    play: Play,
    assumed: Assumptions = ALL_WELL,
) -> Forecast | None:
    """Tell what a federated workload will do; None for one that has no budget over all clusters.

    `documents` are what the controller writes: the binding, its ledger, works and revisions.
    """
    interpreter, strategy, _ = aligned_as(view.template or {})
    if interpreter is None or strategy is None or len(view.targets.keys() | view.works.keys()) > MOST_CLUSTERS:
        return None
    return _Course(view, Objects(documents), interpreter, now, play=play, assumed=assumed).run()


@dataclass
class _Played:
    """A cluster on its way."""

    member: Member
    before: Counter[str]
    push: int = 0
    grant: Grant | None = None
    moved: bool = False


class _Course:
    def __init__(
        self,
        view: WorkloadView,
        objects: Objects,
        interpreter: Interpreter,
        now: datetime,
        *,
        play: Play,
        assumed: Assumptions,
    ) -> None:
        self._base, self._objects, self._interpreter = view, objects, interpreter
        self._now = self._clock = now
        self._play, self._assumed = play, assumed
        self._read: dict[str, tuple[str, Any]] = {}  # by uid: what was read, with its version
        self._played: dict[str, _Played] = {}
        self._waves: list[Wave] = []
        self._approvals: list[str] = []
        self._visited = 0
        self._reported, self._untold = set[str](), set[str]()
        self._ends = now
        for work in view.works.values():
            if work.snapshot is not None and work.push_id is not None and work.terminating is None:
                self._take_over(work, work.snapshot)
        self._lowest, self._highest = self._available, self._pods

    def run(self) -> Forecast:
        """Go on until nothing happens any more."""
        idle, known = 0, None
        while self._visited <= _MOST_VISITS:
            again = self._turn()
            state = self._state
            if state != known:
                idle, known, self._ends = 0, state, self._clock
            self._lowest, self._highest = min(self._lowest, self._available), max(self._highest, self._pods)
            idle += 1
            if (idle > _MOST_IDLE or not self._wait(again)) and not self._approve():
                return self._told()
        return self._told(Ending.CUT_SHORT)

    def _turn(self) -> datetime | None:
        """Let everybody do what they would do now; return when the controller looks again although nothing happens."""
        having = set(self._view.works)
        met = Counter[object]()
        while True:
            view = self._view
            self._visited += max(1, len(view.works))
            planned = plan(view, self._clock, brief=True)
            changed = bool(self._objects.carry_out(planned, self._clock))
            delivered = self._deliver()
            met[self._sent] += delivered
            if not (delivered or changed or self._tell() or self._end()) or self._visited > _MOST_VISITS:
                break
            if met[self._sent] > _MOST_RETURNS:
                break
        self._note(having)
        after = planned.look_again_after
        return None if after is None else self._clock + after

    def _note(self, having: set[str]) -> None:
        """Note who has begun in this turn, and who has lost everything."""
        works = self._view.works
        starts = []
        for name, each in sorted(self._played.items()):
            if not each.moved and name in self._base.targets and each.member.shape != each.before:
                each.moved = True
                starts.append(name)
        gone = tuple(sorted(having - works.keys()))
        if starts or gone:
            groups = self._groups
            entries = tuple(Start(name, self._base.key.name, groups.get(name, GroupKey())) for name in starts)
            self._waves.append(Wave(self._clock - self._now, entries, gone, tuple(self._approvals)))
            self._approvals = []

    def _wait(self, again: datetime | None) -> bool:
        """Wait for what comes next; return whether anything does."""
        moments = [due for each in self._played.values() if (due := each.member.due) is not None]
        if again is not None and again > self._clock:
            moments.append(again)
        coming = min(moments, default=None)
        if coming is None or coming - self._now >= _FARTHEST:
            return False
        self._clock, self._reported = max(coming, self._clock), set()
        for name, each in self._played.items():
            each.member.act(self._clock)
            self._report(name, each)
        return True

    def _approve(self) -> bool:
        """Let somebody approve the groups that wait for that; return whether there were any."""
        rollout = self._rollout
        groups, annotations = approvals_of(rollout) if self._assumed.approving else ([], {})
        meta = self._base.binding.metadata
        self._approvals += groups
        body: JSONObject = {"metadata": {"annotations": annotations}}
        return bool(groups) and self._objects.patch(RESOURCE_BINDING, meta.name, meta.namespace, body)

    def _deliver(self) -> bool:
        """Bring to clusters what their works say, and to the hub what they report; return whether anything is new."""
        moved = False
        works = self._view.works
        for name in [name for name in self._played if name not in works]:
            del self._played[name]
        for name, work in works.items():
            played = self._played.get(name)
            if played is None:
                member = self._play(name, self._interpreter, work.manifest, self._clock)
                played = self._played[name] = _Played(member, Counter())
            if work.push_id is not None and work.push_id != played.push:
                played.push, moved = work.push_id, True
                played.grant = self._granted(work)
                played.member.apply(played.grant)
                played.member.settle()
                if name in self._reported:  # an agent lets others have their say before it speaks again
                    self._untold.add(name)
                else:
                    self._report(name, played)
        return moved

    def _tell(self) -> bool:
        """Let agents report what they have not yet, now that nobody else has anything to say."""
        telling, self._untold, self._reported = self._untold & self._played.keys(), set(), set()
        for name in sorted(telling):
            self._report(name, self._played[name])
        return bool(telling)

    def _end(self) -> bool:
        """Let pods be gone that are ending, when nobody has anything else to do; return whether there were any."""
        ended = [(name, each) for name, each in self._played.items() if each.member.end()]
        for name, each in ended:
            self._report(name, each)
        return bool(ended)

    def _report(self, cluster: str, played: _Played) -> None:
        self._reported.add(cluster)
        if cluster in self._assumed.silent:
            return
        namespace, name = execution_namespace(cluster), self._base.work_name
        document = self._objects.get(WORK, name, namespace)
        if document is None:
            return
        generation = document["metadata"].get("generation", 0)
        told = {"identifier": _ANY, "status": {SNAPSHOT: msgspec.to_builtins(played.member.report())}}
        applied = condition(APPLIED, "True", self._clock, generation)
        before = document.get("status") or {}
        known = [each for each in before.get("conditions") or () if each["type"] == APPLIED]
        if known and known[0]["status"] == "True":
            applied["lastTransitionTime"] = known[0]["lastTransitionTime"]
        self._objects.patch(
            WORK,
            name,
            namespace,
            {"status": {"conditions": [applied], "manifestStatuses": [{**told, "health": "Healthy"}]}},
        )

    def _take_over(self, work: WorkView, seen: MemberView) -> None:
        member = self._play(work.cluster, self._interpreter, work.manifest, self._now)
        member.begin(self._granted(work), seen)
        self._played[work.cluster] = _Played(member, member.shape, seen.push_id)

    def _granted(self, work: WorkView) -> Grant:
        hashed = self._interpreter.template_hash(work.manifest)
        return permitted(work.manifest, self._interpreter, work.push_id or 0, hashed)

    @property
    def _view(self) -> WorkloadView:
        """What the controller would observe."""
        base, objects = self._base, self._objects
        meta = base.binding.metadata
        binding = objects.get(RESOURCE_BINDING, meta.name, meta.namespace)
        ledger = objects.get(ROLLOUT_LEDGER, meta.name, meta.namespace)
        works = [self._once(each, lambda body: read_work(msgspec.convert(body, Work))) for each in objects.of(WORK)]
        return replace(
            base,
            binding=self._once(binding or {}, lambda body: msgspec.convert(body, ResourceBinding)),
            ledger=None
            if ledger is None
            else self._once(ledger, lambda body: read_ledger(msgspec.convert(body, RolloutLedger))),
            works={each.cluster: each for each in works},
            revisions=self._revisions,
        )

    @property
    def _revisions(self) -> tuple[StoredRevision, ...]:
        def read(body: JSONObject) -> StoredRevision:
            return read_revision(msgspec.convert(body, ControllerRevision), self._base.template)

        found = [self._once(each, read) for each in self._objects.of(CONTROLLER_REVISION)]
        return tuple(sorted(found, key=lambda each: each.number))

    def _once(self, body: JSONObject, read: Callable[[JSONObject], Any]) -> Any:
        """Read a version of an object once."""
        meta = body["metadata"]
        known = self._read.get(meta["uid"])
        if known is None or known[0] != meta["resourceVersion"]:
            known = self._read[meta["uid"]] = meta["resourceVersion"], read(body)
        return known[1]

    @property
    def _rollout(self) -> Rollout:
        return roll_out(standing_of(self._view, self._clock).subject, self._clock)

    @property
    def _groups(self) -> Mapping[str, GroupKey]:
        return {
            name: key
            for ref in self._rollout.references
            for key, names in ref.allocation.groups.groups.items()
            for name in names
        }

    @property
    def _available(self) -> int:
        return sum(each.member.available for each in self._played.values())

    @property
    def _pods(self) -> int:
        return sum(each.member.shape.total() for each in self._played.values())

    @property
    def _sent(self) -> object:
        """What clusters were sent and what they made of it, whichever push it was."""
        return tuple(
            (name, each.grant and msgspec.structs.replace(each.grant, id=0), tuple(each.member.shape.items()))
            for name, each in sorted(self._played.items())
        )

    @property
    def _state(self) -> object:
        """What has to change for anything to have happened."""
        rollout = self._rollout
        phases = [(each.cluster, each.phase, each.wait) for each in rollout.cluster_decisions]
        pods = [(name, each.push, each.member.shape) for name, each in self._played.items()]
        return pods, phases, rollout.complete, rollout.finished

    def _told(self, ending: Ending | None = None) -> Forecast:
        view = self._view
        standing = standing_of(view, self._clock)
        rollout = roll_out(standing.subject, self._clock)
        templates = Templates.of(view.template or {}, self._interpreter, view.revisions, view.override)
        aligned = standing.aligned
        decisions = aligned.round.decisions if aligned is not None else {}
        clusters = []
        for name, each in sorted(self._played.items()):
            updated = each.member.shape[templates.hash(rollout.revision, name)]
            decision = decisions.get(name)
            wait, why = (decision.wait.value, decision.message) if decision is not None else ("", "")
            counts = each.before.total(), each.member.shape.total(), updated, each.member.available
            clusters.append(ClusterPods(name, *counts, wait, why if wait else ""))
        found = told(rollout, self._waves, self._ends - self._now, ending)
        if aligned is None:
            return found
        return replace(found, pods=Pods(aligned.budgets, self._lowest, self._highest, tuple(clusters)))


_ANY: JSONObject = {"ordinal": 0, "version": "", "kind": "", "resource": "", "name": ""}
