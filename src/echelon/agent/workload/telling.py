"""Tells the hub of an object: one snapshot of it and of what is below it, read after it.

Nothing is written that says nothing new. That a snapshot was taken later is no news; that something is still under way
below the object is.
"""

import math
from dataclasses import dataclass, replace

import msgspec

from echelon.agent.context import AgentContext
from echelon.agent.newest_objects import NewestObjects
from echelon.agent.object_watches import ObjectRef
from echelon.agent.workload.children import CannotTell, Children, NotYet
from echelon.agent.workload.troubles import Troubles
from echelon.api.base import JSONObject
from echelon.api.karmada import ResourceIdentifier, Work, WorkStatus
from echelon.engine.align.interpreters import Interpreter
from echelon.engine.align.reflection import reflect
from echelon.engine.align.under_way import UnderWay
from echelon.engine.conditions import condition_stamp
from echelon.engine.workload.member_health import member_health
from echelon.engine.workload.pushing import Push, drift_of, is_of_binding
from echelon.engine.workload.work_report import PushOutcome, Seen, bounded, identify, is_news, report, with_cause


@dataclass(frozen=True)
class LiveObject:
    """Where the object of a work is, and what it is now; `template` is the hash of what the server made of the push's.

    Without an object there is none, or somebody else's.
    """

    ref: ObjectRef
    live: JSONObject | None
    template: str | None


@dataclass(frozen=True)
class Told:
    """After how many seconds to look again if nothing is heard until then, and how much work the look was, in seconds.

    That is an estimate by what was read: how far the cluster is away costs nobody anything.
    """

    again: float = math.inf
    cost: float = 0.0


class Telling:
    """Writes the status of works."""

    def __init__(self, context: AgentContext, works: NewestObjects[Work], children: Children) -> None:
        self._works = works
        self._children = children
        self._troubles = Troubles(context)
        self._watches = context.object_watches
        self._clock = context.clock
        self._ask_again = context.settings.status_sync_seconds
        self._said: dict[str, WorkStatus] = {}  # by work: what was last to be said, whether or not it was written

    def is_known(self, work: Work) -> bool:
        """Whether the status of a work is what was last said of it, and not what a former life says late."""
        said = self._said.get(work.metadata.name)
        return said is not None and not is_news(said, work.status)

    def forget(self, name: str) -> None:
        """Let go of what was said of a work."""
        self._said.pop(name, None)
        self._troubles.forget(name)

    async def tell(self, work: Work, push: Push, place: LiveObject | None, outcome: PushOutcome | None) -> Told:
        """Report on a work."""
        name, identifier = work.metadata.name, _identifier(push, place)
        if place is None:
            self._let_go(name)
            await self.report(work, identifier, outcome)
            return Told()
        live, heard, interpreter = place.live, self._watches.is_watched(place.ref), push.interpreter
        if live is None or not is_of_binding(live, push):
            self._let_go(name)
            await self.report(work, identifier, outcome)
            return Told(math.inf if heard else self._ask_again)
        under_way: UnderWay | None = None
        if interpreter is not None:
            heard = self._children.watch(name, live, interpreter) and heard
            try:
                under_way = await self._under_way(name, live, interpreter)
            except NotYet:
                await self.report(work, identifier, outcome, known=False)
                return Told(math.inf if heard else self._ask_again)
        drift = drift_of(push, live, place.template)
        cause, due = await self._troubles.cause(work, live, interpreter)
        status, more = bounded(with_cause(reflect(live, interpreter, under_way, drift=drift), cause))
        if outcome is not None and more:
            outcome = replace(outcome, message=outcome.message + more)
        await self.report(work, identifier, outcome, Seen(status, member_health(live, interpreter)))
        return Told(min(due, math.inf if heard else self._ask_again), self._children.cost(name))

    async def report(
        self,
        work: Work,
        identifier: ResourceIdentifier | None,
        outcome: PushOutcome | None,
        seen: Seen | None = None,
        *,
        known: bool = True,
    ) -> None:
        """Write the status of a work, if that is news. What is not `known` stays as it was said before."""
        stamp = condition_stamp(work.metadata.generation, self._clock.now())
        status = report(work, identifier, outcome, (seen or Seen()) if known else None, stamp)
        before = self._said.get(work.metadata.name)
        self._said[work.metadata.name] = status
        # A write whose answer was lost may have arrived: then the hub has what was said last, whatever a cache shows.
        if is_news(status, work.status) or (before is not None and is_news(status, before)):
            await self._works.patch(work, {"status": msgspec.to_builtins(status)}, "status")

    def _let_go(self, name: str) -> None:
        self._children.forget(name)
        self._troubles.forget(name)

    async def _under_way(self, name: str, live: JSONObject, interpreter: Interpreter) -> UnderWay | None:
        try:
            return await self._children.read(name, live, interpreter)
        except CannotTell:
            return None


def _identifier(push: Push, place: LiveObject | None) -> ResourceIdentifier:
    kind, namespace = (place.ref.kind, place.ref.namespace) if place is not None else (None, "")
    return identify(push.manifest, kind, namespace)
