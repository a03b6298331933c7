"""The kubelets of a member: pods that have a node start, crash, become ready, end.

A pod's life is a chain of steps, each due at a moment that was drawn when the one before was done. What is due is
remembered by pod and not stored: after a restart of the process a pod begins its present step anew, as it does when a
kubelet restarts.
"""

import asyncio
from functools import partial

from echelon.api.base import JSONObject
from echelon.fleet.member import containers, init_containers
from echelon.fleet.member.act import initializing
from echelon.fleet.member.context import MemberContext
from echelon.fleet.member.decide.pods import PodView
from echelon.hub.storage.store import Entry, Key


async def sync(context: MemberContext, key: Key) -> None:
    """Move a pod on if it is time to."""
    entry, pod = context.writer.latest(key), context.index.pod(key)
    if entry is None or pod is None:
        return
    pod_timers = context.pod_timers
    if _is_out_of_reach(context, pod):
        pod_timers.forget(pod.uid)  # when the node is back, it begins its present step anew
        return
    step = pod_timers.due.pop(pod.uid, "")
    if pod.terminating:
        if step == "end":
            await context.writer.delete(entry, grace=0)
        elif pod_timers.awaited.get(pod.uid) != "end":
            grace = entry.object["metadata"].get("deletionGracePeriodSeconds") or 0
            _await(context, key, pod, "end", min(context.profile.pace.stop, grace))
    elif pod.ended:
        pod_timers.awaited.pop(pod.uid, None)
    elif not pod.node:
        return  # the scheduler knows of it
    elif step:
        await _STEPS[step](context, entry, pod)
    elif pod.uid not in pod_timers.awaited:
        await _resume(context, entry, pod)


def _is_out_of_reach(context: MemberContext, pod: PodView) -> bool:
    node = context.index.nodes.get(pod.node)
    return node is not None and not node.ready


async def _resume(context: MemberContext, entry: Entry, pod: PodView) -> None:
    """Take up a pod that nobody is taking care of: new on its node, known from before, or fallen into trouble."""
    images, at = containers.images_of(entry.object), context.elapsed()
    if pod.phase == "Pending" or not _runs(entry.object):
        number = init_containers.current(entry.object)
        if number is not None and (number > 0 or init_containers.is_running(entry.object, number)):
            await _initialize(context, entry, pod)
        else:
            pause = context.profile.pace.start_seconds(context.random) * context.script.start_factor(images, at)
            _await(context, entry.key, pod, "start" if number is None else "initialize", pause)
    elif crash := context.script.crash(images, at):
        _await(context, entry.key, pod, "crash", crash.after_seconds)
    elif _is_job(entry.object):
        _await(context, entry.key, pod, "finish", context.profile.pace.job)
    elif not pod.ready:
        _await(context, entry.key, pod, "ready", _probe_delay(entry.object))
    elif flapping := context.script.flapping(images, at):
        _await(context, entry.key, pod, "flap", flapping.ready_seconds)


async def _initialize(context: MemberContext, entry: Entry, pod: PodView, *, over: bool = False) -> None:
    step, seconds = await initializing.go_on(context, entry, pod, over=over)
    if step:
        _await(context, entry.key, pod, step, seconds)
    else:
        context.pod_timers.awaited.pop(pod.uid, None)


async def _initialized(context: MemberContext, entry: Entry, pod: PodView) -> None:
    await _initialize(context, entry, pod, over=True)


async def _start(context: MemberContext, entry: Entry, pod: PodView) -> None:
    obj, now, at = entry.object, context.cluster.timestamp(), context.elapsed()
    images = containers.images_of(obj)
    if image := context.script.bad_image(images, at, pod.name):
        await _fail_to_pull(context, entry, pod, image)
        return
    context.pod_timers.attempts.pop(pod.uid, None)
    crash = context.script.crash(images, at)
    delay = _probe_delay(obj)
    ready = crash is None and delay <= 0
    await context.writer.replace(entry, status=containers.running(obj, now, ready=ready))
    if crash is not None:
        _await(context, entry.key, pod, "crash", crash.after_seconds)
    elif _is_job(obj):
        _await(context, entry.key, pod, "finish", context.profile.pace.job)
    elif not ready:
        _await(context, entry.key, pod, "ready", delay)
    elif flapping := context.script.flapping(images, at):
        _await(context, entry.key, pod, "flap", flapping.ready_seconds)
    else:
        context.pod_timers.awaited.pop(pod.uid, None)


