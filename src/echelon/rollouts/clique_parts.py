"""The parts of a PodCliqueSet, as lines: replica, group, clique, pod, each with what is ready, updated and outdated."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from echelon.api.base import JSONObject
from echelon.api.grovestatus import PodCliqueSetStatus
from echelon.engine.conditions import find_condition
from echelon.engine.pod_clique.pod_facts import PodFacts
from echelon.engine.pod_clique.standing import CliqueStanding, GroupStanding, ReplicaStanding, Unit
from echelon.engine.rollout.durations import elapsed
from echelon.engine.work.health_state import part, text
from echelon.engine.work.pod_trouble import STARTING, pod_trouble
from echelon.rollouts.picture import DONE, FAILED, MOVING, OUTDATED, WAITING, Line

_BREACHED = "MinAvailableBreached"


def count(clique: CliqueStanding, *, on_delete: bool) -> dict[str, int]:
    """Count where the pods of a clique stand."""
    states = [_pod_state(each, clique, on_delete=on_delete) for each in (clique.view.pods if clique.view else ())]
    counted = {state: states.count(state) for state in (DONE, MOVING, FAILED, OUTDATED, WAITING)}
    live = sum(each.live for each in (clique.view.pods if clique.view else ()))
    counted[WAITING] += max(0, clique.replicas - live)  # that are to be made
    return counted


def parts_of(
    replicas: Sequence[ReplicaStanding],
    pods: Mapping[str, JSONObject],
    status: PodCliqueSetStatus,
    *,
    on_delete: bool,
    now: datetime,
) -> tuple[Line, ...]:
    """Return the replicas of a set and their parts."""
    progress = status.update_progress
    updating = {each.replica_index for each in progress.currently_updating} if progress is not None else set[int]()
    drawing = _Drawing(pods, on_delete, now)
    return tuple(drawing.replica(each, updating=each.index in updating) for each in replicas)


class _Drawing:
    """Draws the parts of one set."""

    def __init__(self, pods: Mapping[str, JSONObject], on_delete: bool, now: datetime) -> None:
        self._pods = pods
        self._on_delete = on_delete
        self._now = now

    def replica(self, replica: ReplicaStanding, *, updating: bool) -> Line:
        below = (*map(self.clique, replica.cliques), *map(self.group, replica.groups))
        message = "is being updated" if updating else ""
        return Line(f"replica {replica.index}", _worst(below), _counted(replica.everything), message, below)

    def group(self, group: GroupStanding) -> Line:
        units = tuple(self.unit(group, each) for each in (*group.units, *group.surplus))
        text_ = f"{sum(each.available for each in group.units)} of {group.expected.replicas} replicas available"
        surplus = f"{len(group.surplus)} too many" if group.surplus else ""
        return Line(f"group {group.spec.name}", _worst(units), text_, surplus, units)

    def unit(self, group: GroupStanding, unit: Unit) -> Line:
        below = tuple(map(self.clique, unit.cliques))
        return Line(f"{group.spec.name} {unit.index}", _worst(below), _counted(unit.cliques), "", below)

    def clique(self, clique: CliqueStanding) -> Line:
        title, view = f"clique {clique.expected.spec.name}", clique.view
        if view is None:
            return Line(title, WAITING, _counted([clique]), "does not exist yet")
        pods = tuple(self.pod(each, clique) for each in view.pods)
        state = _worst(pods) if pods else DONE
        if clique.tally.live < clique.replicas and state == DONE:
            state = WAITING
        breached = find_condition(view.status.conditions, _BREACHED)
        message = breached.message if breached is not None and breached.status == "True" else ""
        errors = [each.description for each in view.status.last_errors[:1]]
        return Line(title, state, _counted([clique]), "; ".join(filter(None, (message, *errors))), pods)

    def pod(self, pod: PodFacts, clique: CliqueStanding) -> Line:
        state = _pod_state(pod, clique, on_delete=self._on_delete)
        where = f"on {pod.node}" if pod.node else ""
        since = elapsed(self._now - pod.since) if state in (MOVING, FAILED) else ""
        text_ = " ".join(filter(None, (state, since, where)))
        message = "" if pod.serves else _reason(pod, self._pods.get(pod.name, {}))
        return Line(pod.name, state, text_, message, detail=True)


def _pod_state(pod: PodFacts, clique: CliqueStanding, *, on_delete: bool) -> str:
    if pod.ended or pod.failing:
        return FAILED
    if pod.terminating:
        return MOVING
    if not clique.is_current(pod.hash):
        return OUTDATED if on_delete else WAITING
    return DONE if pod.ready else MOVING


def _worst(lines: Sequence[Line]) -> str:
    states = {each.state for each in lines}
    return next((each for each in (FAILED, MOVING, WAITING, OUTDATED) if each in states), DONE)


def _counted(cliques: Sequence[CliqueStanding]) -> str:
    wanted, ready = sum(each.replicas for each in cliques), sum(each.tally.ready for each in cliques)
    updated, outdated = sum(each.updated for each in cliques), sum(each.outdated for each in cliques)
    told = [f"{ready} of {wanted} ready", f"{updated} updated"]
    return ", ".join([*told, *([f"{outdated} outdated"] if outdated else [])])


def _reason(pod: PodFacts, body: JSONObject) -> str:
    """Say why a pod does not serve, in the words of whoever stands in its way."""
    status = part(body, "status")
    if pod.terminating:
        return "is being deleted"
    if pod.ended:
        return text(status, "message") or text(status, "reason") or f"ended: {pod.phase}"
    if pod.gated:
        return "waits for the rest of its gang"
    if (trouble := pod_trouble(body)) is not None and trouble.rank != STARTING:
        return f"{trouble.container}: {trouble.text}" if trouble.container else trouble.text
    return "has no node yet" if not pod.scheduled else "is not ready yet"
