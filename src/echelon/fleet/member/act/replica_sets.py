"""The ReplicaSet controller of a member."""

from echelon.fleet.member.act.making import delete_pods, make_pod, report
from echelon.fleet.member.context import MemberContext
from echelon.fleet.member.decide import replica_set
from echelon.fleet.member.decide.pods import next_availability
from echelon.hub.storage.store import Entry, Key


async def sync(context: MemberContext, key: Key) -> None:
    """Make and delete pods, and report on those that were there before: what came of it wakes this again."""
    entry = context.writer.latest(key)
    if entry is None or _is_behind(context, entry):
        return
    obj, spec, now = entry.object, entry.object["spec"], context.now()
    meta = obj["metadata"]
    pods = tuple(context.index.pods_of(meta["uid"]))
    if "deletionTimestamp" not in meta:
        correction = replica_set.correct(spec.get("replicas", 1), pods)
        for _ in range(correction.create):
            await make_pod(context, obj, spec["template"], f"{meta['name']}-")
        await delete_pods(context, key.namespace, correction.delete)
        if context.profile.brief and (correction.create or correction.delete):
            return
    wait = spec.get("minReadySeconds", 0)
    if wait and (moment := next_availability(pods, wait, now)):
        context.wake_at(key, moment)
    await report(context, entry, replica_set.status(pods, wait, meta.get("generation", 1), now))


def _is_behind(context: MemberContext, entry: Entry) -> bool:
    """Tell whether a ReplicaSet has been told something that its controller has not heard of yet."""
    obj, lag = entry.object, context.profile.pace.lag
    generation = obj["metadata"].get("generation", 1)
    if not lag or (obj.get("status") or {}).get("observedGeneration", 0) >= generation:
        return False
    due = context.heard_at(entry.key, generation, lag)
    if due <= context.now():
        return False
    context.wake_at(entry.key, due)
    return True
