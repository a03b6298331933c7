"""Where those who evaluate templates' objects are plugged in: one evaluator a kind.

An evaluator watches objects of its kind in the cluster's namespace, repairs what they enforce, and reports: in the
status of the object, and by compliance events about its policy. It is made anew whenever there is something to do.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from echelon.agent.configuration_policy.controllers import configuration_policy_controllers
from echelon.agent.context import AgentContext, Family
from echelon.api.base import JSONObject
from echelon.api.configuration_policy import CONFIGURATION_POLICY
from echelon.api.kinds import Kind
from echelon.engine.configuration_policy.status import changed_something


@dataclass(frozen=True)
class Evaluator:
    """Evaluates the objects of one kind.

    `changed_something` tells from the status of an object whether its latest evaluation changed the cluster, so that
    only the next one is its verdict.
    """

    kind: Kind[Any]
    controllers: Callable[[AgentContext], Family]
    changed_something: Callable[[JSONObject], bool]


EVALUATORS: tuple[Evaluator, ...] = (
    Evaluator(CONFIGURATION_POLICY, configuration_policy_controllers, changed_something),
)
