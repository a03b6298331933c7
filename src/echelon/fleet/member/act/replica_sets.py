"""The ReplicaSet controller of a member."""

from echelon.fleet.member.act.making import delete_pods, make_pod, report
from echelon.fleet.member.decide import replica_set
from echelon.fleet.member.decide.pods import next_availability
from echelon.fleet.member.place import Place
from echelon.hub.storage.store import Key


async def sync(place: Place, key: Key) -> None:
    """Make and delete pods, or report."""
    entry = place.writer.latest(key)
    if entry is None:
        return
    obj, spec, now = entry.object, entry.object["spec"], place.now()
    meta = obj["metadata"]
    pods = place.sight.pods_of(meta["uid"])
    if "deletionTimestamp" not in meta:
        correction = replica_set.correct(spec.get("replicas", 1), pods)
        for _ in range(correction.create):
            await make_pod(place, obj, spec["template"], f"{meta['name']}-")
        await delete_pods(place, key.namespace, correction.delete)
        if correction.create or correction.delete:
            return  # what came of it wakes this again, and then it is reported
    wait = spec.get("minReadySeconds", 0)
    if wait and (moment := next_availability(pods, wait, now)):
        place.wake_at(key, moment)
    await report(place, entry, replica_set.status(pods, wait, meta.get("generation", 1), now))
