"""Looking at everything that a policy is about, without changing any of it.

Templates build on each other: the second one that is about an object sees it as the first one would leave it, so what
is found is what enforcing all of them would do. Where only the server knows what a write would lead to, it is asked.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from echelon.api.base import JSONObject
from echelon.engine.configuration_policy.comparison import compare
from echelon.engine.configuration_policy.effort import TooMuchEffort
from echelon.engine.configuration_policy.findings import Finding, Target, answered, inspect
from echelon.engine.configuration_policy.messages import ERROR, Observation, Situation
from echelon.engine.configuration_policy.pruning import Place
from echelon.engine.configuration_policy.requests import (
    Cause,
    Pause,
    Refusal,
    RequestFailed,
    Steps,
    attempt,
    get,
    list_objects,
)
from echelon.engine.configuration_policy.results import Result, TemplateResult, failure, place_of, result_of
from echelon.engine.configuration_policy.targets import Namespaces, Targets, find_targets
from echelon.engine.configuration_policy.templates import TEMPLATE_ERROR, Must, Template, TemplateProblem
from echelon.engine.plan import Create, Patch

ATTEMPTS = 4  # at an object that somebody else writes, too
MOST_FOUND = 100  # objects of a search that are listed, in one namespace
MOST_ANNOUNCED = 20  # changes that are shown, and therefore asked about
_AT_ONCE = 50  # objects that are compared before others have their turn


@dataclass
class Survey:
    """What is known of the cluster while a policy is evaluated; `enforcing`: all that is found is mended afterwards."""

    now: datetime
    enforcing: bool
    namespaces: Namespaces
    live: dict[Place, JSONObject | None] = field(default_factory=dict)
    planned: dict[Place, JSONObject | None] = field(default_factory=dict)  # as the templates so far would leave it

    def look(self, template: Template) -> Steps[TemplateResult | TemplateProblem]:
        """Look at the objects of a template."""
        targets = yield from find_targets(template, self.namespaces)
        if isinstance(targets, TemplateProblem):
            return targets
        results: list[Result] = []
        for namespace in targets.namespaces:
            if template.name:
                results.append((yield from self._look_at(Target(template, targets.kind, namespace, template.name))))
            else:
                results += yield from self._look_around(targets, namespace)
        return TemplateResult(template, targets.kind, tuple(results))

    def _look_around(self, targets: Targets, namespace: str) -> Steps[list[Result]]:
        """Look at the objects of a namespace that a template may be about."""
        template, kind = targets.template, targets.kind
        try:
            objects = sorted((yield from list_objects(kind, namespace)), key=lambda each: str(each["metadata"]["name"]))
            if template.selector is None:
                return (yield from _search(template, namespace, objects))
            results: list[Result] = []
            for each in objects:
                if _is_selected(template, each):
                    name = each["metadata"]["name"]
                    self.live.setdefault(place_of(kind, namespace, name), each)
                    results.append((yield from self._look_at(Target(template, kind, namespace, name))))
        except RequestFailed as error:
            return [failure(namespace, "", ERROR, str(error))]
        except TooMuchEffort as error:
            return [_incomparable(template, namespace, "", error)]
        if not results:
            situation = Situation.ABSENT if template.must is Must.NOT_HAVE else Situation.FOUND
            nobody = Observation(situation, namespace, "", note=f"{template.path}.objectSelector selects none")
            results.append(Result(nobody, nobody))
        return results

    def _look_at(self, target: Target) -> Steps[Result]:
        """Look at one object, and ask the server what mending it would do."""
        kind, namespace, name = target.kind, target.namespace, target.name
        where = place_of(kind, namespace, name)
        try:
            if where not in self.live:
                self.live[where] = yield from get(kind, namespace, name)
            for _ in range(ATTEMPTS):
                live = self.live[where]
                found = inspect(target, live, self.planned.get(where, live), self.now)
                asked = yield from ask(found, announced=self._is_announced(found))
                if not isinstance(asked, Refusal):
                    break
                self.live[where] = yield from get(kind, namespace, name, fresh=True)
        except RequestFailed as error:
            return failure(namespace, name, ERROR, str(error))
        except TooMuchEffort as error:
            return _incomparable(target.template, namespace, name, error)
        if isinstance(asked, Refusal):
            return failure(namespace, name, ERROR, asked.message)
        if asked.is_mendable:
            self.planned[where] = asked.after
        return result_of(asked)

    def _is_announced(self, found: Finding) -> bool:
        """Whether a change is one that is shown before it is made, so that it is worth a question."""
        return found.fix is not None and not self.enforcing and len(self.planned) < MOST_ANNOUNCED


def ask(found: Finding, *, announced: bool = False) -> Steps[Finding | Refusal]:
    """Complete a finding by the server's answer; a refusal means that the object is another one by now.

    Raises `RequestFailed`.
    """
    if not found.can_ask or not (found.must_ask or announced) or not isinstance(found.fix, Create | Patch):
        return found
    answer = yield from attempt(found.fix)
    if isinstance(answer, Refusal):
        if answer.cause is Cause.CONFLICT or (answer.cause is Cause.NOT_FOUND and isinstance(found.fix, Patch)):
            return answer
        if answer.cause is Cause.TROUBLE:
            raise RequestFailed(answer)
    return answered(found, answer)


def _search(template: Template, namespace: str, objects: Sequence[JSONObject]) -> Steps[list[Result]]:
    """Tell which objects fit a template that names none. Raises `TooMuchEffort`."""
    fitting: list[JSONObject] = []
    for number, each in enumerate(objects, start=1):
        if compare(template, each).matches:
            fitting.append(each)
        if number % _AT_ONCE == 0:
            yield Pause()
    unwanted = template.must is Must.NOT_HAVE
    if not fitting:
        none = Observation(Situation.ABSENT if unwanted else Situation.MISSING, namespace, "")
        return [Result(none, none)]
    situation = Situation.UNWANTED if unwanted else Situation.FOUND
    seen = [Observation(situation, namespace, each["metadata"]["name"]) for each in fitting[:MOST_FOUND]]
    return [Result(each, each) for each in seen]


def _is_selected(template: Template, obj: JSONObject) -> bool:
    """Whether a selector means an object. What is unwanted has to fit the definition, too: less goes rather than more.

    Raises `TooMuchEffort`.
    """
    if template.selector is None or not template.selector.matches(obj["metadata"].get("labels") or {}):
        return False
    return template.must is not Must.NOT_HAVE or compare(template, obj).matches


def _incomparable(template: Template, namespace: str, name: str, why: TooMuchEffort) -> Result:
    return failure(namespace, name, TEMPLATE_ERROR, f"{template.path}.objectDefinition cannot be compared: {why}")
