"""The end of a policy: what it is entitled to prune goes first, and only then does the policy."""

from dataclasses import dataclass

from echelon.api.configuration_policy import ConfigurationPolicy
from echelon.engine.configuration_policy import pruning
from echelon.engine.configuration_policy.evaluate import delete, find_object
from echelon.engine.configuration_policy.pruning import Entry
from echelon.engine.configuration_policy.requests import Remember, RequestFailed, Steps, get
from echelon.engine.configuration_policy.results import Leaver

MOST_TOLD = 10  # objects that are in the way


@dataclass(frozen=True)
class Ending:
    """What is still in the way of a policy's end; nothing, if it may go."""

    left: tuple[str, ...] = ()


def end(policy: ConfigurationPolicy, manager: str) -> Steps[Ending]:
    """Prune what goes with a policy that is being deleted, and let it go when everything is gone."""
    left: list[str] = []
    if pruning.may_prune_at_end(policy):
        for entry in pruning.enforced_objects(policy):
            obstacle = yield from _prune(policy, entry, manager)
            if obstacle:
                left.append(obstacle)
    if not left:
        yield Remember(finalizer=False, ledger=pruning.memory_of(policy).ledger)
        return Ending()
    more = [f"and {len(left) - MOST_TOLD} more"] if len(left) > MOST_TOLD else []
    return Ending((*left[:MOST_TOLD], *more))


def _prune(policy: ConfigurationPolicy, entry: Entry, manager: str) -> Steps[str]:
    """Delete an object; return what is in the way of its end, if it is still there."""
    where = f" in namespace {entry.namespace}" if entry.namespace else ""
    try:
        kind, live = yield from find_object(entry, manager)
        if kind is None or live is None or not pruning.is_pruned(policy, entry, live, manager):
            return ""
        if not live["metadata"].get("deletionTimestamp"):
            refused = yield from delete(Leaver(entry, kind, live))
            if refused:
                return refused
            after = yield from get(kind, entry.namespace, entry.name, fresh=True)
            if after is None or after["metadata"].get("uid") != live["metadata"].get("uid"):
                return ""
    except RequestFailed as error:
        return f"{entry.kind} [{entry.name}]{where}: {error}"
    return f"{kind.plural} [{entry.name}]{where} waits for its finalizers"
