"""How the init containers of a pod run: in order, each to its end; the one that waits for cliques until they serve."""

from echelon.api.base import JSONObject
from echelon.fleet.member import containers, init_containers
from echelon.fleet.member.context import MemberContext
from echelon.fleet.member.decide import waiter
from echelon.fleet.member.decide.pods import PodView
from echelon.hub.storage.store import Entry

Awaiting = tuple[str, float]  # the step that a pod awaits, and in how many seconds
_NOBODY = ("", 0.0)  # a write, or a pod that is waited for, brings it back


async def go_on(context: MemberContext, entry: Entry, pod: PodView, *, over: bool = False) -> Awaiting:
    """Bring the init containers of a pod on their way by one step, and return what the pod awaits then.

    `over` says that the one that runs has done its work.
    """
    obj, number = entry.object, init_containers.current(entry.object)
    if number is None:
        return _NOBODY
    container, now = init_containers.of(obj)[number], context.cluster.timestamp()
    if not init_containers.is_running(obj, number):
        if trouble := _trouble(context, pod, obj, number):
            status, awaiting = trouble
            if status != obj.get("status"):
                await context.writer.replace(entry, status=status)
            return awaiting
        context.pod_timers.attempts.pop(pod.uid, None)
        await context.writer.replace(entry, status=init_containers.began(obj, number, now))
        return _NOBODY
    cliques = None if _is_broken(container) else waiter.awaited(container)
    if cliques is None:
        if not over:
            return "initialized", context.profile.pace.init
    elif not waiter.satisfied(cliques, lambda each: context.index.gangs.ready(pod.namespace, pod.gang, each)):
        context.index.gangs.wait(entry.key, pod, cliques)
        return _NOBODY
    context.index.gangs.stop_waiting(entry.key)
    await context.writer.replace(entry, status=init_containers.ended(obj, number, now))
    return _NOBODY


def _trouble(context: MemberContext, pod: PodView, obj: JSONObject, number: int) -> tuple[JSONObject, Awaiting] | None:
    """Return what keeps an init container from doing its work, and when it is tried again."""
    container, now, at = init_containers.of(obj)[number], context.cluster.timestamp(), context.elapsed()
    images = (container.get("image") or "",)
    attempt = context.pod_timers.attempts.get(pod.uid, 0)
    if image := context.script.bad_image(images, at, pod.name):
        context.pod_timers.attempts[pod.uid] = attempt + 1
        status = init_containers.held_up(obj, number, *containers.pull_error(image, attempt), now)
        return status, ("initialize", containers.backoff(attempt))
    if context.script.crash(images, at) or _is_broken(container):
        if obj["spec"].get("restartPolicy") == "Never":
            return containers.ended(obj, now, succeeded=False), _NOBODY
        pause = containers.backoff(init_containers.restarts(obj, number))
        return init_containers.crashed(obj, number, pause, now), ("initialize", pause)
    return None


def _is_broken(container: JSONObject) -> bool:
    try:
        waiter.awaited(container)
    except waiter.BadArguments:
        return True
    return False
