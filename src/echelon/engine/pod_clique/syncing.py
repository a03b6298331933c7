"""Which children of a set are made, put right and removed.

Whether a child differs from what the set says is found out once for each version of both and remembered with what was
observed of it, because comparing a thousand pod specs in every plan would take longer than a plan may.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any

from echelon.api.autoscaling import HORIZONTAL_POD_AUTOSCALER
from echelon.api.base import JSONObject
from echelon.api.core import SECRET, SERVICE
from echelon.api.grove import POD_CLIQUE, POD_CLIQUE_SCALING_GROUP, POD_CLIQUE_SET
from echelon.api.kinds import Kind
from echelon.api.meta import ObjectMeta
from echelon.api.podgangs import POD_GANG
from echelon.api.rbac import ROLE, ROLE_BINDING
from echelon.api.service_accounts import SERVICE_ACCOUNT
from echelon.engine.plan import Create, Delete, Patch, Write
from echelon.engine.pod_clique.children import (
    clique_body,
    clique_patch,
    gang_body,
    gang_patch,
    group_body,
    group_patch,
    owner_of,
)
from echelon.engine.pod_clique.gates import listed_pods
from echelon.engine.pod_clique.infrastructure import infrastructure, write_infrastructure
from echelon.engine.pod_clique.names import GANG, CliqueKey, read_clique_key
from echelon.engine.pod_clique.set_spec import CliqueSpec, SetSpec
from echelon.engine.pod_clique.shape import ExpectedClique, ExpectedGang, ExpectedGroup, Shape
from echelon.engine.pod_clique.standing import CliqueStanding, Templates, Unit, clique_standing, unit_of
from echelon.engine.pod_clique.view import CliqueView, GangView, GroupView, SetView

MOST_CHILDREN = 100  # of a kind that are written in one plan: the bodies of more would take too long
MOST_COMPARED = 300  # children that are compared with what they should be: after a start it is all of them


@dataclass(frozen=True)
class Beyond:
    """Cliques that are there and should not be."""

    surplus: Mapping[str, tuple[Unit, ...]] = field(default_factory=dict)  # replicas too many, by group, by index
    removed: tuple[CliqueView, ...] = ()  # of replicas of the set that are too many


@dataclass
class Sync:
    """Writes of children, those of one object in order."""

    patches: dict[str, Patch] = field(default_factory=dict)  # of cliques that exist, by name
    group_patches: dict[str, Patch] = field(default_factory=dict)  # of groups that exist, by name
    gang_patches: dict[str, Patch] = field(default_factory=dict)  # of gangs that exist, by name
    others: list[Write] = field(default_factory=list)
    compared: int = 0  # children that were compared with what they should be
    more: bool = False  # there is more to be made, or compared, than in one plan

    @property
    def empty(self) -> bool:
        """Whether every child is as the set says."""
        return not (self.patches or self.group_patches or self.gang_patches or self.others or self.more)


def sizes(view: SetView) -> tuple[dict[str, int], dict[str, int]]:
    """Return the sizes of groups and of cliques that exist, by name."""
    groups = {name: group.replicas for name, group in view.groups.items() if not group.terminating}
    cliques = {name: clique.replicas for name, clique in view.cliques.items() if not clique.terminating}
    return groups, cliques


def beyond(view: SetView, spec: SetSpec, shape: Shape, templates: Templates) -> Beyond:
    """Return the cliques that are too many. What has no place in any size of the set is left alone."""
    extra = view.cliques.keys() - shape.clique.keys()
    if not extra:
        return Beyond()
    set_name = view.set.metadata.name
    known = {group.name: group.min_available for group in spec.groups}
    removed: list[CliqueView] = []
    units: dict[str, dict[int, list[CliqueStanding]]] = {}
    for name in sorted(extra):
        clique = view.cliques[name]
        key = read_clique_key(clique.metadata.labels, name, set_name, known)
        if clique.terminating or key is None:
            continue
        if key.replica >= spec.replicas:
            removed.append(clique)
        elif key.group and key.clique in spec.clique:
            found = clique_standing(_expected(clique, key, spec), clique, templates.current[key.clique])
            group = f"{set_name}-{key.replica}-{key.group}"
            units.setdefault(group, {}).setdefault(key.group_replica, []).append(found)
    surplus = {group: tuple(unit_of(index, found[index]) for index in sorted(found)) for group, found in units.items()}
    return Beyond(surplus, tuple(removed))


def _expected(clique: CliqueView, key: CliqueKey, spec: SetSpec) -> ExpectedClique:
    gang = clique.metadata.labels.get(GANG, "")
    return ExpectedClique(key, clique.name, spec.clique[key.clique], clique.replicas, gang)


def sync_children(
    view: SetView,
    spec: SetSpec,
    shape: Shape,
    cliques: Mapping[str, CliqueStanding],
    retemplated: Collection[str],
) -> Sync:
    """Return what makes children what the set says; `retemplated` are cliques of groups that are rolled now."""
    sync = Sync()
    body = view.set.body
    _sync_groups(view, shape.groups, sync)
    versions = _versions(view, spec)
    holds = not spec.on_delete  # what groups have of an older template, until their turn
    # By the name of the group, and of none; what has no owner yet, or one that goes, waits for another.
    owners = {"": owner_of(POD_CLIQUE_SET, body)}
    owners |= {
        name: owner_of(POD_CLIQUE_SCALING_GROUP, group.body)
        for name, group in view.groups.items()
        if not group.terminating
    }
    for wanted in shape.cliques:
        by, seen = owners.get(wanted.group), view.cliques.get(wanted.name)
        if by is None:
            continue
        if seen is None:
            if _has_room(sync, sync.others):
                sync.others.append(Create(POD_CLIQUE, clique_body(body, spec, wanted, by), view.set.metadata.namespace))
            continue
        if seen.terminating:
            continue
        keep = holds and bool(wanted.group) and not cliques[wanted.name].synced and wanted.name not in retemplated
        version, known = versions[wanted.spec.name], seen.derived.get("patch")
        if known is None or known[1:4] != (keep, by["uid"], version):
            if not _may_compare(sync, sync.patches):
                continue
            change = _clique_patch(seen.body, clique_body(body, spec, wanted, by), keep_template=keep)
            known = seen.derived["patch"] = (change, keep, by["uid"], version)
        if known[0] is not None and _has_room(sync, sync.patches):
            sync.patches[wanted.name] = Patch.of(POD_CLIQUE, seen.metadata, known[0])
    _sync_gangs(view, spec, shape.gangs, cliques, sync)
    sync.others += _sync_others(view, spec, shape)
    return sync


def _sync_others(view: SetView, spec: SetSpec, shape: Shape) -> tuple[Write, ...]:
    """Return the writes of what a set needs beside its cliques; found out once for what is there."""
    existing: dict[str, Mapping[str, JSONObject]] = {
        SERVICE.kind: view.services,
        SERVICE_ACCOUNT.kind: view.service_accounts,
        ROLE.kind: view.roles,
        ROLE_BINDING.kind: view.role_bindings,
        SECRET.kind: view.secrets,
        HORIZONTAL_POD_AUTOSCALER.kind: view.autoscalers,
    }
    key = (view.set.metadata.generation, {kind: dict(found) for kind, found in existing.items()})
    known = view.set.derived.get("others")
    if known is None or known[0] is not shape or known[1] != key:
        body = view.set.body
        writes = write_infrastructure(body, infrastructure(body, spec, shape), existing)
        known = view.set.derived["others"] = (shape, key, writes)
    found_writes: tuple[Write, ...] = known[2]
    return found_writes


def _versions(view: SetView, spec: SetSpec) -> Mapping[str, object]:
    """Return what the PodCliques of each clique derive from; the same objects while it is the same spec."""
    known = view.set.derived.get("versions")
    if known is None or known[0] is not spec:
        known = view.set.derived["versions"] = (spec, {each.name: _version(spec, each) for each in spec.cliques})
    found: Mapping[str, object] = known[1]
    return found


def _version(spec: SetSpec, clique: CliqueSpec) -> object:
    """Return what the PodCliques of a clique derive from, as something to compare."""
    group = spec.group.get(clique.group)
    together = None if group is None else (group.min_available, sum(each.replicas for each in spec.members(group)))
    return (clique.hash, clique.role, clique.min_available, clique.starts_after, clique.autoscaling, together)


def _clique_patch(existing: JSONObject, wanted: JSONObject, *, keep_template: bool) -> JSONObject | None:
    """Return what to merge into a PodClique, or None; most are as they should be, which is quickly seen."""
    sized = {**existing["spec"], "replicas": wanted["spec"]["replicas"]}
    if sized == wanted["spec"] and _is_labelled(existing, wanted):
        return None
    return clique_patch(existing, wanted, keep_template=keep_template)


def _gang_patch(existing: JSONObject, wanted: JSONObject) -> JSONObject | None:
    """Return what to merge into a PodGang, or None."""
    if existing["spec"] == wanted["spec"] and _is_labelled(existing, wanted):
        return None
    return gang_patch(existing, wanted)


def _is_labelled(existing: JSONObject, wanted: JSONObject) -> bool:
    there, ours = existing["metadata"], wanted["metadata"]
    return (there.get("labels"), there.get("annotations")) == (ours["labels"], ours["annotations"])


def _may_compare(sync: Sync, written: Sized) -> bool:
    """Whether a plan can compare another child, and write it; note if it cannot."""
    sync.compared += 1
    sync.more = sync.more or sync.compared > MOST_COMPARED
    return sync.compared <= MOST_COMPARED and _has_room(sync, written)


def _has_room(sync: Sync, written: Sized) -> bool:
    """Whether a plan can take another write of a kind; note if it cannot."""
    sync.more = sync.more or len(written) >= MOST_CHILDREN
    return len(written) < MOST_CHILDREN


def _sync_groups(view: SetView, wanted: Iterable[ExpectedGroup], sync: Sync) -> None:
    version = (view.set.metadata.generation, view.set.metadata.uid)
    for each in wanted:
        seen = view.groups.get(each.name)
        if seen is None:
            if _has_room(sync, sync.others):
                body = group_body(view.set.body, each)
                sync.others.append(Create(POD_CLIQUE_SCALING_GROUP, body, view.set.metadata.namespace))
        elif not seen.terminating:
            known = seen.derived.get("patch")
            if known is None or known[0] != version:
                change = group_patch(seen.body, group_body(view.set.body, each))
                known = seen.derived["patch"] = (version, change)
            if known[1] is not None:
                sync.group_patches[each.name] = Patch.of(POD_CLIQUE_SCALING_GROUP, seen.metadata, known[1])


def _sync_gangs(
    view: SetView, spec: SetSpec, wanted: Iterable[ExpectedGang], cliques: Mapping[str, CliqueStanding], sync: Sync
) -> None:
    version = (spec.priority_class, spec.scheduler)
    mirrored = (tuple(view.set.metadata.labels.items()), tuple(view.set.metadata.annotations.items()))
    for gang in wanted:
        seen = view.gangs.get(gang.name)
        pods = listed_pods(gang, cliques)
        if seen is None:
            if _has_room(sync, sync.others):
                body = gang_body(view.set.body, spec, gang, pods)
                sync.others.append(Create(POD_GANG, body, view.set.metadata.namespace))
        elif not seen.terminating:
            key = (version, mirrored, tuple(pods.items()))
            known = seen.derived.get("patch")
            if known is None or known[0] != key:
                if not _may_compare(sync, sync.gang_patches):
                    continue
                change = _gang_patch(seen.body, gang_body(view.set.body, spec, gang, pods))
                known = seen.derived["patch"] = (key, change)
            if known[1] is not None and _has_room(sync, sync.gang_patches):
                sync.gang_patches[gang.name] = Patch.of(POD_GANG, seen.metadata, known[1])


def removals(view: SetView, shape: Shape, cliques: Sequence[CliqueView], held: Sequence[Unit]) -> list[Write]:
    """Return the deletions of cliques, and of groups and gangs that have no place any more.

    `held` are replicas of groups that have to stay for now; their gangs stay with them.
    """
    kept = {each.expected.gang for unit in held for each in unit.cliques}
    found: list[Write] = clique_deletions(cliques)
    groups: list[GroupView] = [view.groups[name] for name in sorted(view.groups.keys() - shape.group.keys())]
    found += [_deletion(POD_CLIQUE_SCALING_GROUP, each.metadata) for each in groups if not each.terminating]
    gangs: list[GangView] = [view.gangs[name] for name in sorted(view.gangs.keys() - shape.gang.keys() - kept)]
    found += [_deletion(POD_GANG, each.metadata) for each in gangs if not each.terminating]
    return found


def clique_deletions(cliques: Iterable[CliqueView | None]) -> list[Write]:
    """Return the deletions of cliques, as far as they are there."""
    return [_deletion(POD_CLIQUE, each.metadata) for each in cliques if each is not None and not each.terminating]


def _deletion(kind: Kind[Any], metadata: ObjectMeta) -> Delete:
    return Delete(kind, metadata.name, metadata.namespace, metadata.uid)
