"""What the scheduler of a member reports of PodGangs."""

from echelon.fleet.member.cluster_index import SCHEDULER
from echelon.fleet.member.context import MemberContext
from echelon.fleet.member.decide import gang
from echelon.hub.storage.store import Key


async def sync(context: MemberContext, key: Key) -> None:
    """Say how far a gang has come, and have it looked at if it waits for something else by now."""
    index, gangs = context.index, context.index.gangs
    entry, found = context.writer.latest(key), gangs.gangs.get(key)
    if entry is None or found is None:
        return
    members, waiting = gangs.members(key), gangs.waiting.get(key)
    if waiting is not None and gang.together(found, members) != waiting.wanted:
        # Others have given its pods nodes, or have taken them away.
        pending = next((pod for each in members.values() for pod in each.pending), None)
        if pending is None:
            del gangs.waiting[key]
        else:
            index.queue.renew(pending)
            context.wake(SCHEDULER)
    old = entry.object.get("status") or {}
    status = gang.status(found, members, waiting.why if waiting else "", old, context.moment())
    if gang.is_news(old, status):
        await context.writer.replace(entry, status=status)
