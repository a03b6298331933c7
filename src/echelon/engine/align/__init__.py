"""Federated budgets: `maxUnavailable`, `maxSurge` and `partition` that hold over all clusters together.

`align` decides what each cluster is sent. It takes a `Workload` (its budgets, and what each cluster should come to),
the `Ledger` of everything that some cluster might still act on, and the last snapshot of each cluster. It returns a
`Round`: the new ledger, which is to be stored before anything is sent, the grants to send, and for every cluster that
waits, why.

>>> from echelon.engine import align
>>> strategy = align.RollingStrategy(max_unavailable=2, max_surge=1)
>>> budgets = align.resolve_budgets(strategy, align.DEPLOYMENT, total=10)
>>> def workload(template):
...     targets = {"c1": align.Target(4, template), "c2": align.Target(6, template)}
...     return align.Workload(template, align.DEPLOYMENT, budgets, targets)
>>> born = align.align(workload("v1"), align.Ledger(), {}, now=0.0)
>>> {name: grant.replicas for name, grant in born.pushes.items()}
{'c1': 4, 'c2': 6}

Members report what they made of it. Then a new template is rolled out, within two pods that may be missing and one that
may be too many, in both clusters together:

>>> def report(grant):
...     pods = grant.replicas
...     return align.MemberView("uid", 1, grant.id, 1, 1, pods, pods, pods, pods, settled=True)
>>> views = {name: report(grant) for name, grant in born.pushes.items()}
>>> step = align.align(workload("v2"), born.ledger, views, now=10.0)
>>> {name: (grant.unavailable, grant.surge) for name, grant in step.pushes.items()}
{'c1': (1, 0), 'c2': (1, 1)}
>>> step.slack
Slack(available=0, pods=0, updated=None)
>>> align.align(workload("v2"), step.ledger, views, now=11.0).pushes
{}

The ledger is JSON outside:

>>> align.Ledger.read(step.ledger.json) == step.ledger
True

How a kind says what it does is known to its interpreter; `register` adds one, and four functions make it:

>>> deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 4, "template": {}}}
>>> interpreter = align.interpreter_of(deployment)
>>> revised = interpreter.revise_rolling_strategy(deployment, align.strategy_of(step.pushes["c2"]))
>>> revised["spec"]["strategy"]["rollingUpdate"], revised["spec"]["paused"]
({'maxUnavailable': 1, 'maxSurge': 1}, False)

Names are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from echelon.engine.align.bounds import Bounds, bounds_of
    from echelon.engine.align.budgets import BadStrategy, Budgets, RollingStrategy, resolve_budgets, strategy_of
    from echelon.engine.align.contract import (
        CLONE_SET,
        CLONE_SET_V1BETA1,
        DEPLOYMENT,
        STATEFUL_SET,
        Contract,
        Family,
    )
    from echelon.engine.align.decisions import BudgetDecision, BudgetWait, Round
    from echelon.engine.align.grant import Grant, Outstanding
    from echelon.engine.align.interpreters import (
        AlreadyInterpreted,
        Interpreter,
        interpreter_of,
        register,
        unregister,
    )
    from echelon.engine.align.ledger import BadLedger, ClusterLedger, Ledger
    from echelon.engine.align.retire import Patience
    from echelon.engine.align.rolling_status import PUSH_ID, NoPushId, RollingStatus, view_of
    from echelon.engine.align.round import align
    from echelon.engine.align.sums import Slack
    from echelon.engine.align.template import template_hash
    from echelon.engine.align.view import MemberView
    from echelon.engine.align.workload import OnDeficit, Target, Workload

__all__ = [
    "CLONE_SET",
    "CLONE_SET_V1BETA1",
    "DEPLOYMENT",
    "PUSH_ID",
    "STATEFUL_SET",
    "AlreadyInterpreted",
    "BadLedger",
    "BadStrategy",
    "Bounds",
    "BudgetDecision",
    "BudgetWait",
    "Budgets",
    "ClusterLedger",
    "Contract",
    "Family",
    "Grant",
    "Interpreter",
    "Ledger",
    "MemberView",
    "NoPushId",
    "OnDeficit",
    "Outstanding",
    "Patience",
    "RollingStatus",
    "RollingStrategy",
    "Round",
    "Slack",
    "Target",
    "Workload",
    "align",
    "bounds_of",
    "interpreter_of",
    "register",
    "resolve_budgets",
    "strategy_of",
    "template_hash",
    "unregister",
    "view_of",
]

_MODULES = {
    "bounds": ("Bounds", "bounds_of"),
    "budgets": ("BadStrategy", "Budgets", "RollingStrategy", "resolve_budgets", "strategy_of"),
    "contract": ("CLONE_SET", "CLONE_SET_V1BETA1", "DEPLOYMENT", "STATEFUL_SET", "Contract", "Family"),
    "decisions": ("BudgetDecision", "BudgetWait", "Round"),
    "grant": ("Grant", "Outstanding"),
    "interpreters": ("AlreadyInterpreted", "Interpreter", "interpreter_of", "register", "unregister"),
    "ledger": ("BadLedger", "ClusterLedger", "Ledger"),
    "retire": ("Patience",),
    "rolling_status": ("PUSH_ID", "NoPushId", "RollingStatus", "view_of"),
    "round": ("align",),
    "sums": ("Slack",),
    "template": ("template_hash",),
    "view": ("MemberView",),
    "workload": ("OnDeficit", "Target", "Workload"),
}
_SOURCES = {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _SOURCES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_SOURCES[name]), name)
    return value
