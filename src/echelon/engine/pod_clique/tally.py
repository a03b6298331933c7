"""The pods of a clique, counted once whenever one of them changes.

A plan looks at a thousand cliques and must not walk over their pods, so everything that it asks of a clique at rest is
here: how many pods there are of which kind and of which template, which indices are taken, and the few pods with which
something is to be done.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from echelon.engine.pod_clique.pod_facts import PodFacts


class Tally(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Counts of a clique's pods. Only live ones count, but for `terminating` and `ended`."""

    live: int = 0
    ready: int = 0
    scheduled: int = 0
    gated: int = 0
    failing: int = 0
    unhealthy: int = 0
    terminating: int = 0
    hashes: Mapping[str, int] = {}  # live pods by template
    names: tuple[str, ...] = ()  # of live pods, sorted
    indices: frozenset[int] = frozenset()  # of live pods
    doubled: tuple[str, ...] = ()  # live pods that share an index with an older one, or have none
    waiting: tuple[PodFacts, ...] = ()  # live and gated, by name
    ended: tuple[PodFacts, ...] = ()  # ended and not being deleted, by name
    down: tuple[datetime, ...] = ()  # of live pods that are not ready: since when, the longest first


def tally_of(pods: Sequence[PodFacts]) -> Tally:
    """Count pods. In one pass, because this is done whenever one of them changes."""
    live: list[PodFacts] = []
    ended: list[PodFacts] = []
    waiting: list[PodFacts] = []
    down: list[datetime] = []
    hashes: dict[str, int] = {}
    ready = scheduled = failing = unhealthy = terminating = 0
    for pod in pods:
        if pod.terminating:
            terminating += 1
            continue
        if pod.ended:
            ended.append(pod)
            continue
        live.append(pod)
        hashes[pod.hash] = hashes.get(pod.hash, 0) + 1
        scheduled += pod.scheduled
        failing += pod.failing
        unhealthy += pod.unhealthy
        if pod.gated:
            waiting.append(pod)
        if pod.ready:
            ready += 1
        else:
            down.append(pod.since)
    indices, doubled = _indices(live)
    return Tally(
        live=len(live),
        ready=ready,
        scheduled=scheduled,
        gated=len(waiting),
        failing=failing,
        unhealthy=unhealthy,
        terminating=terminating,
        hashes=hashes,
        names=tuple(sorted([pod.name for pod in live])),
        indices=indices,
        doubled=doubled,
        waiting=tuple(sorted(waiting, key=_name)),
        ended=tuple(sorted(ended, key=_name)),
        down=tuple(sorted(down)),
    )


def _indices(live: Sequence[PodFacts]) -> tuple[frozenset[int], tuple[str, ...]]:
    """Return the indices of live pods, and which of these share one with an older pod, or have none."""
    found = {pod.index for pod in live if pod.index is not None}
    if len(found) == len(live):
        return frozenset(found), ()
    seen: set[int] = set()
    doubled = []
    for pod in sorted(live, key=_by_age):
        if pod.index is None or pod.index in seen:
            doubled.append(pod.name)
        else:
            seen.add(pod.index)
    return frozenset(seen), tuple(sorted(doubled))


def _by_age(pod: PodFacts) -> tuple[datetime, str]:
    return pod.created, pod.name


def _name(pod: PodFacts) -> str:
    return pod.name


NO_PODS = Tally()
