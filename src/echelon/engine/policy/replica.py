"""A replica of a policy as it is on the hub: what it holds, and what its cluster has made of it.

A fleet has ten thousand of them, of which one changes at a time. So a replica is read once for each version of it, and
its content, which is what costs, once for each generation.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from echelon.api.base import JSONObject
from echelon.api.meta import ObjectMeta
from echelon.api.policy import PolicyStatus, TemplateDetails
from echelon.api.times import parse_time
from echelon.engine.policy.content import ACTION, CONTENT_FIELDS, body_of, digest_of
from echelon.engine.policy.later_reports import bad_since, verdict_of_reports
from echelon.engine.policy.names import (
    CLUSTER_NAME_LABEL,
    CLUSTER_NAMESPACE_LABEL,
    EVENTS_ANNOTATION,
    HELD_ANNOTATION,
    NOTES,
)
from echelon.engine.policy.raw_policy import RawPolicy
from echelon.engine.rollout.annotations import RETRIED_ANNOTATION, TURNED_ANNOTATION, WRITTEN_ANNOTATION
from echelon.engine.rollout.model import Phase
from echelon.engine.rollout.revision import revision_of

_VERDICTS = frozenset((Phase.SUCCEEDED.value, Phase.FAILED.value))
_MESSAGE = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """The replica of a policy for one cluster."""

    cluster: str
    name: str
    uid: str
    version: str
    generation: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    copied_annotations: Mapping[str, str]  # those that are no notes of ours
    spec: JSONObject
    other_fields: JSONObject  # what is in the spec besides the content
    surroundings: str  # the digest of all but content and notes; of the same for all replicas of a policy
    body: str  # the digest of its content, but for the action
    digest: str  # of all of it
    written: datetime | None
    retried: datetime | None
    turned: datetime | None  # when it turned bad after it had been good with this content
    terminating: datetime | None
    compliant: str
    stored: str  # the rollout status that it carries, whoever wrote that
    stored_at: datetime | None
    observed_generation: int
    reports: Mapping[str, str]  # the name of the latest report of each template
    message: str  # the latest report of the first template that is not well
    held: bool  # its agent takes it for one that waits for its turn
    # Somebody reports on it who overwrites what he does not know, and would do so again and again.
    is_of_another_agent: bool
    verdict: Phase  # what its agent says of the content that it has now; progressing while it says nothing of that
    failed_at: datetime | None  # when it turned bad, by its agent's clock and at the earliest, if that is its verdict

    @property
    def is_outdated(self) -> bool:
        """Whether its agent has yet to say something of it as it is now."""
        return not self.is_of_another_agent and self.observed_generation != self.generation


def read_replica(policy: RawPolicy, before: Replica | None = None) -> Replica:
    """Read a replica; `before` is what was read of it earlier."""
    meta, status = policy.metadata, policy.status
    known = before is not None and (before.uid, before.generation) == (meta.uid, meta.generation)
    body = before.body if before is not None and known else body_of(policy.spec)
    digest = before.digest if before is not None and known else digest_of(body, str(policy.spec.get(ACTION) or ""))
    same = before is not None and known and (before.labels, before.annotations) == (meta.labels, meta.annotations)
    copied = {key: each for key, each in meta.annotations.items() if key not in NOTES}
    others = other_fields(policy.spec)
    reports = {_name(each): each.history[0].event_name for each in status.details if each.history}
    of_another = is_reported_by_another(status)
    verdict, stored_at = (
        _verdict(policy, reports if of_another else None),
        parse_time(status.rollout_last_transition_time),
    )
    failed_at = bad_since(status.details) if of_another else stored_at
    return Replica(
        cluster=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        generation=meta.generation,
        labels=meta.labels,
        annotations=meta.annotations,
        copied_annotations=copied,
        spec=policy.spec,
        other_fields=others,
        surroundings=before.surroundings
        if before is not None and same
        else surroundings_of(_labels_in_common(meta), copied, others),
        body=body,
        digest=digest,
        written=parse_time(meta.annotations.get(WRITTEN_ANNOTATION)),
        retried=parse_time(meta.annotations.get(RETRIED_ANNOTATION)),
        turned=parse_time(meta.annotations.get(TURNED_ANNOTATION)),
        terminating=parse_time(meta.deletion_timestamp),
        compliant=status.compliant,
        stored=status.rollout_status,
        stored_at=stored_at,
        observed_generation=status.observed_generation,
        reports=reports,
        message=_message(status),
        held=meta.annotations.get(HELD_ANNOTATION) == "true",
        is_of_another_agent=of_another,
        verdict=verdict,
        failed_at=failed_at if verdict is Phase.FAILED else None,
    )


def is_reported_by_another(status: PolicyStatus) -> bool:
    """Whether an agent of others reports in a status: it says nothing of generations, and overwrites what it finds."""
    return not status.observed_generation and any(each.history for each in status.details)


def _verdict(policy: RawPolicy, reports: Mapping[str, str] | None) -> Phase:
    """Return the verdict of an agent, if it is about the present generation; or what is in the reports of others."""
    if reports is not None:
        noted = policy.metadata.annotations.get(EVENTS_ANNOTATION, "")
        return verdict_of_reports(policy.spec, reports, policy.status.compliant, noted)
    stored = policy.status.rollout_status
    is_present = policy.status.observed_generation == policy.metadata.generation
    return Phase(stored) if is_present and stored in _VERDICTS else Phase.PROGRESSING


def surroundings_of(labels: Mapping[str, str], annotations: Mapping[str, str], others: JSONObject) -> str:
    """Return the digest of what replicas have in common besides their content; labels but for those of the cluster."""
    return revision_of([labels, annotations, others])


def _labels_in_common(meta: ObjectMeta) -> dict[str, str]:
    """Return labels without those that name the cluster, if they name it."""
    own = {CLUSTER_NAME_LABEL, CLUSTER_NAMESPACE_LABEL}
    named = {key for key in own if meta.labels.get(key) == meta.namespace}
    missing = {key: "" for key in own if key not in meta.labels}  # as no replica should have them
    return {key: each for key, each in meta.labels.items() if key not in named} | missing


def other_fields(spec: JSONObject) -> JSONObject:
    """Return what is in a spec besides the content."""
    return {name: value for name, value in spec.items() if name not in CONTENT_FIELDS}


def _name(details: TemplateDetails) -> str:
    return str(details.template_meta.get("name", ""))


def _message(status: PolicyStatus) -> str:
    """Return what the first template says that is not well, in its own words."""
    for each in status.details:
        if each.compliant != "Compliant" and each.history:
            return f"{_name(each)}: {each.history[0].message}"[:_MESSAGE]
    return "" if status.compliant else "its agent has not reported on it yet"
