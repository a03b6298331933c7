"""Mending what was found: each object on its own, so that what a server refuses of one keeps no other waiting.

Every write names the very state that it is meant for. If that is no longer the state, the object is looked at again.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime

from echelon.api.base import JSONObject
from echelon.api.configuration_policy import ConfigurationPolicy
from echelon.engine.configuration_policy import pruning
from echelon.engine.configuration_policy.comparison import compare
from echelon.engine.configuration_policy.effort import TooMuchEffort
from echelon.engine.configuration_policy.findings import Finding, inspect, told
from echelon.engine.configuration_policy.looking import ATTEMPTS, ask
from echelon.engine.configuration_policy.messages import Observation, Situation
from echelon.engine.configuration_policy.pruning import Ledger, Place
from echelon.engine.configuration_policy.requests import Cause, Refusal, Remember, RequestFailed, Steps, do, get
from echelon.engine.configuration_policy.results import Result, TemplateResult, observe, place_of, refused
from echelon.engine.plan import Create, Delete


@dataclass
class Mending:
    """What has been mended so far."""

    now: datetime
    policy: ConfigurationPolicy
    ledger: Ledger  # what was remembered before
    intended: set[Place]  # where something is to be created, and the ledger says so
    touched: dict[Place, JSONObject | None] = field(default_factory=dict)  # what is there after our own writes

    def mend_all(self, each: TemplateResult) -> Steps[TemplateResult]:
        """Mend the objects of a template."""
        results: list[Result] = []
        for result in each.results:
            finding = result.finding
            if finding is not None and finding.refusal:
                results.append(replace(result, told=refused(finding, finding.refusal)))
            elif finding is None or not finding.is_mendable:
                results.append(result)
            else:
                results.append((yield from self._mend(result, finding)))
        return replace(each, results=tuple(results))

    def _mend(self, result: Result, finding: Finding) -> Steps[Result]:
        target = finding.target
        where = place_of(target.kind, target.namespace, target.name)
        message = ""
        try:
            for _ in range(ATTEMPTS):
                if where in self.touched:
                    live = self.touched[where]
                    asked = yield from ask(inspect(target, live, live, self.now))
                    if isinstance(asked, Refusal):
                        self.touched[where] = yield from get(target.kind, target.namespace, target.name, fresh=True)
                        continue
                    finding = asked
                if finding.refusal:
                    return replace(result, told=refused(finding, finding.refusal), finding=finding)
                if finding.fix is None:
                    return replace(result, told=observe(finding), finding=finding, live=finding.live)
                if isinstance(finding.fix, Create):
                    yield from self._intend(finding)
                answer = yield from do(finding.fix)
                if not isinstance(answer, Refusal):
                    return (yield from self._mended(result, finding, answer))
                message = told(finding, answer.message)
                gone = answer.cause is Cause.NOT_FOUND and not isinstance(finding.fix, Create)
                if answer.cause is not Cause.CONFLICT and not gone:
                    break
                self.touched[where] = yield from get(target.kind, target.namespace, target.name, fresh=True)
        except RequestFailed as error:
            message = told(finding, str(error))
        except TooMuchEffort as error:
            message = str(error)
        return replace(result, told=refused(finding, message), finding=finding)

    def _intend(self, finding: Finding) -> Steps[None]:
        """Remember that an object is about to be created which was there when everything else was remembered."""
        target = finding.target
        intent = pruning.intent_of(self.policy, target.kind, target.namespace, target.name)
        if intent.place in self.intended or not pruning.prunes(self.policy):
            return
        self.intended.add(intent.place)
        memory = pruning.memory_while_enforcing(self.policy, [*self.ledger.objects, intent])
        yield Remember(memory.finalizer, memory.ledger)
        self.ledger = pruning.parse_ledger(memory.ledger) or pruning.EMPTY

    def _is_settled(self, finding: Finding, after: JSONObject | None) -> bool:
        """Whether a write was all that was missing. A status comes later, from whoever reports it."""
        template = finding.target.template
        if after is None or "status" not in template.definition:
            return True
        return not isinstance(finding.fix, Create) and not compare(template, after).status_differs

    def _mended(self, result: Result, finding: Finding, answer: JSONObject | None) -> Steps[Result]:
        target = finding.target
        place = target.namespace, target.name
        if isinstance(finding.fix, Delete):
            answer = yield from get(target.kind, *place, fresh=True)
            if answer is not None and answer["metadata"].get("uid") != (finding.live or answer)["metadata"].get("uid"):
                answer = None  # somebody made another one; the next evaluation sees to it
            waits = "" if answer is None else "waits for its finalizers or its grace period"
            seen = Observation(Situation.DELETED, *place, settled=answer is None, note=waits)
        else:
            situation = Situation.CREATED if isinstance(finding.fix, Create) else Situation.UPDATED
            settled = self._is_settled(finding, answer)
            waits = "" if settled else "its status is not as specified yet"
            seen = Observation(situation, *place, settled=settled, note=waits)
        self.touched[place_of(target.kind, *place)] = answer
        return replace(result, told=seen, finding=finding, live=answer, created=isinstance(finding.fix, Create))
