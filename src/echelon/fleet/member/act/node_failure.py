"""What the control plane of a member does about nodes that fail: it taints them, and pods have to leave.

The condition `Ready` of a node is what counts, whoever wrote it: the script of the member, a test, or somebody with
kubectl. While it is not true, nothing on the node moves: pods that were deleted stay until it is back, or until the
node itself is deleted.
"""

from math import inf

from echelon.api.base import JSONObject
from echelon.fleet.member import containers
from echelon.fleet.member.context import MemberContext
from echelon.fleet.member.decide.eviction import failure_taints, leaves_at
from echelon.fleet.member.decide.pods import seconds
from echelon.fleet.member.decide.scheduling import NOT_READY, UNREACHABLE, Taint
from echelon.hub.storage.store import Entry, Key

_OF_FAILURE = (NOT_READY, UNREACHABLE)


async def sync(context: MemberContext, key: Key) -> None:
    """Taint a node that fails, and let go of it when it is well; see to the pods on it."""
    entry = context.writer.latest(key)
    if entry is None:
        return
    if not await _taint(context, entry):
        return  # the write brings the node back
    ready = _readiness(entry.object) == "True"
    taints = _taints(context, entry)
    next_due = inf
    for pod_key in context.index.pods_on(key.name):
        pod, found = context.index.pod(pod_key), context.writer.latest(pod_key)
        if pod is None or found is None or not pod.active:
            continue  # what has ended has nothing to lose, and what is ending goes already
        if not ready and pod.ready:
            status = containers.unheard_of(found.object, context.cluster.timestamp())
            found = await context.writer.replace(found, status=status)
        due = leaves_at(found.object["spec"].get("tolerations") or (), taints)
        if due <= context.now():
            await _expel(context, pod_key)
        else:
            next_due = min(next_due, due)
    if next_due < inf:
        context.wake_at(key, next_due)


async def _taint(context: MemberContext, entry: Entry) -> bool:
    """Give a node the taints of its condition; tell whether it has them."""
    spec = entry.object.get("spec") or {}
    present = spec.get("taints") or []
    wanted = failure_taints(_readiness(entry.object))
    found = {_read(each) for each in present if each["key"] in _OF_FAILURE}
    if found == set(wanted):
        return True
    now = context.cluster.timestamp()
    taints = [each for each in present if each["key"] not in _OF_FAILURE or _read(each) in wanted]
    taints += [{"key": taint[0], "effect": taint[2], "timeAdded": now} for taint in wanted if taint not in found]
    rest = {name: value for name, value in spec.items() if name != "taints"}
    new = {**entry.object, "spec": {**rest, "taints": taints} if taints else rest}
    await context.cluster.store.put(entry.key, new, expected=entry.revision)
    return False


def _taints(context: MemberContext, entry: Entry) -> dict[Taint, float]:
    """Return the taints that make pods leave, and since when they are there. Not every one says so."""
    found: dict[Taint, float] = {}
    for each in (entry.object.get("spec") or {}).get("taints") or ():
        taint = _read(each)
        if taint[2] == "NoExecute":
            known = (entry.key.name, taint)
            found[taint] = seconds(each.get("timeAdded")) or context.tainted.setdefault(known, context.now())
    for known in [each for each in context.tainted if each[0] == entry.key.name and each[1] not in found]:
        del context.tainted[known]
    return found


async def _expel(context: MemberContext, key: Key) -> None:
    entry = context.writer.latest(key)
    if entry is not None:
        status = containers.expelled(entry.object, context.cluster.timestamp())
        await context.writer.delete(await context.writer.replace(entry, status=status))


def _readiness(node: JSONObject) -> str:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return next((str(each["status"]) for each in conditions if each["type"] == "Ready"), "")


def _read(taint: JSONObject) -> Taint:
    return taint["key"], taint.get("value") or "", taint["effect"]
