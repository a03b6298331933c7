"""Why federated workloads are not well: what their pods say, as for the objects of other works."""

import asyncio
import logging
import math

from echelon.agent.context import AgentContext
from echelon.agent.looking import FIRST_LOOK_SECONDS, Look
from echelon.agent.pods_reading import PodsReading
from echelon.api.base import JSONObject
from echelon.api.karmada import Work
from echelon.engine.align.interpreters import Interpreter
from echelon.engine.work.cause import cause_of
from echelon.engine.work.health_state import part, text
from echelon.engine.workload.member_health import is_unwell
from echelon.engine.workload.work_report import told_cause
from echelon.kube.errors import ApiError

_log = logging.getLogger(__name__)


class Troubles:
    """Finds out why the workloads of one agent are not well."""

    def __init__(self, context: AgentContext) -> None:
        self._clock = context.clock
        self._reading = PodsReading(context)
        self._looks: dict[str, Look] = {}  # by work

    async def cause(self, work: Work, live: JSONObject, interpreter: Interpreter | None) -> tuple[str, float]:
        """Say why an object is not well, if it is not and that is known; and after how many seconds to ask again."""
        name, now = work.metadata.name, asyncio.get_running_loop().time()
        if not is_unwell(live, interpreter):
            self.forget(name)
            return "", math.inf
        known = self._looks.get(name)
        if known is None or not known.is_about(live):
            # What a former life told of needs no time to get well by itself.
            told_before = known is None and bool(told_cause(work))
            known = Look.first(live, now if told_before else now + FIRST_LOOK_SECONDS)
        looked = self._looks[name] = await known.again(live, now, lambda: self._find(live))
        return looked.cause, max(0.0, looked.due - now)

    def forget(self, name: str) -> None:
        """Let go of what is known for a work."""
        self._looks.pop(name, None)

    async def _find(self, live: JSONObject) -> str | None:
        try:
            pods, events = await self._reading.read(live)
        except ApiError as error:
            _log.debug("why %s is not well cannot be found out now: %s", text(part(live, "metadata"), "name"), error)
            return None
        return cause_of(pods, events, self._clock.now())
