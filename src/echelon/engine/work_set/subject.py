"""A work set as the subject of a rollout: its works are what the clusters hold."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.engine.rollout.allocation import owners_of
from echelon.engine.rollout.control import ABORTED
from echelon.engine.rollout.references import PlacementReference
from echelon.engine.rollout.state import Rollout
from echelon.engine.rollout.stored_revision import StoredRevision, cause_of
from echelon.engine.rollout.subject import Subject, UnreadableHolding
from echelon.engine.work_set.content import TEMPLATE, Content, read_content
from echelon.engine.work_set.names import HASH_LABEL, SET_LABEL
from echelon.engine.work_set.view import WorkSetView, WorkView

NOUN = "work"


@dataclass(frozen=True)
class ChosenWorks:
    """The one work of each cluster that has any, and those beside it that are to be deleted."""

    by_cluster: Mapping[str, WorkView]
    duplicates: tuple[WorkView, ...]


def choose_works(view: WorkSetView) -> ChosenWorks:
    """Choose one work for each cluster: works may have been made twice, by another hub or under another name."""
    chosen = {cluster: found[0] for cluster, found in view.works.items()}
    several = {cluster: found for cluster, found in view.works.items() if len(found) > 1}
    if not several:
        return ChosenWorks(chosen, ())
    owners = owners_of(view.refs)
    duplicates: list[WorkView] = []
    for cluster, found in several.items():
        chosen[cluster], *others = sorted(found, key=lambda work: _preference(view, work, owners.get(work.cluster)))
        duplicates += [work for work in others if not work.terminating]
    return ChosenWorks(chosen, tuple(duplicates))


def _preference(view: WorkSetView, work: WorkView, owner: PlacementReference | None) -> tuple[bool, bool, bool, str]:
    """Return how much speaks against a work, the worst first."""
    of_another = owner is not None and work.placement != owner.name
    return work.terminating, of_another, work.name != view.work_set.metadata.name, work.name


def subject_of(view: WorkSetView, works: Mapping[str, WorkView]) -> Subject:
    """Return what is rolled out, in the terms of every rollout."""
    work_set, content, meta = view.work_set, view.content, view.work_set.metadata
    aborted = ABORTED in meta.annotations
    return Subject(
        kind=MANIFEST_WORK_REPLICA_SET,
        metadata=meta,
        noun=NOUN,
        revision=content.digest,
        content={TEMPLATE: content.template},
        cause=cause_of(meta.annotations),
        problem=content.problem,
        references=tuple(replace(ref, path=f"spec.placementRefs[{number}]") for number, ref in enumerate(view.refs)),
        holdings=works,
        unreadable={each.cluster: UnreadableHolding(each.since, each.message) for each in view.unread},
        conditions=work_set.status.conditions,
        reported=work_set.status.rollout,
        revisions=tuple(map(_hashed_anew, view.revisions)) if aborted else view.revisions,
        revision_labels={HASH_LABEL: content.digest, SET_LABEL: f"{meta.namespace}.{meta.name}"},
        history_limit=work_set.spec.revision_history_limit,
        outcomes=view.outcomes,
        stale=frozenset(work.cluster for work in works.values() if work.uid in view.stale)
        if view.stale
        else view.stale,
        unbound=view.unbound,
        leaving=view.leaving,
        spared=view.spared,
        max_removals=view.max_removals,
    )


def content_of(view: WorkSetView, rollout: Rollout) -> Content:
    """Return what works are to hold: the template, or that of the revision that an abort puts back."""
    if rollout.rollback_to is None:
        return view.content
    return read_content(_template(rollout.rollback_to))


def _hashed_anew(stored: StoredRevision) -> StoredRevision:
    """Return a revision with the hash that its content has now; what wrote its label may have known fewer fields."""
    content = read_content(_template(stored))
    return replace(stored, revision=content.digest) if content.digest else stored


def _template(stored: StoredRevision) -> dict[str, object] | None:
    return stored.content[TEMPLATE] if stored.content is not None else None
