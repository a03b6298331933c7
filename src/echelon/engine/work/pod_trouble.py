"""What keeps a pod from serving: one line, in the words of the kubelet or of the scheduler.

A pod says it in five places: what its containers wait for, how they ended, how they ended before, its conditions, and
events. Of these one is worth a line. Words that are different at each look ("back-off 20s", then "back-off 40s") are
left out, because whoever reports them would have to write again and again. All of it comes from a cluster, and from
whatever runs there: it is cut, and has no line ends or other control characters.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from echelon.api.base import JSONObject
from echelon.engine.work.health_state import condition, items, number, part, text

MAX_DETAIL = 200  # characters of what a server, a kubelet or a program says
BROKEN = frozenset(
    {
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "RunContainerError",
    }
)  # what a container waits for when nobody but the author of the manifest can help
_PULLING = ("ErrImagePull", "ImagePullBackOff")
_ALMOST = ("ContainerCreating", "PodInitializing")  # what says nothing about a cause
_ENDED_WELL = 0

# How bad a trouble is, the worst first: what never gets better by itself, what may, and what is only not over yet.
CANNOT_START, CRASHES, HAS_FAILED, NO_NODE, NOT_READY, STARTING = range(6)


@dataclass(frozen=True, slots=True)
class PodTrouble:
    """Why a pod does not serve. `rank` tells how bad that is, 0 for the worst; `text` is for people."""

    rank: int
    reason: str  # one CamelCase word
    text: str  # begins with the reason
    container: str = ""  # if it is one of several

    @property
    def conclusive(self) -> bool:
        """Whether it says why, and not only that it is so."""
        return self.rank < NOT_READY


def pod_trouble(pod: JSONObject) -> PodTrouble | None:
    """Return what is wrong with a pod; None if it serves, has done its work, or is going. Never raises."""
    status = part(pod, "status")
    phase = text(status, "phase")
    if text(part(pod, "metadata"), "deletionTimestamp") or phase == "Succeeded":
        return None
    if phase != "Failed" and condition(status, "Ready").get("status") == "True":
        return None
    statuses = [*items(status, "initContainerStatuses"), *items(status, "containerStatuses")]
    found = [told for each in statuses if (told := _container_trouble(each)) is not None]
    worst = min(found, key=lambda each: (each.rank, each.container), default=None)
    if phase == "Failed" and (worst is None or worst.rank > CRASHES or text(status, "reason")):
        return _trouble(HAS_FAILED, text(status, "reason") or "Failed", text(status, "message"))
    if worst is not None and worst.conclusive:
        several = len(items(part(pod, "spec"), "containers")) + len(items(part(pod, "spec"), "initContainers")) > 1
        return worst if several else PodTrouble(worst.rank, worst.reason, worst.text)
    scheduled = condition(status, "PodScheduled")
    if scheduled.get("status") == "False":
        reason = text(scheduled, "reason")
        return _trouble(
            NO_NODE, "FailedScheduling" if reason in ("Unschedulable", "") else reason, text(scheduled, "message")
        )
    if worst is not None:
        return worst
    ready = condition(status, "Ready")
    return _trouble(NOT_READY if phase == "Running" else STARTING, "NotReady", text(ready, "message"))


def one_line(said: str, limit: int = MAX_DETAIL) -> str:
    """Return a text that fits into a line: without control characters, and cut if it is long."""
    part = said[: limit * 4]
    shown = part if part.isprintable() else "".join(each if each.isprintable() else " " for each in part)
    words = " ".join(shown.split())
    return words if len(words) <= limit else f"{words[: limit - 1].rstrip()}…"


def last_line(said: str) -> str:
    """Return the last line of a text that says something."""
    lines: Iterable[str] = said.replace("\r", "\n").split("\n")
    return next((each for each in reversed(list(lines)) if each.strip()), "")


def _container_trouble(status: JSONObject) -> PodTrouble | None:
    if status.get("ready") is True:
        return None
    name = text(status, "name")
    state, before = part(status, "state"), part(status, "lastState", "terminated")
    waiting, terminated = part(state, "waiting"), part(state, "terminated")
    reason = text(waiting, "reason")
    if reason in _PULLING:
        return _trouble(CANNOT_START, "ImagePullBackOff", _pulling(status, text(waiting, "message")), name)
    if reason == "CrashLoopBackOff":
        return _trouble(CRASHES, reason, _exit(before), name)
    if reason in BROKEN:
        return _trouble(CANNOT_START, reason, text(waiting, "message"), name)
    if terminated:
        if number(terminated, "exitCode") == _ENDED_WELL:
            return None
        return _trouble(CRASHES, text(terminated, "reason") or "Error", _exit(terminated), name)
    if before and number(before, "exitCode") != _ENDED_WELL and state.get("running") is not None:
        # It runs for a moment between two crashes; whoever looks just then should not tell something else.
        return _trouble(CRASHES, "CrashLoopBackOff", _exit(before), name)
    if reason and reason not in _ALMOST:
        return _trouble(STARTING, reason, text(waiting, "message"), name)
    return None


def _pulling(status: JSONObject, message: str) -> str:
    """Name the image, and why it cannot be had if the kubelet says more than that it waits."""
    image = text(status, "image")
    told = message.removeprefix(f'Back-off pulling image "{image}"').removeprefix(": ").removeprefix("ErrImagePull: ")
    named = f'image "{image}"' if image and image not in told else ""
    return ": ".join(filter(None, (named, told)))


def _exit(terminated: JSONObject) -> str:
    """Say how a container ended, and the last thing that it said."""
    if not terminated:
        return ""
    reason = text(terminated, "reason")
    code = f"exit code {number(terminated, 'exitCode')}"
    told = f"{reason}, {code}" if reason not in ("", "Error", "ContainerCannotRun") else code
    return ": ".join(filter(None, (told, last_line(text(terminated, "message")))))


def _trouble(rank: int, reason: str, detail: str, container: str = "") -> PodTrouble:
    reason, detail = one_line(reason, 64), one_line(detail)
    said = detail.removeprefix(f"{reason}, ").removeprefix(f"{reason}: ")  # of a container that was OOMKilled
    return PodTrouble(rank, reason, ": ".join(filter(None, (reason, said))), one_line(container, 63))
