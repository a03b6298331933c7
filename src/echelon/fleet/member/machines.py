"""What the machines of a member answer: its events, and what its containers would have said if they ran."""

from collections.abc import Iterator

from echelon.api.base import JSONObject
from echelon.fleet.member.journal import Journal
from echelon.hub.machines import LogLine


class MemberMachines:
    """Answers for the nodes of one member."""

    __slots__ = ("_journal",)

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def report(self, namespace: str) -> None:
        """Write the events that are not written yet."""
        await self._journal.show(namespace)

    def log(self, pod: JSONObject, container: str, *, previous: bool) -> list[LogLine] | None:
        """Tell what a container does, in a few lines."""
        return log_of(pod, container, previous=previous)

    def why_not(self, action: str) -> str:
        """Say why nobody can reach into a container."""
        return (
            f"{action} is not possible: the containers of this cluster are simulated and nothing runs in them; "
            "kubectl logs tells what they would do"
        )


def log_of(pod: JSONObject, container: str, *, previous: bool) -> list[LogLine] | None:
    """Return what a simulated container says of itself since its last start, or the one before; None without one."""
    parts = [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
    status = pod.get("status") or {}
    statuses = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    spec = next((each for each in parts if each["name"] == container), None)
    said: JSONObject = next((each for each in statuses if each["name"] == container), {})
    state = said.get("lastState") if previous else said.get("state")
    if spec is None or not state or "waiting" in state:
        return None
    restarts = int(said.get("restartCount") or 0) - previous
    return list(_lines(pod, spec, said, state, restarts))


def _lines(pod: JSONObject, spec: JSONObject, said: JSONObject, state: JSONObject, restarts: int) -> Iterator[LogLine]:
    running, ended = state.get("running"), state.get("terminated") or {}
    start = (running or ended).get("startedAt") or ""
    yield LogLine(start, f"simulated container {spec['name']} of pod {pod['metadata']['name']}")
    yield LogLine(start, f"image {spec.get('image') or 'none'}")
    command = [*(spec.get("command") or ()), *(spec.get("args") or ())]
    yield LogLine(start, f"would run {' '.join(map(str, command)) if command else 'what the image says'}")
    again = f", for the {restarts + 1}. time" if restarts > 0 else ""
    yield LogLine(start, f"started{again}")
    if running is not None:
        if said.get("ready"):
            yield LogLine(max(_ready_since(pod), start), "ready")
        return
    code, reason = ended.get("exitCode", 0), ended.get("reason") or ""
    message = f": {text}" if (text := (ended.get("message") or "").strip()) else ""
    yield LogLine(ended.get("finishedAt") or start, f"ended with exit code {code} ({reason}){message}")


def _ready_since(pod: JSONObject) -> str:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((each.get("lastTransitionTime") or "" for each in conditions if each["type"] == "Ready"), "")