async def _fail_to_pull(context: MemberContext, entry: Entry, pod: PodView, image: str) -> None:
    attempt = context.pod_timers.attempts.get(pod.uid, 0)
    context.pod_timers.attempts[pod.uid] = attempt + 1
    status = containers.not_pulled(entry.object, image, attempt, context.cluster.timestamp())
    if status != entry.object.get("status"):
        await context.writer.replace(entry, status=status)
    _await(context, entry.key, pod, "start", containers.backoff(attempt))


async def _crash(context: MemberContext, entry: Entry, pod: PodView) -> None:
    obj, now = entry.object, context.cluster.timestamp()
    if obj["spec"].get("restartPolicy") == "Never":
        await context.writer.replace(entry, status=containers.ended(obj, now, succeeded=False))
        return
    await context.writer.replace(entry, status=containers.crashed(obj, now))
    _await(context, entry.key, pod, "start", containers.backoff(pod.restarts))


async def _become_ready(context: MemberContext, entry: Entry, pod: PodView) -> None:
    context.pod_timers.awaited.pop(pod.uid, None)
    status = containers.readiness(entry.object, context.cluster.timestamp(), ready=True)
    await context.writer.replace(entry, status=status)


async def _flap(context: MemberContext, entry: Entry, pod: PodView) -> None:
    flapping = context.script.flapping(containers.images_of(entry.object), context.elapsed())
    ready = flapping is None or not pod.ready
    if ready != pod.ready:
        status = containers.readiness(entry.object, context.cluster.timestamp(), ready=ready)
        await context.writer.replace(entry, status=status)
    if flapping is None:
        context.pod_timers.awaited.pop(pod.uid, None)
        return
    _await(context, entry.key, pod, "flap", flapping.ready_seconds if ready else flapping.unready_seconds)


async def _finish(context: MemberContext, entry: Entry, _pod: PodView) -> None:
    status = containers.ended(entry.object, context.cluster.timestamp(), succeeded=True)
    await context.writer.replace(entry, status=status)


async def evict(context: MemberContext, key: Key) -> None:
    """Throw a pod off its node."""
    entry, pod = context.writer.latest(key), context.index.pod(key)
    if entry is not None and pod is not None and pod.active:
        context.pod_timers.forget(pod.uid)
        status = containers.evicted(entry.object, context.cluster.timestamp())
        await context.writer.replace(entry, status=status)


_STEPS = {
    "initialize": _initialize,
    "initialized": _initialized,
    "start": _start,
    "crash": _crash,
    "ready": _become_ready,
    "flap": _flap,
    "finish": _finish,
}


def _await(context: MemberContext, key: Key, pod: PodView, step: str, seconds: float) -> None:
    context.pod_timers.awaited[pod.uid] = step
    now, grain = asyncio.get_running_loop().time(), context.profile.pace.grain
    moment = now + seconds
    if grain and seconds > 0:
        moment = round(moment / grain) * grain
        moment += grain if moment <= now else 0.0  # what takes time is not done at once
    context.timers.at(moment, partial(_ring, context, key, pod.uid, step))


def _ring(context: MemberContext, key: Key, uid: str, step: str) -> None:
    pod = context.index.pod(key)
    if pod is None or pod.uid != uid:
        context.pod_timers.forget(uid)
    elif context.pod_timers.awaited.get(uid) == step:  # it may have begun to terminate meanwhile
        context.pod_timers.due[uid] = step
        context.wake(key)


def _runs(pod: JSONObject) -> bool:
    statuses: list[JSONObject] = pod["status"].get("containerStatuses") or []
    return any("running" in (each.get("state") or {}) for each in statuses)


def _is_job(pod: JSONObject) -> bool:
    return bool(pod["spec"].get("restartPolicy", "Always") != "Always")


def _probe_delay(pod: JSONObject) -> float:
    """Return how long after its start a pod is found ready: the slowest of its containers decides."""
    probes = [container.get("readinessProbe") or {} for container in pod["spec"]["containers"]]
    return float(max((probe.get("initialDelaySeconds") or 0 for probe in probes), default=0))
