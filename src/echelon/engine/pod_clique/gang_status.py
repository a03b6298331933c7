"""The status of a PodGang, as far as it is ours: whether all of its pods were made. The rest is the scheduler's."""

from collections.abc import Mapping

import msgspec

from echelon.api.podgangs import PodGangStatus
from echelon.engine.conditions import ConditionStamp, find_condition
from echelon.engine.pod_clique.clique_status import say
from echelon.engine.pod_clique.gates import INITIALIZED
from echelon.engine.pod_clique.shape import ExpectedGang
from echelon.engine.pod_clique.standing import CliqueStanding
from echelon.engine.pod_clique.view import GangView


def gang_status(gang: ExpectedGang, seen: GangView, cliques: Mapping[str, CliqueStanding], now: str) -> PodGangStatus:
    """Return the status of a gang. Once all of its pods were there it stays initialized."""
    before = seen.status
    known = find_condition(before.conditions, INITIALIZED)
    if known is not None and known.status == "True" and before.phase:
        return before
    stamp = ConditionStamp(seen.metadata.generation, now)
    complete = all(_is_complete(gang, each.name, cliques) for each in gang.cliques)
    if complete or (known is not None and known.status == "True"):
        word = stamp.condition(INITIALIZED, "True", "PodGangPodsCreated", "all pods of the gang were made")
    else:
        word = stamp.condition(INITIALIZED, "False", "PodGangPodsCreationPending", "not all pods of the gang are made")
    return msgspec.structs.replace(before, phase=before.phase or "Pending", conditions=say(before.conditions, word))


def _is_complete(gang: ExpectedGang, name: str, cliques: Mapping[str, CliqueStanding]) -> bool:
    clique = cliques[name]
    if clique.view is None or clique.tally.live < clique.replicas:
        return False
    return all(pod.gang == gang.name for pod in clique.view.pods if pod.live)
