"""`kubectl logs`: what the containers of a pod have said, where somebody answers for its machines."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from aiohttp import web

from echelon.api.base import JSONObject
from echelon.api.times import parse_time
from echelon.hub.machines import LogLine, Machines
from echelon.hub.storage.store import Compacted, WatchClosed
from echelon.hub.verbs import reading
from echelon.hub.verbs.admission import Target
from echelon.hub.web.http import Call, in_time
from echelon.hub.web.options import integer, time_limit
from echelon.hub.web.request import truth
from echelon.kube import errors
from echelon.kube.client import EventType

LOG = "log"
INTO_CONTAINERS = ("exec", "attach", "portforward")
_NO_MACHINES = "there are no machines behind this server, so nothing runs in its pods"


async def serve(call: Call, target: Target) -> web.StreamResponse:
    """Answer a request for the log of a container, or for a way into one."""
    cluster = call.served.cluster
    pod = reading.get(cluster, target.resource, target.namespace, target.name).object
    if cluster.machines is None:
        raise errors.BadRequest(_NO_MACHINES)
    if target.subresource != LOG:
        raise errors.BadRequest(cluster.machines.why_not(target.subresource))
    if call.info.verb != "get":
        raise errors.MethodNotAllowed("the server does not allow this method on the requested resource")
    query = call.http.query
    container = _container(pod, query.get("container", ""))
    lines = _said(cluster.machines, pod, container, previous=truth(query.get("previous")))
    selected = _selected(call, lines, cluster.clock())
    text = _text(call, selected)
    limit = integer(query.get("limitBytes"))
    response = web.StreamResponse(headers={"Content-Type": "text/plain", "Cache-Control": "no-cache, private"})
    response.enable_chunked_encoding()
    await response.prepare(call.http)
    async with in_time(call, call.limits.request_seconds):
        await response.write(text[:limit] if limit > 0 else text)
    if truth(query.get("follow")) and not truth(query.get("previous")):
        await _follow(call, target, response, container, lines)
    return response


async def _follow(
    call: Call, target: Target, response: web.StreamResponse, container: str, told: Sequence[LogLine]
) -> None:
    """Send what a container says from now on, until it ends or is started again."""
    cluster, key = call.served.cluster, (target.namespace, target.name)
    loop = asyncio.get_running_loop()
    end = loop.time() + time_limit(call)
    try:
        with cluster.store.watch("pods", target.namespace, since=cluster.store.revision) as watch:
            while (left := end - loop.time()) > 0:
                for change in await watch.next(left):
                    if (change.entry.key.namespace, change.entry.key.name) != key or cluster.machines is None:
                        continue
                    now = cluster.machines.log(change.entry.object, container, previous=False)
                    gone = change.type is EventType.DELETED
                    if gone or now is None or now[: len(told)] != list(told):
                        return
                    async with in_time(call, call.limits.request_seconds):
                        await response.write(_text(call, now[len(told) :]))
                    told = now
    except (Compacted, WatchClosed):
        return  # whoever follows asks again


def _container(pod: JSONObject, asked: str) -> str:
    """Return the container that is meant."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    names = [each["name"] for each in spec["containers"]]
    others = [each["name"] for each in spec.get("initContainers") or ()]
    if asked and asked not in (*names, *others):
        raise errors.BadRequest(f"container {asked} is not valid for pod {name}")
    if not asked and len(names) > 1:
        also = f" or one of the init containers: [{' '.join(others)}]" if others else ""
        choices = f"choose one of: [{' '.join(names)}]{also}"
        raise errors.BadRequest(f"a container name must be specified for pod {name}, {choices}")
    return asked or names[0]


def _said(machines: Machines, pod: JSONObject, container: str, *, previous: bool) -> list[LogLine]:
    lines = machines.log(pod, container, previous=previous)
    if lines is not None:
        return lines
    name = pod["metadata"]["name"]
    if previous:
        raise errors.BadRequest(f'previous terminated container "{container}" in pod "{name}" not found')
    status = pod.get("status") or {}
    statuses = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    state = next((each.get("state") or {} for each in statuses if each["name"] == container), {})
    reason = (state.get("waiting") or {}).get("reason") or ("not on a node yet" if not statuses else "unknown")
    if reason in ("ErrImagePull", "ImagePullBackOff"):
        reason = "trying and failing to pull image"
    raise errors.BadRequest(f'container "{container}" in pod "{name}" is waiting to start: {reason}')


def _selected(call: Call, lines: list[LogLine], now: datetime) -> list[LogLine]:
    """Leave out what is older, or further from the end, than was asked for."""
    query = call.http.query
    since = parse_time(query.get("sinceTime"))
    if query.get("sinceSeconds"):
        since = now - timedelta(seconds=integer(query.get("sinceSeconds")))
    if since is not None:
        lines = [line for line in lines if (parse_time(line.at) or datetime.min.replace(tzinfo=UTC)) >= since]
    if query.get("tailLines") is not None:
        tail = integer(query.get("tailLines"))
        lines = lines[len(lines) - min(tail, len(lines)) :]
    return lines


def _text(call: Call, lines: Sequence[LogLine]) -> bytes:
    stamped = truth(call.http.query.get("timestamps"))
    return "".join(f"{line.at} {line.text}\n" if stamped else f"{line.text}\n" for line in lines).encode()
