"""Moving a change through decision groups in waves: who may start now, who has to wait, and for what.

Two ways to use it, both without a clock, a server or a controller:

- `decide` is the walker alone. It takes a strategy, decision groups and what is known of each cluster, and says of
  every cluster whether it starts now, and what it waits for if not.
- `roll_out` is a whole rollout, for the author of a kind that is rolled out. It takes a `Subject` (the object, its
  placements, what each cluster holds) and knows of pauses, approvals, revisions, removals and failed writes, too. What
  to write besides the content comes from `before_content` and `after_content`, what to tell from `conditions_of`,
  `summary_of` and `announcements`.

>>> from datetime import UTC, datetime
>>> from echelon.engine import rollout
>>> now = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
>>> groups = rollout.DecisionGroups({
...     rollout.GroupKey(0, "canary"): frozenset({"c1"}),
...     rollout.GroupKey(1): frozenset({"c2", "c3"}),
... })
>>> strategy = rollout.Strategy(rollout.StrategyType.PER_GROUP)
>>> decision = rollout.decide(strategy, groups, [], now)
>>> [each.cluster for each in decision.to_start]
['c1']
>>> decision.explain("c3")
'waits for group canary (0): c1 starting'

The groups come from a placement's decisions (`read_placement`), or from those of several (`join_placements`). Who
consumes decisions without rolling anything out can walk the groups, and ask what is new since the last time:

>>> [(key.name or key.index, len(clusters)) for key, clusters in groups.groups.items()]
[('canary', 1), (1, 2)]
>>> later = rollout.DecisionGroups({rollout.GroupKey(0): frozenset({"c1", "c4"})})
>>> added, removed = rollout.changes(groups, later)
>>> sorted(added), sorted(removed)
(['c4'], ['c2', 'c3'])
>>> sorted(groups.besides([rollout.GroupKey(name="canary")])), groups.group_of("c2")
([GroupKey(placement='', index=1, name='')], GroupKey(placement='', index=1, name=''))

Names are loaded when they are first used, so that who needs a duration does not pay for the rest.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from echelon.engine.placement.decisions import DecisionGroups, GroupKey, changes
    from echelon.engine.rollout.bookkeeping import after_content, before_content, look_again_after, patch_of
    from echelon.engine.rollout.conditions import conditions_of, merge_conditions
    from echelon.engine.rollout.evaluate import roll_out
    from echelon.engine.rollout.events import announcements
    from echelon.engine.rollout.history import rollback_patch
    from echelon.engine.rollout.listing import summary_of
    from echelon.engine.rollout.model import ClusterStatus, Control, Decision, Phase, Wait
    from echelon.engine.rollout.references import PlacementReference, believable, join_placements, read_placement
    from echelon.engine.rollout.revision import revision_of
    from echelon.engine.rollout.state import ReferenceRollout, Rollout
    from echelon.engine.rollout.stored_revision import StoredRevision, read_revision
    from echelon.engine.rollout.strategy import BadStrategy, Strategy, StrategyType, read_strategy
    from echelon.engine.rollout.subject import Holding, Subject, UnreadableHolding, WriteOutcomes
    from echelon.engine.rollout.walk import decide

__all__ = [
    "BadStrategy",
    "ClusterStatus",
    "Control",
    "Decision",
    "DecisionGroups",
    "GroupKey",
    "Holding",
    "Phase",
    "PlacementReference",
    "ReferenceRollout",
    "Rollout",
    "StoredRevision",
    "Strategy",
    "StrategyType",
    "Subject",
    "UnreadableHolding",
    "Wait",
    "WriteOutcomes",
    "after_content",
    "announcements",
    "before_content",
    "believable",
    "changes",
    "conditions_of",
    "decide",
    "join_placements",
    "look_again_after",
    "merge_conditions",
    "patch_of",
    "read_placement",
    "read_revision",
    "read_strategy",
    "revision_of",
    "roll_out",
    "rollback_patch",
    "summary_of",
]

_MODULES = {
    "bookkeeping": ("after_content", "before_content", "look_again_after", "patch_of"),
    "conditions": ("conditions_of", "merge_conditions"),
    "evaluate": ("roll_out",),
    "events": ("announcements",),
    "history": ("rollback_patch",),
    "listing": ("summary_of",),
    "model": ("ClusterStatus", "Control", "Decision", "Phase", "Wait"),
    "references": ("PlacementReference", "believable", "join_placements", "read_placement"),
    "revision": ("revision_of",),
    "state": ("ReferenceRollout", "Rollout"),
    "stored_revision": ("StoredRevision", "read_revision"),
    "strategy": ("BadStrategy", "Strategy", "StrategyType", "read_strategy"),
    "subject": ("Holding", "Subject", "UnreadableHolding", "WriteOutcomes"),
    "walk": ("decide",),
}
_SOURCES = {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}
_SOURCES |= dict.fromkeys(("DecisionGroups", "GroupKey", "changes"), "echelon.engine.placement.decisions")


def __getattr__(name: str) -> Any:
    if name not in _SOURCES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_SOURCES[name]), name)
    return value
