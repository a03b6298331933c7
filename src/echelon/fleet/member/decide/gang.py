"""Gangs: which of their pods have to find a place together, and how far they have come."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

import msgspec

from echelon.api.base import JSONObject
from echelon.fleet.member.decide.deployment_status import Moment
from echelon.fleet.member.decide.pods import PodView
from echelon.fleet.member.decide.scheduling import same_but_numbers
from echelon.hub.storage.store import Key


class Group(msgspec.Struct, frozen=True, gc=False):
    """The pods of one clique, of which so many have to start together."""

    name: str
    min_replicas: int


class Gang(msgspec.Struct, frozen=True, gc=False):
    """A PodGang, as the scheduler sees it."""

    groups: tuple[Group, ...]
    priority_class: str = ""
    order: int = 0  # when it was created, counted in writes


@dataclass
class Members:
    """The pods of a clique: on a node, ready, and waiting for a node; in the order in which they came to be so."""

    bound: dict[Key, None] = field(default_factory=dict)
    ready: dict[Key, None] = field(default_factory=dict)
    pending: dict[Key, None] = field(default_factory=dict)

    def note(self, key: Key, pod: PodView) -> bool:
        """Learn of a pod; tell whether that changes how far its gang has come."""
        changes = [
            _put(self.bound, key, there=bool(pod.node) and pod.active),
            _put(self.ready, key, there=pod.serves),
            _put(self.pending, key, there=pod.placeable),
        ]
        return any(changes)

    def forget(self, key: Key) -> None:
        """Learn that a pod is gone."""
        for each in (self.bound, self.ready, self.pending):
            each.pop(key, None)

    @property
    def empty(self) -> bool:
        """Whether no pod counts for anything. A gated pod is noted again when its gates fall."""
        return not (self.bound or self.ready or self.pending)


def _put(keys: dict[Key, None], key: Key, *, there: bool) -> bool:
    if there == (key in keys):
        return False
    if there:
        keys[key] = None
    else:
        del keys[key]
    return True


def read_gang(pod_gang: JSONObject, order: int) -> Gang:
    """Take the facts from a PodGang."""
    spec = pod_gang.get("spec") or {}
    groups = [Group(each["name"], each.get("minReplicas") or 0) for each in spec.get("podgroups") or ()]
    return Gang(tuple(groups), spec.get("priorityClassName") or "", order)


@dataclass(frozen=True)
class Together:
    """The pods that have to find a place together; or why nobody has to look for one yet."""

    pods: tuple[Key, ...] = ()
    missing: str = ""


def together(gang: Gang, members: Mapping[str, Members]) -> Together:
    """Return which pods bring all groups up to their minimum. None at all, if they are there."""
    found: list[Key] = []
    for group in gang.groups:
        clique = members.get(group.name) or Members()
        lacking = group.min_replicas - len(clique.bound)
        if lacking > len(clique.pending):
            there = len(clique.bound) + len(clique.pending)
            return Together(missing=f"{there} of {group.min_replicas} pods of {group.name} can be placed")
        found.extend(islice(clique.pending, max(0, lacking)))
    return Together(tuple(found))


def status(gang: Gang, members: Mapping[str, Members], why: str, old: JSONObject, now: Moment) -> JSONObject:
    """Report how far a gang has come; what others have written there stays."""
    scheduled = _reached(gang, {name: len(each.bound) for name, each in members.items()})
    ready = scheduled and _reached(gang, {name: len(each.ready) for name, each in members.items()})
    condition: JSONObject = {
        "type": "Scheduled",
        "status": "True" if scheduled else "False",
        "reason": "MinimumScheduled" if scheduled else "Unschedulable" if why else "Waiting",
        "message": "Every group has its minimum of pods on nodes" if scheduled else why or "Pods have no nodes yet",
        "lastTransitionTime": now.text,
    }
    conditions = list(old.get("conditions") or ())
    place = next((n for n, each in enumerate(conditions) if each["type"] == "Scheduled"), len(conditions))
    if place < len(conditions) and conditions[place]["status"] == condition["status"]:
        condition["lastTransitionTime"] = conditions[place]["lastTransitionTime"]
    conditions[place:] = [condition, *conditions[place + 1 :]]
    phase = "Running" if ready else "Starting" if scheduled else "Pending"
    return {**old, "phase": phase, "conditions": conditions}


def is_news(old: JSONObject, new: JSONObject) -> bool:
    """Tell whether a status differs in more than numbers of a message."""
    if old.get("phase") != new["phase"]:
        return True
    said, says = (_scheduled(each) for each in (old, new))
    return (said.get("status"), said.get("reason")) != (says["status"], says["reason"]) or not same_but_numbers(
        said.get("message") or "", says["message"]
    )


def _scheduled(status: JSONObject) -> JSONObject:
    return next((each for each in status.get("conditions") or () if each["type"] == "Scheduled"), {})


def _reached(gang: Gang, numbers: Mapping[str, int]) -> bool:
    return all(numbers.get(group.name, 0) >= group.min_replicas for group in gang.groups)
