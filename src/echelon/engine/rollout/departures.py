"""Clusters that nobody selects any more: which of them lose what they hold now, why others keep it, and who is told.

A cluster loses its content only when decisions that agree with their placement's status, and are of the same time, do
not have the cluster. A placement that suddenly selects nobody is more often a mistake than a wish: then nothing goes
without an approval. Nor does it where the cluster is in no cluster set that is bound to the namespace, because whoever
decides in this namespace has no say about it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from echelon.engine.rollout.model import ClusterStatus, Phase
from echelon.engine.rollout.references import PlacementReference
from echelon.engine.rollout.removal import APPROVED_REMOVAL, NO_REMOVAL, Departed, Removal, RemovalControl, Stay, remove
from echelon.engine.rollout.subject import Holding, Subject

_FAILED = frozenset((Phase.FAILED, Phase.TIMED_OUT))
_DONE = frozenset((Phase.SUCCEEDED, Phase.SKIPPED))
_NAMED = 10  # so many clusters are named before the rest is counted


@dataclass(frozen=True)
class Departures:
    """What becomes of clusters that nobody selects."""

    removal: Removal = NO_REMOVAL
    holdings: Mapping[str, tuple[Holding, ...]] = field(default_factory=dict)  # of all of them, by reference
    uncertain: bool = False  # there may be more to delete, and what is known is not new enough to tell


def departures(
    subject: Subject, owners: Mapping[str, PlacementReference], control: RemovalControl, now: datetime
) -> Departures:
    """Decide about the clusters that hold something and that nobody selects."""
    departed = [holding for cluster, holding in subject.holdings.items() if cluster not in owners]
    if not departed:
        return Departures()
    by_reference: dict[str, list[Holding]] = {}
    for holding in departed:
        by_reference.setdefault(_source(subject, holding), []).append(holding)
    holds = {name: _hold(subject, name, each) for name, each in by_reference.items()}
    unsettled = any(ref.placement is not None and not ref.placement.settled for ref in subject.references)
    uncertain = any(ref.uncertain for ref in subject.references)
    # Who wrote a holding knew why. Decisions that are older than that say nothing against it.
    stale = {each.cluster for each in departed if not each.terminating and each.cluster in subject.stale}
    certain = [
        Departed(
            holding.cluster,
            holding.terminating,
            holds[name] or _unbound(subject, name, holding.cluster),
            subject.spared.get(holding.cluster),
        )
        for name, each in by_reference.items()
        for holding in each
        if holding.terminating or not (unsettled or uncertain or holding.cluster in stale)
    ]
    found = remove(certain, len(subject.holdings), control, now)
    known = {one.cluster for one in certain}
    stays = {each.cluster: Stay.UNSURE for each in departed if each.cluster not in known}
    removal = Removal(found.going, {**found.stays, **stays}, found.held, found.recheck_after)
    in_doubt = bool(stale) or (uncertain and bool(stays))
    return Departures(removal, {name: tuple(each) for name, each in by_reference.items()}, in_doubt and not unsettled)


def _source(subject: Subject, holding: Holding) -> str:
    """Return the reference through which a cluster has its content; the first one where that is not known."""
    return holding.placement or (subject.references[0].name if subject.references else "")


def _hold(subject: Subject, name: str, holdings: Iterable[Holding]) -> str:
    """Return why no cluster of a reference may lose its content without an approval, if that is so."""
    ref = next((ref for ref in subject.references if ref.name == name), None)
    namespace = subject.namespace
    if ref is None:  # it was taken out of the spec, and takes its clusters along, if it is known who else selects them
        missing = next((each.name for each in subject.references if each.placement is None), "")
        return f"there is no placement {missing} in namespace {namespace} that could select them" if missing else ""
    if ref.placement is None:
        return f"there is no placement {name} in namespace {namespace}"
    alone = sum(not holding.terminating for holding in holdings) <= 1
    if ref.placement.groups.clusters or ref.placement.selects_none or alone:
        return ""
    why = ref.placement.unsatisfied
    return f"placement {name} selects no cluster{f': {why}' if why else ''}"


def _unbound(subject: Subject, name: str, cluster: str) -> str:
    """Return why a cluster may not lose anything by what was decided in this namespace, if that is so."""
    if cluster not in subject.unbound or all(ref.name != name for ref in subject.references):
        return ""
    return f"it is in no cluster set that is bound to namespace {subject.namespace}"


def failure_of(holding: Holding, deadline: timedelta | None, now: datetime) -> ClusterStatus | None:
    """Return the failure that a cluster whose content is taken away was when that began, if it was one.

    It stays one for as long as it has the content: what stopped a rollout is not mended by no longer looking at it.
    Nobody waits for its recovery, so it takes no place.
    """
    status, end = holding.status, now
    if holding.before_removal is not None:
        status, end = holding.before_removal, holding.status.since or now
    begun = status.deadline_from or status.since
    late = deadline is not None and begun is not None and end - begun >= deadline
    if status.phase in _FAILED or (late and status.phase not in _DONE):
        return ClusterStatus(holding.cluster, Phase.TIMED_OUT, status.since)
    return None


def held(removal: Removal) -> str:
    """Say what is not removed without an approval, and why."""
    causes: dict[str, list[str]] = {}
    for cluster, why in removal.held.items():
        causes.setdefault(why, []).append(cluster)
    texts = [f"{why} ({listed(clusters)})" for why, clusters in causes.items()]
    count = len(removal.held)
    return (
        f"nothing is removed from {count} cluster{'s' if count > 1 else ''} that nobody selects any more: "
        f"{'; '.join(texts)}. Select clusters again, or approve it with echelon rollout approve --removal "
        f"({APPROVED_REMOVAL}={removal.fingerprint})"
    )


_STAYING = {
    Stay.UNSURE: "no decision has it at the moment, and it is not certain that none should",
    Stay.PAUSED: "nobody selects it any more, and nothing is removed while the rollout is paused",
    Stay.GRACE: "nobody selects it any more, and it may come back: it keeps its {noun} for a while",
    Stay.LIMIT: "nobody selects it any more, and others have to lose their {noun}s first",
}


def staying(removal: Removal, cluster: str, noun: str) -> tuple[str, str]:
    """Say why a cluster that nobody selects holds something."""
    stay = removal.stays.get(cluster)
    if stay is None:
        return "", f"nobody selects it any more, and its {noun} is being deleted"
    return stay.value, _STAYING[stay].format(noun=noun) if stay in _STAYING else removal.held[cluster]


def removed(subject: Subject, clusters: Iterable[str]) -> list[str]:
    """Say who loses what it holds because nobody selects it, and why."""
    known = {ref.name for ref in subject.references}
    causes: dict[str, list[str]] = {}
    for cluster in clusters:
        name = _source(subject, subject.holdings[cluster])
        why = f"placement {name} does not select it" if name in known else f"the spec does not refer to {name} any more"
        causes.setdefault(why, []).append(cluster)
    return [f"the {subject.noun} of {listed(each)} is deleted: {why}" for why, each in causes.items()]


def listed(clusters: Iterable[str]) -> str:
    """Name clusters, as many as an event can hold."""
    names = sorted(clusters)
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
