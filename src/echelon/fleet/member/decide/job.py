"""Job: pods that run to their end, again until enough have succeeded or too many have failed."""

from dataclasses import dataclass

from echelon.api.base import JSONObject
from echelon.fleet.member.decide.deployment_status import Moment
from echelon.fleet.member.decide.pods import PodView, least_missed_first


@dataclass(frozen=True)
class JobView:
    """A Job and its pods. `completions` is None for one that ends with the first success."""

    parallelism: int
    completions: int | None
    backoff_limit: int
    pods: tuple[PodView, ...]
    suspended: bool = False
    finished: bool = False

    @property
    def active(self) -> list[PodView]:
        """The pods that run or will run."""
        return [pod for pod in self.pods if pod.active]

    @property
    def succeeded(self) -> int:
        """How many have succeeded."""
        return sum(pod.phase == "Succeeded" for pod in self.pods)

    @property
    def failed(self) -> int:
        """How many have failed."""
        return sum(pod.phase == "Failed" for pod in self.pods)

    @property
    def hopeless(self) -> bool:
        """Whether it has failed too often; restarts within a pod count too."""
        restarts = sum(pod.restarts for pod in self.pods if pod.phase != "Failed")
        return self.failed > self.backoff_limit or 0 < restarts >= self.backoff_limit

    @property
    def complete(self) -> bool:
        """Whether enough have succeeded."""
        if self.completions is None:
            return self.succeeded > 0 and not self.active
        return self.succeeded >= self.completions


@dataclass(frozen=True)
class Step:
    """Pods that come, and pods that go."""

    create: int = 0
    delete: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.create or self.delete)


def decide(view: JobView) -> Step:
    """Return the next step; none when there is nothing to do before something else happens."""
    active = view.active
    wanted = _wanted(view, len(active))
    if len(active) > wanted:
        return Step(delete=tuple(pod.name for pod in least_missed_first(active)[: len(active) - wanted]))
    return Step(create=wanted - len(active))


def _wanted(view: JobView, active: int) -> int:
    if view.finished or view.suspended or view.hopeless or view.complete:
        return 0
    if view.completions is None:
        return active if view.succeeded else view.parallelism
    return min(view.parallelism, view.completions - view.succeeded)


def status(view: JobView, old: JSONObject, now: Moment) -> JSONObject:
    """Report on the pods; once finished, a Job does not change any more."""
    if view.finished:
        return old
    report: JSONObject = {name: old[name] for name in ("startTime", "completionTime", "conditions") if name in old}
    if not view.suspended:
        report.setdefault("startTime", now.text)
    ready = sum(pod.ready for pod in view.active)
    numbers = {"active": len(view.active), "succeeded": view.succeeded, "failed": view.failed}
    report |= {name: number for name, number in numbers.items() if number} | {"ready": ready}
    terminating = sum(pod.terminating for pod in view.pods)
    report |= {"terminating": terminating, "uncountedTerminatedPods": {}}
    if view.active or terminating:
        return report
    if view.complete:
        report["completionTime"] = now.text
        report["conditions"] = _ended("Complete", "CompletionsReached", _REACHED, now)
    elif view.hopeless:
        report["conditions"] = _ended("Failed", "BackoffLimitExceeded", _EXCEEDED, now)
    return report


_REACHED = "Reached expected number of succeeded pods"
_EXCEEDED = "Job has reached the specified backoff limit"


def _ended(kind: str, reason: str, message: str, now: Moment) -> list[JSONObject]:
    times = {"lastProbeTime": now.text, "lastTransitionTime": now.text}
    first = "SuccessCriteriaMet" if kind == "Complete" else "FailureTarget"
    return [{"type": each, "status": "True", **times, "reason": reason, "message": message} for each in (first, kind)]


def finished(status: JSONObject) -> bool:
    """Tell whether a Job has ended."""
    return any(c["type"] in ("Complete", "Failed") and c["status"] == "True" for c in status.get("conditions") or ())
