"""The stored revisions of a set: ControllerRevisions that hold what is hashed, as the user gave it.

Only accepted templates are stored, and the one that is wanted has the highest number, so the newest is what pods go on
from when the set has become unusable. Those that pods still run are kept: under OnDelete that can be any number, and
which of two outdated pods is the older one is known by the numbers of their revisions.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.controller_revisions import CONTROLLER_REVISION
from echelon.api.grove import POD_CLIQUE_SET
from echelon.api.json_equality import is_same
from echelon.engine.plan import Create, Delete, Patch, Write
from echelon.engine.pod_clique.hashes import is_foreign, template_hash
from echelon.engine.pod_clique.names import MANAGED_BY, OPERATOR, PART_OF, TEMPLATE_HASH, CliqueKey
from echelon.engine.pod_clique.set_spec import SetSpec
from echelon.engine.pod_clique.template import read_clique_template
from echelon.engine.rollout.stored_revision import CAUSE_ANNOTATION, cause_of
from echelon.engine.work.health_state import items, number, part, text

LIMIT = 10  # revisions that are kept,
LIMIT_IN_USE = 50  # and with those that pods run

GENERATION_HASH = "echelon.dev/generation-hash"  # a label: which content a revision has
TEMPLATE_HASHES = "echelon.dev/pod-template-hashes"  # an annotation: the hashes of its cliques
MINIMUMS = "echelon.dev/min-available"  # an annotation: the minimum of each clique, which never grows
ALIASES = "echelon.dev/foreign-hashes"  # an annotation: what somebody else calls the same templates


@dataclass(frozen=True)
class SetRevision:
    """A stored revision of a set."""

    name: str
    uid: str
    version: str
    owner: str  # the uid of the set that owns it
    number: int
    generation_hash: str
    hashes: Mapping[str, str]  # by clique
    aliases: Mapping[str, tuple[str, ...]]  # by clique: foreign hashes of the same content
    minimums: Mapping[str, int]  # by clique
    template: JSONObject  # the part of the set's `spec.template` that is hashed
    created: str = ""
    cause: str = ""  # why it is wanted, in the words of whoever changed the set


def read_revision(body: JSONObject) -> SetRevision | None:
    """Read a ControllerRevision; None if it holds no templates."""
    metadata = part(body, "metadata")
    annotations = part(metadata, "annotations")
    template = part(body, "data", "spec", "template")
    if not items(template, "cliques"):
        return None
    owner = next((each for each in items(metadata, "ownerReferences") if each.get("controller")), {})
    aliases = {
        clique: tuple(map(str, names))
        for clique, names in _noted(annotations, ALIASES).items()
        if isinstance(names, list)
    }
    return SetRevision(
        name=text(metadata, "name"),
        uid=text(metadata, "uid"),
        version=text(metadata, "resourceVersion"),
        owner=text(owner, "uid"),
        number=number(body, "revision"),
        generation_hash=text(part(metadata, "labels"), GENERATION_HASH),
        hashes={clique: str(each) for clique, each in _noted(annotations, TEMPLATE_HASHES).items()},
        aliases=aliases,
        minimums={
            clique: each for clique, each in _noted(annotations, MINIMUMS).items() if isinstance(each, int) and each > 0
        },
        template=template,
        created=text(metadata, "creationTimestamp"),
        cause=text(annotations, CAUSE_ANNOTATION),
    )


def newest(revisions: Iterable[SetRevision]) -> SetRevision | None:
    """Return the revision that was accepted last."""
    return max(revisions, key=attrgetter("number"), default=None)


def present(revisions: Iterable[SetRevision], generation_hash: str) -> SetRevision | None:
    """Return the revision that holds a content; the newest, should two hold it."""
    return newest(each for each in revisions if each.generation_hash == generation_hash)


def numbers(revisions: Iterable[SetRevision]) -> dict[tuple[str, str], int]:
    """Return the number of the newest revision that has a template, by clique and hash, other names included."""
    found: dict[tuple[str, str], int] = {}
    for revision in sorted(revisions, key=attrgetter("number")):
        for clique, own in revision.hashes.items():
            for each in (own, *revision.aliases.get(clique, ())):
                found[clique, each] = revision.number
    return found


def find_aliases(spec: SetSpec, cliques: Iterable[tuple[CliqueKey, JSONObject]]) -> dict[str, tuple[str, ...]]:
    """Return the foreign hashes, by clique, of PodCliques that have the very content that is wanted of them.

    Whoever ran the set before called it by a hash of its own. Where the content is the same, pods with that hash are
    not outdated, so nothing is rolled when Echelon takes over.
    """
    found: dict[str, set[str]] = {}
    for key, body in cliques:
        label = text(part(body, "metadata", "labels"), TEMPLATE_HASH)
        wanted = spec.clique.get(key.clique)
        if wanted is None or not label or not is_foreign(label) or label in found.get(key.clique, ()):
            continue
        if template_hash(read_clique_template(body, member=not key.standalone)) == wanted.hash:
            found.setdefault(key.clique, set()).add(label)
    return {clique: tuple(sorted(names)) for clique, names in found.items()}


def store(
    set_body: JSONObject,
    spec: SetSpec,
    revisions: Sequence[SetRevision],
    aliases: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Write, ...]:
    """Return what makes the wanted content the newest revision, if it is not.

    It has to be written before any child is: a foreign hash that is overwritten on a PodClique is known nowhere else.
    """
    metadata = part(set_body, "metadata")
    namespace = text(metadata, "namespace")
    stored = present(revisions, spec.generation_hash)
    highest = max((each.number for each in revisions if each is not stored), default=0)
    if stored is None:
        return (Create(CONTROLLER_REVISION, _body(set_body, spec, highest + 1, aliases or {}), namespace),)
    change: JSONObject = {}
    annotations: JSONObject = {}
    if stored.number <= highest:
        change["revision"] = highest + 1
    if stored.minimums != (minimums := _minimums(spec)):
        annotations[MINIMUMS] = _written(minimums)
    merged = {clique: tuple(names) for clique, names in stored.aliases.items()}
    for clique, names in (aliases or {}).items():
        merged[clique] = tuple(sorted({*merged.get(clique, ()), *names}))
    if merged != dict(stored.aliases):
        annotations[ALIASES] = _written(merged)
    if stored.cause != (cause := cause_of(part(metadata, "annotations"))):
        annotations[CAUSE_ANNOTATION] = cause or None
    if annotations:
        change["metadata"] = {"annotations": annotations}
    if not change:
        return ()
    return (
        Patch(CONTROLLER_REVISION, stored.name, change, namespace, uid=stored.uid, resource_version=stored.version),
    )


def prune(
    set_body: JSONObject, spec: SetSpec, revisions: Sequence[SetRevision], in_use: Collection[tuple[str, str]]
) -> tuple[Write, ...]:
    """Return the deletions of what is no longer kept; `in_use` has the templates of pods by clique and hash.

    A template that several revisions have is kept with the newest of them.
    """
    namespace = text(part(set_body, "metadata"), "namespace")
    newest_with = numbers(revisions)
    used = {newest_with[each] for each in in_use if each in newest_with}
    by_age = sorted(revisions, key=attrgetter("number"), reverse=True)
    kept, rest = by_age[:LIMIT], by_age[LIMIT:]
    room = LIMIT_IN_USE - len(kept)
    goes: list[SetRevision] = []
    for each in rest:
        if each.generation_hash == spec.generation_hash:
            continue
        if each.number in used and room > 0:
            room -= 1
        else:
            goes.append(each)
    return tuple(Delete(CONTROLLER_REVISION, each.name, namespace, uid=each.uid) for each in goes)


class CannotUndo(ValueError):
    """A revision that does not fit the set as it is."""


def undo(set_body: JSONObject, revision: SetRevision) -> list[JSONObject]:
    """Return the JSON patch that makes the stored templates the wanted ones; nothing else of the set changes."""
    template = part(set_body, "spec", "template")
    stored = {text(each, "name"): each for each in items(revision.template, "cliques")}
    patch = list(_restored("/spec/template", "priorityClassName", template, revision.template))
    present_names = [text(each, "name") for each in items(template, "cliques")]
    if sorted(present_names) != sorted(stored):
        raise CannotUndo(f"revision {revision.number} has the cliques {', '.join(sorted(stored))}")
    for position, clique in enumerate(items(template, "cliques")):
        name, at = text(clique, "name"), f"/spec/template/cliques/{position}"
        changes = [
            *_restored(at, "labels", clique, stored[name]),
            *_restored(at, "annotations", clique, stored[name]),
            *_restored(f"{at}/spec", "podSpec", part(clique, "spec"), part(stored[name], "spec")),
        ]
        if changes:
            patch += [{"op": "test", "path": f"{at}/name", "value": name}, *changes]
    return patch


def _restored(at: str, field: str, present_one: JSONObject, stored: JSONObject) -> Iterable[JSONObject]:
    if field in stored and not is_same(stored[field], present_one.get(field)):
        yield {"op": "add", "path": f"{at}/{field}", "value": stored[field]}
    elif field in present_one and field not in stored:
        yield {"op": "remove", "path": f"{at}/{field}"}


def _body(set_body: JSONObject, spec: SetSpec, revision: int, aliases: Mapping[str, Sequence[str]]) -> JSONObject:
    metadata = part(set_body, "metadata")
    set_name = text(metadata, "name")
    annotations = {TEMPLATE_HASHES: _written(spec.hashes), MINIMUMS: _written(_minimums(spec))}
    if aliases:
        annotations[ALIASES] = _written(aliases)
    if cause := cause_of(part(metadata, "annotations")):
        annotations[CAUSE_ANNOTATION] = cause
    owner = {**POD_CLIQUE_SET.owner_reference(set_name, text(metadata, "uid")), "controller": True}
    return {
        **CONTROLLER_REVISION.type_meta,
        "metadata": {
            "name": f"{set_name}-{spec.generation_hash}",
            "namespace": text(metadata, "namespace"),
            "labels": {MANAGED_BY: OPERATOR, PART_OF: set_name, GENERATION_HASH: spec.generation_hash},
            "annotations": annotations,
            "ownerReferences": [{**owner, "blockOwnerDeletion": True}],
        },
        "data": {"spec": {"template": _stored(part(set_body, "spec", "template"))}},
        "revision": revision,
    }


def _stored(template: JSONObject) -> JSONObject:
    """Return the part of a set's template that is hashed, as its user gave it."""
    found: JSONObject = {name: template[name] for name in ("priorityClassName",) if name in template}
    found["cliques"] = [
        {
            **{name: clique[name] for name in ("name", "labels", "annotations") if name in clique},
            "spec": {"podSpec": part(clique, "spec", "podSpec")},
        }
        for clique in items(template, "cliques")
    ]
    return found


def _minimums(spec: SetSpec) -> dict[str, int]:
    return {each.name: each.min_available for each in spec.cliques}


def _written(noted: Mapping[str, Any]) -> str:
    return json.dumps(noted, separators=(",", ":"), sort_keys=True)


def _noted(annotations: JSONObject, name: str) -> JSONObject:
    try:
        noted = json.loads(text(annotations, name) or "{}")
    except ValueError:
        return {}
    return noted if isinstance(noted, dict) else {}
