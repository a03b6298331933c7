"""Why objects of works are not well: what their pods say, and the warnings about them.

A look is a few short lists, taken at once if something is said to have failed, else when `looking` says. What may not
be read is left out, once with a word in the log: a report without the cause is still a report.
"""

import logging
from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from echelon.agent.context import AgentContext
from echelon.agent.executor import ExecutorCheck
from echelon.agent.looking import FIRST_LOOK_SECONDS, Look
from echelon.agent.manifest_result import ManifestResult
from echelon.agent.object_watches import ObjectRef
from echelon.agent.pods_reading import PODS, PodsReading
from echelon.api.base import JSONObject
from echelon.api.work import ManifestWork, ManifestWorkStatus
from echelon.engine.work.health_state import part, text
from echelon.engine.work.health_told import unwell
from echelon.engine.work.reporting import ObservedManifest, Present
from echelon.kube.errors import ApiError

MOST_OBJECTS = 5  # of a work: as many as its conditions name

_log = logging.getLogger(__name__)


class Causes:
    """Finds out why the objects of one agent's works are not well."""

    def __init__(self, context: AgentContext, executor: ExecutorCheck) -> None:
        self._reading = PodsReading(context)
        self._executor = executor
        self._looks: dict[str, dict[int, Look]] = {}  # by work and place of the manifest

    def told(self, name: str, results: Sequence[ManifestResult]) -> list[ObservedManifest]:
        """Return what became of a work's manifests, with the causes that are known."""
        looks = self._looks.get(name, {})
        return [_with_cause(each.observed, looks.get(number)) for number, each in enumerate(results)]

    def next_look(self, name: str) -> float:
        """Return when there may be more to say about a work."""
        return min((each.due for each in self._looks.get(name, {}).values()), default=float("inf"))

    def forget(self, name: str) -> None:
        """Let go of what is known for a work."""
        self._looks.pop(name, None)

    async def look(
        self, work: ManifestWork, status: ManifestWorkStatus, results: Sequence[ManifestResult], now: float
    ) -> bool:
        """Look at what is not well by a report, as far as it is time to; tell whether there is more to say now."""
        name = work.metadata.name
        before, looks = self._looks.get(name, {}), dict[int, Look]()
        # What was told of before needs no time to get well by itself.
        told_before = {each for each, _ in unwell(work.status, work.metadata.generation)}
        for place, degraded in unwell(status, work.metadata.generation):
            live = results[place].observed.live
            if not isinstance(live, Present) or len(looks) == MOST_OBJECTS:
                continue
            known = before.get(place)
            if known is None or not known.is_about(live.object):
                known = Look.first(live.object, now if place in told_before else now + FIRST_LOOK_SECONDS)
            if degraded and not known.degraded:
                known = replace(known, due=now)  # whoever hears of it should hear why
            looked = await known.again(live.object, now, partial(self._find, work, live.object))
            looks[place] = replace(looked, degraded=degraded)
        if looks:
            self._looks[name] = looks
        else:
            self.forget(name)
        return any(each.cause != _cause(before.get(place)) for place, each in looks.items())

    async def _find(self, work: ManifestWork, obj: JSONObject) -> str | None:
        """Return why an object is not well, empty if that cannot be told; None if nobody could be asked."""
        try:
            if not await self._may_be_told(work, obj):
                return ""
        except ApiError as error:
            _log.debug("why %s is not well cannot be found out now: %s", text(part(obj, "metadata"), "name"), error)
            return None
        return await self._reading.cause(obj, work.spec.workload.manifests)

    async def _may_be_told(self, work: ManifestWork, obj: JSONObject) -> bool:
        """Whether the account on whose behalf a work is applied may look at pods, which the agent always may."""
        account = work.spec.executor.subject.service_account if work.spec.executor is not None else None
        namespace = text(part(obj, "metadata"), "namespace")
        return account is None or await self._executor.may(account, "list", ObjectRef(PODS, namespace, ""))


def _with_cause(observed: ObservedManifest, look: Look | None) -> ObservedManifest:
    live = observed.live
    if look is None or not look.cause or not isinstance(live, Present) or not look.is_about(live.object):
        return observed
    return replace(observed, cause=look.cause)


def _cause(look: Look | None) -> str:
    return look.cause if look is not None else ""
