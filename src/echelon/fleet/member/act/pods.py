"""The scheduler and the kubelets of a member: pods find a node, start, crash, become ready, end.

A pod's life is a chain of steps, each due at a moment that was drawn when the one before was done. What is due is
remembered by pod and not stored: after a restart of the process a pod begins its present step anew, as it does when a
kubelet restarts.
"""

from functools import partial

from echelon.api.base import JSONObject
from echelon.fleet.member import containers
from echelon.fleet.member.decide.pods import PodView
from echelon.fleet.member.decide.scheduling import choose
from echelon.fleet.member.place import Place
from echelon.hub.storage.store import Entry, Key


async def sync(place: Place, key: Key) -> None:
    """Move a pod on if it is time to."""
    entry, pod = place.writer.latest(key), place.sight.pod(key)
    if entry is None or pod is None:
        return
    lives = place.lives
    step = lives.due.pop(pod.uid, "")
    if pod.terminating:
        if step == "end":
            await place.writer.delete(entry, grace=0)
        elif lives.awaited.get(pod.uid) != "end":
            grace = entry.object["metadata"].get("deletionGracePeriodSeconds") or 0
            _await(place, key, pod, "end", min(place.profile.pace.stop, grace))
    elif pod.ended:
        lives.awaited.pop(pod.uid, None)
    elif not pod.node:
        await _schedule(place, entry, pod)
    elif step:
        await _STEPS[step](place, entry, pod)
    elif pod.uid not in lives.awaited:
        await _resume(place, entry, pod)


async def _schedule(place: Place, entry: Entry, pod: PodView) -> None:
    obj, sight = entry.object, place.sight
    node, why = choose(obj["spec"], pod.requests, sight.nodes.values(), sight.usage)
    now = place.cluster.timestamp()
    if node:
        sight.unscheduled.pop(entry.key, None)
        spec = {**obj["spec"], "nodeName": node}
        new = {**obj, "spec": spec}
        await place.cluster.store.put(
            entry.key, {**new, "status": containers.scheduled(new, node, now)}, expected=entry.revision
        )
        return
    sight.unscheduled[entry.key] = None
    status = containers.unschedulable(obj, why, now)
    if status != obj.get("status"):
        await place.writer.replace(entry, status=status)


async def _resume(place: Place, entry: Entry, pod: PodView) -> None:
    """Take up a pod that nobody is taking care of: new on its node, known from before, or fallen into trouble."""
    images, at = containers.images_of(entry.object), place.elapsed()
    if pod.phase == "Pending" or not _runs(entry.object):
        pause = place.profile.pace.start_seconds(place.random) * place.script.start_factor(images, at)
        _await(place, entry.key, pod, "start", pause)
    elif crash := place.script.crash(images, at):
        _await(place, entry.key, pod, "crash", crash.after_seconds)
    elif _is_job(entry.object):
        _await(place, entry.key, pod, "finish", place.profile.pace.job)
    elif not pod.ready:
        _await(place, entry.key, pod, "ready", _probe_delay(entry.object))
    elif flapping := place.script.flapping(images, at):
        _await(place, entry.key, pod, "flap", flapping.ready_seconds)


async def _start(place: Place, entry: Entry, pod: PodView) -> None:
    obj, now, at = entry.object, place.cluster.timestamp(), place.elapsed()
    images = containers.images_of(obj)
    if image := place.script.bad_image(images, at):
        await _fail_to_pull(place, entry, pod, image)
        return
    place.lives.attempts.pop(pod.uid, None)
    crash = place.script.crash(images, at)
    delay = _probe_delay(obj)
    ready = crash is None and delay <= 0
    await place.writer.replace(entry, status=containers.running(obj, now, ready=ready))
    if crash is not None:
        _await(place, entry.key, pod, "crash", crash.after_seconds)
    elif _is_job(obj):
        _await(place, entry.key, pod, "finish", place.profile.pace.job)
    elif not ready:
        _await(place, entry.key, pod, "ready", delay)
    elif flapping := place.script.flapping(images, at):
        _await(place, entry.key, pod, "flap", flapping.ready_seconds)
    else:
        place.lives.awaited.pop(pod.uid, None)


