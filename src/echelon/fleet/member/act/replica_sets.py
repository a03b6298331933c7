"""The ReplicaSet controller of a member."""

from echelon.fleet.member.act.making import delete_pods, make_pod, report
from echelon.fleet.member.context import MemberContext
from echelon.fleet.member.decide import replica_set
from echelon.fleet.member.decide.pods import next_availability
from echelon.hub.storage.store import Key


async def sync(context: MemberContext, key: Key) -> None:
    """Make and delete pods, or report."""
    entry = context.writer.latest(key)
    if entry is None:
        return
    obj, spec, now = entry.object, entry.object["spec"], context.now()
    meta = obj["metadata"]
    pods = context.index.pods_of(meta["uid"])
    if "deletionTimestamp" not in meta:
        correction = replica_set.correct(spec.get("replicas", 1), pods)
        for _ in range(correction.create):
            await make_pod(context, obj, spec["template"], f"{meta['name']}-")
        await delete_pods(context, key.namespace, correction.delete)
        if correction.create or correction.delete:
            return  # what came of it wakes this again, and then it is reported
    wait = spec.get("minReadySeconds", 0)
    if wait and (moment := next_availability(pods, wait, now)):
        context.wake_at(key, moment)
    await report(context, entry, replica_set.status(pods, wait, meta.get("generation", 1), now))
