"""Why federated workloads are not well: what their pods say, as for the objects of other works."""

import asyncio
import math
from functools import partial

from echelon.agent.context import AgentContext
from echelon.agent.looking import FIRST_LOOK_SECONDS, Look
from echelon.agent.pods_reading import PodsReading
from echelon.api.base import JSONObject
from echelon.api.karmada import Work
from echelon.engine.align.interpreters import Interpreter
from echelon.engine.workload.member_health import is_unwell
from echelon.engine.workload.work_report import told_cause


class Troubles:
    """Finds out why the workloads of one agent are not well."""

    def __init__(self, context: AgentContext) -> None:
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
        find = partial(self._reading.cause, live, work.spec.workload.manifests)
        looked = self._looks[name] = await known.again(live, now, find)
        return looked.cause, max(0.0, looked.due - now)

    def forget(self, name: str) -> None:
        """Let go of what is known for a work."""
        self._looks.pop(name, None)
