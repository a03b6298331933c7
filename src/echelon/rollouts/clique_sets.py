"""PodCliqueSets as `echelon rollout` sees them: a set, its replicas, their groups and cliques, and the pods of these.

A set is rolled out within one cluster, so there are no placements and no waves; what is counted are pods. How far each
part is, is judged by the same functions that the controller decides with.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, cast

from echelon.api.base import JSONObject
from echelon.api.controller_revisions import CONTROLLER_REVISION
from echelon.api.core import POD
from echelon.api.grove import POD_CLIQUE, POD_CLIQUE_SCALING_GROUP, POD_CLIQUE_SET
from echelon.api.kinds import Kind
from echelon.api.times import format_time, parse_time
from echelon.api.work import APPLIED_MANIFEST_WORK
from echelon.engine.conditions import find_condition
from echelon.engine.pod_clique import revisions as stored
from echelon.engine.pod_clique.names import PART_OF
from echelon.engine.pod_clique.outdated import SetAge, stand
from echelon.engine.pod_clique.pod_facts import read_pod
from echelon.engine.pod_clique.revisions import CannotUndo, SetRevision
from echelon.engine.pod_clique.set_spec import Settings
from echelon.engine.pod_clique.set_status import ACCEPTED, UPDATE
from echelon.engine.pod_clique.view import SetView, read_clique, read_group, read_set
from echelon.engine.rollout.durations import elapsed
from echelon.engine.rollout.stored_revision import StoredRevision
from echelon.engine.rollout.subject import Subject
from echelon.kube.client import Reader
from echelon.kube.errors import Forbidden
from echelon.rollouts.clique_parts import count, parts_of
from echelon.rollouts.memory import Memory
from echelon.rollouts.picture import (
    COMPLETE,
    DELETING,
    LEFT,
    MISCONFIGURED,
    PAUSED,
    ROLLING_OUT,
    Picture,
)
from echelon.rollouts.reading import Found
from echelon.rollouts.refusals import Refused

_UNSEEN = "its pods may not be read, so nothing is known of them but what its cliques count"
_NO_SOAK = "pods of a set do not soak; what is rolled next follows from minAvailable and maxUnavailable"
_NO_GROUPS = "a set has no groups of clusters that wait for an approval; pause it to have nothing rolled"
_BY_WORK = "a work applies it, and would put the present template back; undo what is rolled out to this cluster instead"
_AGENT = "work-agent"  # writes what works apply
# Whether the controller has the image is the controller's to tell, in the set's condition.
_ANY = Settings(init_image="any")


@dataclass(frozen=True)
class CliqueSet:
    """A set as it was read, with its pods as the server has them."""

    view: SetView
    pods: Mapping[str, JSONObject] = field(default_factory=dict)  # by name
    note: str = ""  # what could not be seen

    @property
    def standing(self) -> SetAge:
        """Where each part of it stands."""
        return stand(self.view)


async def read_set_view(client: Reader, document: JSONObject) -> CliqueSet:
    """Read a set and what belongs to it, from the server."""
    meta = document["metadata"]
    namespace, label = meta["namespace"], f"{PART_OF}={meta['name']}"

    async def labelled(kind: Kind[Any]) -> Sequence[JSONObject]:
        return (await client.list(kind.untyped(), namespace, labels=label)).items

    cliques, groups, revisions = await asyncio.gather(
        labelled(POD_CLIQUE), labelled(POD_CLIQUE_SCALING_GROUP), labelled(CONTROLLER_REVISION)
    )
    note, pods = "", cast("Sequence[JSONObject]", ())
    try:
        pods = await labelled(POD)
    except Forbidden:
        note = _UNSEEN
    own_groups = [each for each in groups if _owner(each) == meta["uid"]]
    owners = {meta["uid"], *(each["metadata"]["uid"] for each in own_groups)}
    own_cliques = [each for each in cliques if _owner(each) in owners]
    by_clique: dict[str, list[JSONObject]] = {}
    for pod in pods:
        by_clique.setdefault(_owner(pod), []).append(pod)
    views = [read_clique(each, [*map(read_pod, by_clique.get(each["metadata"]["uid"], ()))]) for each in own_cliques]
    view = SetView(
        set=read_set(document, [each for each in revisions if _owner(each) == meta["uid"]], _ANY),
        cliques={each.name: each for each in views},
        groups={each["metadata"]["name"]: read_group(each) for each in own_groups},
    )
    own_pods = [pod for each in own_cliques for pod in by_clique.get(each["metadata"]["uid"], ())]
    return CliqueSet(view, {pod["metadata"]["name"]: pod for pod in own_pods}, note)


async def read_clique_set(client: Reader, document: JSONObject, _: datetime, __: Memory | None = None) -> Found:
    """Return a set with everything around it."""
    return found_clique_set(await read_set_view(client, document))


def found_clique_set(found: CliqueSet) -> Found:
    """Return a set as the subject of a rollout."""
    reading = found.view.set
    spec = reading.spec
    revision = spec.generation_hash if spec is not None else reading.status.current_generation_hash
    known = sorted(map(_stored, reading.revisions), key=lambda each: each.number)
    subject = Subject(
        kind=POD_CLIQUE_SET,
        metadata=reading.metadata,
        noun="pod",
        revision=revision,
        conditions=reading.status.conditions,
        revisions=tuple(known),
    )
    earlier = [each for each in known if each.revision != revision]
    refused = {"promote": _NO_SOAK, "approve": _NO_GROUPS}
    return Found(
        subject,
        drawn=partial(draw_set, found, revision),
        refused={**refused, **({"undo": _BY_WORK} if is_applied_by_work(reading.body) else {})},
        undo=partial(_undo, reading.body, reading.revisions),
        previous=earlier[-1] if earlier else None,
    )


def draw_set(found: CliqueSet, revision: str, now: datetime) -> Picture:
    """Draw a set as it is now."""
    reading, standing = found.view.set, found.standing
    meta, status = reading.metadata, reading.status
    on_delete = reading.spec is not None and reading.spec.on_delete
    state, message = _state(found, standing)
    present = stored.present(reading.revisions, revision)
    made = parse_time(meta.creation_timestamp) or now
    counts: Counter[str] = Counter()
    for replica in standing.replicas:
        for clique in replica.everything:
            counts.update(count(clique, on_delete=on_delete))
    errors = [each.description for each in status.last_errors[:1]]
    return Picture(
        meta.namespace,
        meta.name,
        revision,
        present.number if present is not None else 0,
        elapsed(now - made),
        state,
        "; ".join(filter(None, (message, *errors))),
        {name: number for name, number in counts.items() if number},
        (),
        POD_CLIQUE_SET.singular,
        found.note,
        parts=parts_of(standing.replicas, found.pods, status, on_delete=on_delete, now=now),
        noun="pods",
        created=meta.creation_timestamp or "",
        time=format_time(now),
    )


def describe_cliques(revision: StoredRevision) -> JSONObject:
    """Return what a list of revisions says of one: the images of its cliques."""
    template = (revision.content or {}).get("template")
    cliques = template.get("cliques") if isinstance(template, dict) else None
    told = [f"{each.get('name')}={','.join(_images(each))}" for each in cliques or () if isinstance(each, dict)]
    return {"images": " ".join(told) or None}


def is_applied_by_work(body: JSONObject) -> bool:
    """Whether a set is what a work applies: an agent owns it, or has written it."""
    metadata = body["metadata"]
    owners = (each.get("kind") for each in metadata.get("ownerReferences") or ())
    writers = (each.get("manager") for each in metadata.get("managedFields") or () if "f:spec" in _fields(each))
    return APPLIED_MANIFEST_WORK.kind in owners or _AGENT in writers


def _fields(entry: JSONObject) -> JSONObject:
    fields = entry.get("fieldsV1")
    return fields if isinstance(fields, dict) else {}


def _state(found: CliqueSet, standing: SetAge) -> tuple[str, str]:
    reading = found.view.set
    meta, status, spec = reading.metadata, reading.status, reading.spec
    if meta.deletion_timestamp:
        return DELETING, "its pods are being deleted"
    accepted, update = find_condition(status.conditions, ACCEPTED), find_condition(status.conditions, UPDATE)
    if accepted is not None and accepted.status == "False":
        return MISCONFIGURED, accepted.message
    if status.observed_generation is None and not status.conditions:
        return ROLLING_OUT, "no controller has looked at it yet: echelon run --controllers pod-cliques runs one"
    if (status.observed_generation or 0) < meta.generation or spec is None:
        return ROLLING_OUT, "the controller has not carried out the present spec yet"
    if update is not None and update.status == "True" and update.reason == "Paused":
        return PAUSED, update.message
    replicas = standing.replicas
    unavailable = [str(each.index) for each in replicas if not each.available]
    if unavailable:
        few = f"replica {unavailable[0]} is" if len(unavailable) == 1 else f"replicas {', '.join(unavailable[:6])} are"
        return ROLLING_OUT, f"{few} not available"
    outdated = sum(each.outdated for replica in replicas for each in replica.everything)
    if outdated and spec.on_delete:
        return LEFT, f"echelon rollout outdated {meta.name} -n {meta.namespace} lists the pods that are left"
    if outdated or any(not each.converged for each in replicas) or _is_under_way(found):
        return ROLLING_OUT, update.message if update is not None and update.status == "True" else ""
    return COMPLETE, ""


def _is_under_way(found: CliqueSet) -> bool:
    progress = found.view.set.status.update_progress
    return progress is not None and bool(progress.update_started_at) and not progress.update_ended_at


def _stored(revision: SetRevision) -> StoredRevision:
    return StoredRevision(
        name=revision.name,
        uid=revision.uid,
        version=revision.version,
        number=revision.number,
        revision=revision.generation_hash,
        completed="",
        content={"template": revision.template},
        owner=revision.owner,
        created=revision.created,
        cause=revision.cause,
    )


def _undo(body: JSONObject, revisions: Iterable[SetRevision], chosen: StoredRevision) -> list[JSONObject]:
    revision = next(each for each in revisions if each.name == chosen.name)
    try:
        return stored.undo(body, revision)
    except CannotUndo as error:
        raise Refused(str(error)) from error


def _images(clique: JSONObject) -> Sequence[str]:
    spec = clique.get("spec", {}).get("podSpec", {})
    return [str(each.get("image", "")) for each in spec.get("containers") or () if isinstance(each, dict)]


def _owner(obj: JSONObject) -> str:
    references = obj["metadata"].get("ownerReferences") or ()
    return next((str(each.get("uid", "")) for each in references if each.get("controller")), "")
