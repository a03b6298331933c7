"""The works that nobody selects any more: which of them go now, why the others stay, and what people are told of it.

A work goes only when decisions that agree with their placement's status, and are of the same time, do not have its
cluster. A placement that suddenly selects nobody is more often a mistake than a wish: then nothing goes without an
approval. Nor does it where the cluster is in no cluster set that is bound to the namespace, because whoever decides in
this namespace has no say about it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from echelon.engine.rollout.model import ClusterStatus, Phase
from echelon.engine.rollout.removal import APPROVED_REMOVAL, NO_REMOVAL, Departed, Removal, RemovalControl, Stay, remove
from echelon.engine.work_set.view import RefView, WorkSetView, WorkView

_FAILED = frozenset((Phase.FAILED, Phase.TIMED_OUT))
_DONE = frozenset((Phase.SUCCEEDED, Phase.SKIPPED))
_NAMED = 10  # so many clusters are named before the rest is counted


@dataclass(frozen=True)
class Leaving:
    """What becomes of works whose clusters nobody selects."""

    works: tuple[WorkView, ...] = ()  # to be deleted now
    removal: Removal = NO_REMOVAL
    of: Mapping[str, tuple[WorkView, ...]] = field(default_factory=dict)  # all of them, by reference
    doubtful: bool = False  # there may be more to delete, and what is known is not new enough to tell


def leave(
    view: WorkSetView,
    works: Mapping[str, WorkView],
    owners: Mapping[str, RefView],
    control: RemovalControl,
    now: datetime,
) -> Leaving:
    """Decide about the works of clusters that nobody selects."""
    departed = [work for cluster, work in works.items() if cluster not in owners]
    if not departed:
        return Leaving()
    of: dict[str, list[WorkView]] = {}
    for work in departed:
        of.setdefault(_source(view, work), []).append(work)
    holds = {name: _hold(view, name, each) for name, each in of.items()}
    unsettled = any(ref.placement is not None and not ref.placement.settled for ref in view.refs)
    unsure = any(ref.doubtful for ref in view.refs)
    # Who wrote a work knew why. Decisions that are older than that say nothing against it.
    behind = {work.cluster for work in departed if not work.terminating and work.uid in view.stale}
    certain = [
        Departed(
            work.cluster,
            work.terminating,
            holds[name] or _stranger(view, name, work.cluster),
            view.spared.get(work.cluster),
        )
        for name, each in of.items()
        for work in each
        if work.terminating or not (unsettled or unsure or work.cluster in behind)
    ]
    found = remove(certain, len(works), control, now)
    known = {one.cluster for one in certain}
    stays = {work.cluster: Stay.UNSURE for work in departed if work.cluster not in known}
    removal = Removal(found.going, {**found.stays, **stays}, found.held, found.recheck_after)
    going = tuple(works[cluster] for cluster in removal.going)
    doubtful = bool(behind) or (unsure and bool(stays))
    return Leaving(going, removal, {name: tuple(each) for name, each in of.items()}, doubtful and not unsettled)


def _source(view: WorkSetView, work: WorkView) -> str:
    """Return the reference through which a cluster has its work; the first one where the work does not tell."""
    return work.placement or (view.refs[0].name if view.refs else "")


def _hold(view: WorkSetView, name: str, works: Iterable[WorkView]) -> str:
    """Return why no work of a reference may go without an approval, if that is so."""
    ref = next((ref for ref in view.refs if ref.name == name), None)
    namespace = view.work_set.metadata.namespace
    if ref is None:  # it was taken out of the spec, and takes its clusters along, if it is known who else selects them
        missing = next((each.name for each in view.refs if each.placement is None), "")
        return f"there is no placement {missing} in namespace {namespace} that could select them" if missing else ""
    if ref.placement is None:
        return f"there is no placement {name} in namespace {namespace}"
    if ref.placement.groups.clusters or ref.placement.nobody or sum(not work.terminating for work in works) <= 1:
        return ""
    why = ref.placement.unsatisfied
    return f"placement {name} selects no cluster{f': {why}' if why else ''}"


def _stranger(view: WorkSetView, name: str, cluster: str) -> str:
    """Return why the work of a cluster may not go because of what was decided in this namespace, if that is so."""
    if cluster not in view.unbound or all(ref.name != name for ref in view.refs):
        return ""
    return f"it is in no cluster set that is bound to namespace {view.work_set.metadata.namespace}"


def failure_of(work: WorkView, deadline: timedelta | None, now: datetime) -> ClusterStatus | None:
    """Return the failure that a cluster whose work is taken away was when that began, if it was one.

    It stays one for as long as the work exists: what stopped a rollout is not mended by no longer looking at it. Nobody
    waits for its recovery, so it takes no place.
    """
    status, end = (work.left, work.status.since) if work.left is not None else (work.status, now)
    begun = status.deadline_from or status.since
    late = deadline is not None and begun is not None and (end or now) - begun >= deadline
    if status.phase in _FAILED or (late and status.phase not in _DONE):
        return ClusterStatus(work.cluster, Phase.TIMED_OUT, status.since)
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
    Stay.GRACE: "nobody selects it any more, and it may come back: it keeps its work for a while",
    Stay.LIMIT: "nobody selects it any more, and others have to lose their works first",
}


def staying(removal: Removal, cluster: str) -> tuple[str, str]:
    """Say why a cluster that nobody selects has a work."""
    stay = removal.stays.get(cluster)
    if stay is None:
        return "", "nobody selects it any more, and its work is being deleted"
    return stay.value, _STAYING.get(stay) or removal.held[cluster]


def removed(view: WorkSetView, leaving: Iterable[WorkView]) -> list[str]:
    """Say whose works are deleted because nobody selects their clusters, and why."""
    known = {ref.name for ref in view.refs}
    causes: dict[str, list[str]] = {}
    for work in leaving:
        name = _source(view, work)
        why = f"placement {name} does not select it" if name in known else f"the set does not refer to {name} any more"
        causes.setdefault(why, []).append(work.cluster)
    return [f"the work of {listed(clusters)} is deleted: {why}" for why, clusters in causes.items()]


def listed(clusters: Iterable[str]) -> str:
    """Name clusters, as many as an event can hold."""
    names = sorted(clusters)
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
