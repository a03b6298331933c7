"""Watches what agents do on clusters: what is enforced there, what is changed and taken away, and on which word.

A cluster acts on what its agent has heard, so it may go on with what it had for a while. But nothing is enforced there
that the hub has not released, nothing begins to be enforced while the copy of the policy is held, nothing is changed
that no object of a template enforces, and nothing is pruned while it is held.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from echelon.api.base import JSONObject
from echelon.api.configuration_policy import CONFIGURATION_POLICY
from echelon.api.core import CONFIG_MAP
from echelon.api.policy import POLICY, ROOT_LABEL
from echelon.engine.policy.names import ENFORCED_BEFORE_ANNOTATION
from echelon.fleet.loop import running
from echelon.fleet.simulation import Committed, World
from echelon.kube.client import EventType
from tests.controllers.hub import NS
from tests.controllers.policy_content import MARK, is_enforceable, is_held, notes_of, said_of
from tests.controllers.rollout_people import SEEN

CHILDREN, COPIES, MAPS = CONFIGURATION_POLICY.resource, POLICY.resource, CONFIG_MAP.resource
NAMESPACES = ("default", "late")
MOMENT = 3.0  # seconds between the last look of an agent and the arrival of its write
LONG_AGO = 40.0  # seconds after which no agent acts on a copy any more, however late its news are


class Wish(NamedTuple):
    """An object that a template wants, as JSON, and the template."""

    template: str
    object: str


def wishes_of(definition: JSONObject) -> Iterator[Wish]:
    """Return what an object of a template, or the template itself, wants."""
    for each in definition["spec"]["object-templates"]:
        yield Wish(definition["metadata"]["name"], json.dumps(each["objectDefinition"], sort_keys=True))


def enforces(child: JSONObject) -> bool:
    return child["spec"].get("remediationAction", "").lower() == "enforce" and not is_held(child)


@dataclass
class Members:
    """What there is on the clusters, and what there was a moment ago."""

    world: World
    released: dict[str, set[Wish]] = field(default_factory=dict)  # by cluster: whatever it was to enforce at any time
    enforced: dict[tuple[str, str], float] = field(default_factory=dict)  # until when, by cluster and object
    free: dict[str, float] = field(default_factory=dict)  # until when the copy of a cluster was not held
    copies: dict[str, list[tuple[float, frozenset[str]]]] = field(default_factory=dict)  # the templates of these, too
    left: set[tuple[str, str, str]] = field(default_factory=set)  # cluster, namespace and name of what is nobody's
    absent: dict[str, float] = field(default_factory=dict)  # until when the hub had nothing for a cluster
    evaluated: dict[str, set[tuple[Wish, bool, str]]] = field(default_factory=dict)  # enforced or not, and the outcome

    def follow(self, commit: Committed) -> str | None:
        resource, cluster = commit.key.resource, commit.cluster
        if not cluster:
            return self._on_hub(commit) if resource == COPIES and commit.key.namespace != NS else None
        if resource == COPIES:
            if commit.previous is None or not is_held(commit.previous):
                templates = frozenset(_templates(commit.previous)) if commit.previous is not None else frozenset[str]()
                self.copies.setdefault(cluster, []).append((running().time(), templates))
                self.free[cluster] = running().time() if commit.previous is not None else self.free.get(cluster, 0.0)
        elif resource == CHILDREN:
            return self._child(commit)
        elif resource == MAPS and commit.key.namespace in NAMESPACES:
            return self._object(commit)
        return None

    def _on_hub(self, commit: Committed) -> str | None:
        """Take note of releases, and judge verdicts by what was found on the cluster."""
        cluster, replica, before = commit.key.namespace, commit.object, commit.previous
        if before is None:
            self.absent[cluster] = running().time()
        templates = [each["objectDefinition"] for each in replica["spec"]["policy-templates"]]
        if not is_held(replica):
            self.released.setdefault(cluster, set()).update(wish for each in templates for wish in wishes_of(each))
        word = said_of(replica)
        if commit.type is EventType.DELETED or before is None or said_of(before) == word:
            return None
        if word not in ("Succeeded", "Failed"):
            return None
        SEEN[f"verdict: {word}"] += 1
        known = self.evaluated.get(cluster, set())
        for each in templates if is_enforceable(replica["spec"]) and word == "Succeeded" else ():
            for wish in wishes_of(each):
                if not any((wish, enforced, "Compliant") in known for enforced in (True, False)):
                    return f"{cluster} has succeeded, and nobody found {wish.template} in order"
        return None

    def _child(self, commit: Committed) -> str | None:
        cluster, child, before = commit.cluster, commit.object, commit.previous
        if before is not None and enforces(before):
            for wish in wishes_of(before):
                self.enforced[cluster, wish.object] = running().time()
        if (before is None or not _is_going(before)) and (commit.type is EventType.DELETED or _is_going(child)):
            return self._child_goes(cluster, child["metadata"]["name"])
        if commit.type is EventType.DELETED:
            if not enforces(child) and ENFORCED_BEFORE_ANNOTATION not in notes_of(child):
                self._leave_behind(cluster, child["metadata"]["name"])
            return None
        status = child.get("status", {})
        if status.get("lastEvaluatedGeneration") == child["metadata"]["generation"]:
            outcome = status.get("compliant", "")
            found = ((wish, enforces(child), outcome) for wish in wishes_of(child))
            self.evaluated.setdefault(cluster, set()).update(found)
        if not enforces(child):
            return None
        if unknown := set(wishes_of(child)) - self.released.get(cluster, set()):
            return f"{cluster} enforces {unknown}, which was never released"
        copies = self.world.objects(COPIES, cluster)
        if (before is None or not enforces(before)) and any(map(is_held, copies)):
            return f"{cluster} begins to enforce {child['metadata']['name']} while it is held"
        return None

    def _child_goes(self, cluster: str, name: str) -> str | None:
        """Judge the end of an object of a template: while a cluster is held, whatever there is stays."""
        SEEN["end of a child"] += 1
        if not any(map(is_held, self.world.objects(COPIES, cluster))) or self._ends(cluster):
            return None
        lately = [names for until, names in self.copies[cluster] if running().time() - until <= LONG_AGO]
        if any(name not in names for names in lately):
            return None  # it was to go before, and whoever made it go may not have heard of the hold
        return f"{cluster} loses {name} while it is held"

    def _leave_behind(self, cluster: str, child: str) -> None:
        """Take note of what a child made while it enforced: one that is only to look in the end takes nothing along."""
        for each in self.world.objects(MAPS, cluster):
            meta = each["metadata"]
            if meta["namespace"] in NAMESPACES and meta["name"].rpartition("-")[0] == child:
                self.left.add((cluster, meta["namespace"], meta["name"]))

    def _ends(self, cluster: str) -> bool:
        """Whether the policy goes from a cluster, or went and came again: then all that it looks after goes, too."""
        if running().time() - self.absent.get(cluster, 0.0) <= LONG_AGO:
            return True
        return all(_is_going(each) for each in self.world.objects(COPIES, namespace=cluster))

    def _object(self, commit: Committed) -> str | None:
        """Judge a change of what a policy is about."""
        cluster, key, now = commit.cluster, commit.key, running().time()
        if notes_of(commit.object).get(MARK) != notes_of(commit.previous or commit.object).get(MARK):
            return None  # somebody on the cluster did it
        if commit.type is EventType.DELETED or "deletionTimestamp" in commit.object["metadata"]:
            self.left.discard((cluster, key.namespace, key.name))
            if self.world.memory.pop(f"lost {cluster} {key.name}", False):
                return None
            SEEN["pruned"] += 1
            held = [each for each in self.world.objects(COPIES, cluster) if is_held(each)]
            if held and now - self.free.get(cluster, 0.0) > MOMENT and not self._ends(cluster):
                return f"{cluster} lost {key.namespace}/{key.name} while it was held"
            return None
        if commit.previous is not None and commit.previous.get("data") == commit.object.get("data"):
            return None
        SEEN["mended"] += 1
        if any(self._is_wanted(wish, commit.object) for wish in self._enforced(cluster, now)):
            return None
        return f"{cluster} got {key.namespace}/{key.name}: {commit.object.get('data')}, and nobody enforces that"

    def _enforced(self, cluster: str, now: float) -> Iterator[str]:
        for child in self.world.objects(CHILDREN, cluster):
            if enforces(child):
                yield from (wish.object for wish in wishes_of(child))
        for (name, wish), until in self.enforced.items():
            if name == cluster and now - until <= MOMENT:
                yield wish

    def _is_wanted(self, wish: str, found: JSONObject) -> bool:
        wanted, meta = json.loads(wish), found["metadata"]
        same = (wanted["metadata"]["namespace"], wanted["metadata"]["name"]) == (meta["namespace"], meta["name"])
        return bool(same and wanted["data"].items() <= found.get("data", {}).items())


def _templates(copy: JSONObject) -> Iterator[str]:
    return (each["objectDefinition"]["metadata"]["name"] for each in copy["spec"]["policy-templates"])


def _is_going(obj: JSONObject) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def wrongs_of(world: World, replicas: dict[str, JSONObject], done: set[str], clusters: list[str]) -> Iterator[str]:
    """Tell what is not on clusters at rest as replicas say; `done` are those that have succeeded and enforce."""
    for cluster in clusters:
        replica = replicas.get(cluster)
        if replica is not None and ROOT_LABEL not in replica["metadata"].get("labels", {}):
            replica = None  # somebody took the label away, and so no agent takes it for a replica
        children = {each["metadata"]["name"]: each for each in world.objects(CHILDREN, cluster)}
        if replica is None:
            if children or world.objects(COPIES, cluster):
                yield f"{cluster} has {sorted(children)}, and the hub has nothing for it"
            continue
        templates = set(_templates(replica))
        if not templates <= children.keys() or (not is_held(replica) and templates != children.keys()):
            yield f"{cluster} has {sorted(children)} and should have {sorted(templates)}"
        if is_held(replica) and any(enforces(each) for each in children.values()):
            yield f"{cluster} enforces, and is held"
        if cluster in done:
            yield from _not_as_wanted(world, cluster, replica)


def _not_as_wanted(world: World, cluster: str, replica: JSONObject) -> Iterator[str]:
    members: Members = world.memory["members"]
    wanted = {
        (found["metadata"]["namespace"], found["metadata"]["name"]): found["data"]
        for each in replica["spec"]["policy-templates"]
        for wish in wishes_of(each["objectDefinition"])
        if (found := json.loads(wish.object))
    }
    there = {
        (each["metadata"]["namespace"], each["metadata"]["name"]): each["data"]
        for each in world.objects(MAPS, cluster)
        if each["metadata"]["namespace"] in NAMESPACES and "version" in each.get("data", {})
    }
    there = {where: data for where, data in there.items() if where in wanted or (cluster, *where) not in members.left}
    if there != wanted:
        yield f"{cluster} has {there}, and {wanted} is wanted"
