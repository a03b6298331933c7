"""When the scheduling gates of pods fall, and what a gang lists.

A gang lists the live pods of its cliques. Its pods are let go once each of its groups lists as many pods as start
together, and from then on at once: all or nothing is the scheduler's business, which must know of all of them before it
sees the first. A pod is only let go when the gang that is stored lists it, because a scheduler that meets it earlier
takes it for a pod of no gang. A gang beyond the minimum also waits until the base gang has its nodes.
"""

from collections.abc import Iterator, Mapping

from echelon.api.base import JSONObject
from echelon.api.core import POD
from echelon.engine.conditions import find_condition
from echelon.engine.plan import Patch
from echelon.engine.pod_clique.pod_facts import PodFacts
from echelon.engine.pod_clique.shape import ExpectedGang
from echelon.engine.pod_clique.standing import CliqueStanding
from echelon.engine.pod_clique.view import GangView

INITIALIZED = "Initialized"


def listed_pods(gang: ExpectedGang, cliques: Mapping[str, CliqueStanding]) -> dict[str, tuple[str, ...]]:
    """Return the names of the pods that a gang should list, by clique."""
    return {each.name: cliques[each.name].tally.names for each in gang.cliques}


def released(
    gang: ExpectedGang, seen: GangView | None, base: GangView | None, cliques: Mapping[str, CliqueStanding]
) -> Iterator[PodFacts]:
    """Return the pods of a gang whose gate falls; `base` is the gang that has to be scheduled before it."""
    waiting = [each for each in gang.cliques if cliques[each.name].tally.waiting]
    if not waiting or seen is None or seen.terminating or not _is_complete(gang, seen, cliques):
        return
    if gang.base_gang and not _is_scheduled(base, cliques):
        return
    for each in waiting:
        listed = seen.listed.get(each.name, frozenset())
        yield from (pod for pod in cliques[each.name].tally.waiting if pod.name in listed)


def release(pod: PodFacts, namespace: str) -> Patch:
    """Return the write that takes the gate off a pod, and leaves those of others."""
    body: JSONObject = {"spec": {"schedulingGates": list(pod.foreign_gates) or None}}
    return Patch(POD, pod.name, body, namespace, pod.uid, pod.version)


def _is_complete(gang: ExpectedGang, seen: GangView, cliques: Mapping[str, CliqueStanding]) -> bool:
    """Whether a gang lists enough pods of each clique, or once did: a pod that comes later joins a gang that runs."""
    known = find_condition(seen.status.conditions, INITIALIZED)
    if known is not None and known.status == "True":
        return True
    return all(len(seen.listed.get(each.name, ())) >= cliques[each.name].need for each in gang.cliques)


def _is_scheduled(base: GangView | None, cliques: Mapping[str, CliqueStanding]) -> bool:
    """Whether every clique of a base gang has enough pods with a node."""
    if base is None or base.terminating:
        return False
    return all(name in cliques and cliques[name].scheduled for name in base.wanted)
