"""The Deployment controller of a member."""

from echelon.api.base import JSONObject
from echelon.fleet.member.cluster_index import REPLICA_SETS, reference_to
from echelon.fleet.member.context import MemberContext
from echelon.fleet.member.decide import deployment, deployment_status
from echelon.fleet.member.decide.budgets import deployment_limits
from echelon.fleet.member.decide.deployment import DeploymentView, SetView, Step
from echelon.fleet.member.decide.deployment_status import Target
from echelon.fleet.member.decide.pods import HASH_LABEL
from echelon.fleet.member.decide.revisions import is_made_from, template_hash, with_label, without_hash
from echelon.hub.storage.store import Entry, Key

REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MOST = "deployment.kubernetes.io/max-replicas"
_OWN = (REVISION, HISTORY, DESIRED, MOST, "kubectl.kubernetes.io/last-applied-configuration")


async def sync(context: MemberContext, key: Key) -> None:
    """Take one step of a rollout, and report how things were before it.

    So the generation counts as observed while the counts are still those of the step before: as with the real one,
    whose status says nothing of what it has just told its ReplicaSets. Only a new ReplicaSet is in it.
    """
    entry = context.writer.latest(key)
    if entry is None or "deletionTimestamp" in entry.object["metadata"]:
        return
    obj = entry.object
    sets = _sets(context, obj)
    current = _current(obj, sets)
    view = _view(context, obj, sets, current)
    step = deployment.decide(view)
    acted = bool(step)
    if step.create is not None:
        current = await _create(context, entry, sets, step.create, view)
        if current is None:
            return  # under another name, the next time
        sets[current.key.name] = current
        view = _view(context, obj, sets, current)
        step = deployment.decide(view)
    await _resize(context, sets, step, view)
    if current is not None and await _renumber(context, sets, current):
        return  # the condition tells which ReplicaSet it is about
    if acted and context.profile.brief:
        return
    await _report(context, entry, view, current)
    if not step:
        await _clean_up(context, obj, view, sets)


def _sets(context: MemberContext, obj: JSONObject) -> dict[str, Entry]:
    """Return the ReplicaSets of a Deployment by name, oldest first."""
    found = [context.writer.latest(key) for key in context.index.sets_of(obj["metadata"]["uid"])]
    return {each.key.name: each for each in sorted((e for e in found if e), key=lambda each: each.created)}


def _current(obj: JSONObject, sets: dict[str, Entry]) -> Entry | None:
    """Return the ReplicaSet that has the template of the Deployment."""
    wanted = obj["spec"]["template"]
    return next((each for each in sets.values() if is_made_from(each.object["spec"]["template"], wanted)), None)


def _view(context: MemberContext, obj: JSONObject, sets: dict[str, Entry], current: Entry | None) -> DeploymentView:
    spec = obj["spec"]
    strategy = spec.get("strategy") or {}
    rolling = strategy.get("rollingUpdate") or {}
    replicas = spec.get("replicas", 1)
    recreate = strategy.get("type") == "Recreate"
    surge, unavailable = deployment_limits(rolling.get("maxSurge"), rolling.get("maxUnavailable"), replicas)
    olds = [each for each in sets.values() if each is not current]
    return DeploymentView(
        replicas=replicas,
        surge=0 if recreate else surge,
        unavailable=0 if recreate else unavailable,
        paused=bool(spec.get("paused")),
        recreate=recreate,
        new=_set_view(current) if current else None,
        olds=tuple(_set_view(each) for each in olds),
        old_pods=sum(_running(context, each) for each in olds) if recreate else 0,
    )


def _running(context: MemberContext, entry: Entry) -> int:
    return sum(not pod.ended for pod in context.index.pods_of(entry.object["metadata"]["uid"]))


def _set_view(entry: Entry) -> SetView:
    obj = entry.object
    status, notes = obj.get("status") or {}, obj["metadata"].get("annotations") or {}
    return SetView(
        name=entry.key.name,
        size=obj["spec"].get("replicas", 1),
        replicas=status.get("replicas", 0),
        ready=status.get("readyReplicas", 0),
        available=status.get("availableReplicas", 0),
        born=entry.created,
        desired=_number(notes.get(DESIRED)),
        most=_number(notes.get(MOST)),
    )


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