async def _fail_to_pull(place: Place, entry: Entry, pod: PodView, image: str) -> None:
    attempt = place.lives.attempts.get(pod.uid, 0)
    place.lives.attempts[pod.uid] = attempt + 1
    reason, message = "ImagePullBackOff", f'Back-off pulling image "{image}"'
    if attempt == 0:
        reason, message = "ErrImagePull", f'failed to pull and unpack image "{image}": not found'
    status = containers.waiting(entry.object, reason, message, place.cluster.timestamp())
    if status != entry.object.get("status"):
        await place.writer.replace(entry, status=status)
    _await(place, entry.key, pod, "start", containers.backoff(attempt))


async def _crash(place: Place, entry: Entry, pod: PodView) -> None:
    obj, now = entry.object, place.cluster.timestamp()
    if obj["spec"].get("restartPolicy") == "Never":
        await place.writer.replace(entry, status=containers.ended(obj, now, succeeded=False))
        return
    await place.writer.replace(entry, status=containers.crashed(obj, now))
    _await(place, entry.key, pod, "start", containers.backoff(pod.restarts))


async def _become_ready(place: Place, entry: Entry, pod: PodView) -> None:
    place.lives.awaited.pop(pod.uid, None)
    status = containers.readiness(entry.object, place.cluster.timestamp(), ready=True)
    await place.writer.replace(entry, status=status)


async def _flap(place: Place, entry: Entry, pod: PodView) -> None:
    flapping = place.script.flapping(containers.images_of(entry.object), place.elapsed())
    ready = flapping is None or not pod.ready
    if ready != pod.ready:
        status = containers.readiness(entry.object, place.cluster.timestamp(), ready=ready)
        await place.writer.replace(entry, status=status)
    if flapping is None:
        place.lives.awaited.pop(pod.uid, None)
        return
    _await(place, entry.key, pod, "flap", flapping.ready_seconds if ready else flapping.unready_seconds)


async def _finish(place: Place, entry: Entry, _pod: PodView) -> None:
    status = containers.ended(entry.object, place.cluster.timestamp(), succeeded=True)
    await place.writer.replace(entry, status=status)


async def evict(place: Place, key: Key) -> None:
    """Throw a pod off its node."""
    entry, pod = place.writer.latest(key), place.sight.pod(key)
    if entry is not None and pod is not None and pod.active:
        place.lives.forget(pod.uid)
        status = containers.evicted(entry.object, place.cluster.timestamp())
        await place.writer.replace(entry, status=status)


_STEPS = {"start": _start, "crash": _crash, "ready": _become_ready, "flap": _flap, "finish": _finish}


def _await(place: Place, key: Key, pod: PodView, step: str, seconds: float) -> None:
    place.lives.awaited[pod.uid] = step
    place.timers.after(seconds, partial(_ring, place, key, pod.uid, step))


def _ring(place: Place, key: Key, uid: str, step: str) -> None:
    pod = place.sight.pod(key)
    if pod is None or pod.uid != uid:
        place.lives.forget(uid)
    elif place.lives.awaited.get(uid) == step:  # it may have begun to terminate meanwhile
        place.lives.due[uid] = step
        place.wake(key)


def _runs(pod: JSONObject) -> bool:
    statuses: list[JSONObject] = pod["status"].get("containerStatuses") or []
    return any("running" in (each.get("state") or {}) for each in statuses)


def _is_job(pod: JSONObject) -> bool:
    return bool(pod["spec"].get("restartPolicy", "Always") != "Always")


def _probe_delay(pod: JSONObject) -> float:
    """Return how long after its start a pod is found ready: the slowest of its containers decides."""
    probes = [container.get("readinessProbe") or {} for container in pod["spec"]["containers"]]
    return float(max((probe.get("initialDelaySeconds") or 0 for probe in probes), default=0))