async def _create(
    context: MemberContext, entry: Entry, sets: dict[str, Entry], size: int, view: DeploymentView
) -> Entry | None:
    """Make the ReplicaSet of the present template and return it; nothing if its name is taken."""
    obj, spec = entry.object, entry.object["spec"]
    status = obj.get("status") or {}
    collisions = status.get("collisionCount", 0)
    hashed = template_hash(without_hash(spec["template"]), collisions)
    key = Key(REPLICA_SETS, entry.key.namespace, f"{entry.key.name}-{hashed}")
    if context.writer.latest(key) is not None:  # somebody else's, or another template: take another name
        await context.writer.replace(entry, status={**status, "collisionCount": collisions + 1})
        context.wake(entry.key)
        return None
    template = with_label(without_hash(spec["template"]), HASH_LABEL, hashed)
    selector = spec["selector"]
    labels = {**(selector.get("matchLabels") or {}), HASH_LABEL: hashed}
    content = {
        "spec": {
            "replicas": size,
            "selector": {**selector, "matchLabels": labels},
            "template": template,
            **({"minReadySeconds": spec["minReadySeconds"]} if spec.get("minReadySeconds") else {}),
        }
    }
    notes = {n: v for n, v in (obj["metadata"].get("annotations") or {}).items() if n not in _OWN}
    notes |= {DESIRED: str(view.replicas), MOST: str(view.most), REVISION: str(_highest(sets) + 1)}
    meta = {
        "labels": template["metadata"]["labels"],
        "annotations": notes,
        "ownerReferences": [reference_to(obj)],
    }
    return await context.writer.create(key, content, meta)


def _revision(entry: Entry) -> int:
    return _number((entry.object["metadata"].get("annotations") or {}).get(REVISION)) or 0


def _highest(sets: dict[str, Entry]) -> int:
    return max((_revision(each) for each in sets.values()), default=0)


async def _resize(context: MemberContext, sets: dict[str, Entry], step: Step, view: DeploymentView) -> None:
    for name, size in step.sizes:
        entry = sets[name]
        obj = entry.object
        notes = {**(obj["metadata"].get("annotations") or {}), DESIRED: str(view.replicas), MOST: str(view.most)}
        parts: dict[str, JSONObject] = {"metadata": {**obj["metadata"], "annotations": notes}}
        if obj["spec"].get("replicas", 1) != size:
            parts["spec"] = {**obj["spec"], "replicas": size}
        await context.writer.replace(entry, **parts)


async def _renumber(context: MemberContext, sets: dict[str, Entry], current: Entry) -> bool:
    """Give the ReplicaSet of the present template the highest revision: it may have been there before."""
    others = {name: each for name, each in sets.items() if each is not current}
    if _revision(current) > _highest(others):
        return False
    entry = context.writer.latest(current.key)
    if entry is None:
        return False
    meta = entry.object["metadata"]
    notes = meta.get("annotations") or {}
    history = [each for each in (notes.get(HISTORY), notes.get(REVISION)) if each]
    notes = {**notes, REVISION: str(_highest(others) + 1), HISTORY: ",".join(history)}
    await context.writer.replace(entry, metadata={**meta, "annotations": notes})
    return True


async def _report(context: MemberContext, entry: Entry, view: DeploymentView, current: Entry | None) -> None:
    obj, meta = entry.object, entry.object["metadata"]
    notes = meta.get("annotations") or {}
    target, revision = Target.SAME, notes.get(REVISION)
    if current is not None and revision != str(_revision(current)):
        revision = str(_revision(current))
        again = HISTORY in (current.object["metadata"].get("annotations") or {})
        target = Target.CHOSEN if again else Target.CREATED
    reported = deployment_status.report(
        view,
        obj.get("status") or {},
        generation=meta.get("generation", 1),
        deadline=obj["spec"].get("progressDeadlineSeconds", 600),
        target=target,
        now=context.moment(),
    )
    if reported.again is not None:
        context.wake_at(entry.key, reported.again)
    if target is not Target.SAME:
        # Kubernetes writes this through the status, so it is no new generation.
        renewed = {**meta, "annotations": {**notes, REVISION: revision}}
        await context.writer.replace(entry, metadata=renewed, status=reported.status)
    elif reported.status != (obj.get("status") or {}):
        await context.writer.replace(entry, status=reported.status)


async def _clean_up(context: MemberContext, obj: JSONObject, view: DeploymentView, sets: dict[str, Entry]) -> None:
    """Delete the oldest empty ReplicaSets beyond what history keeps, once a rollout is through."""
    new = view.new
    if not (new and new.available == view.replicas and not any(each.size for each in view.olds)):
        return
    empty = [sets[each.name] for each in view.olds if not each.replicas]
    empty.sort(key=_revision)
    for entry in empty[: max(0, len(empty) - obj["spec"].get("revisionHistoryLimit", 10))]:
        await context.writer.delete(entry)
