"""A replica of a policy as it is on the hub: what it holds, and what its cluster has made of it.

A fleet has ten thousand of them, of which one changes at a time. So a replica is read once for each version of it, and
its content, which is what costs, once for each generation.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from echelon.api.base import JSONObject
from echelon.api.policy import PolicyStatus, TemplateDetails
from echelon.api.times import parse_time
from echelon.engine.policy.content import ACTION, CONTENT_FIELDS, body_of, digest_of
from echelon.engine.policy.later_reports import verdict_of_reports
from echelon.engine.policy.names import EVENTS_ANNOTATION, GOOD_ANNOTATION, HELD_ANNOTATION
from echelon.engine.policy.raw_policy import RawPolicy
from echelon.engine.rollout.annotations import RETRIED_ANNOTATION, TURNED_ANNOTATION, WRITTEN_ANNOTATION
from echelon.engine.rollout.model import Phase

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
    spec: JSONObject
    body: str  # the digest of its content, but for the action
    digest: str  # of all of it
    written: datetime | None
    retried: datetime | None
    turned: datetime | None  # when it turned bad after it had been good with this content
    good: datetime | None  # since when it is good, where that is noted here
    terminating: datetime | None
    compliant: str
    stored: str  # the rollout status that it carries, whoever wrote that
    stored_at: datetime | None
    observed_generation: int
    reports: Mapping[str, str]  # the name of the latest report of each template
    message: str  # the latest report of the first template that is not well

    @property
    def held(self) -> bool:
        """Whether its agent takes it for one that waits for its turn."""
        return self.annotations.get(HELD_ANNOTATION) == "true"

    @property
    def is_of_another_agent(self) -> bool:
        """Whether somebody reports on it who overwrites what he does not know, and would do so again and again."""
        return bool(self.reports) and not self.observed_generation

    @property
    def is_outdated(self) -> bool:
        """Whether its agent has yet to say something of it as it is now."""
        return not self.is_of_another_agent and self.observed_generation != self.generation

    @property
    def verdict(self) -> Phase:
        """What its agent says of the content that it has now; progressing for as long as it says nothing of that."""
        if self.is_of_another_agent:
            noted = self.annotations.get(EVENTS_ANNOTATION, "")
            return verdict_of_reports(self.spec, self.reports, self.compliant, noted)
        if self.stored in _VERDICTS and not self.is_outdated:
            return Phase(self.stored)
        return Phase.PROGRESSING


def read_replica(policy: RawPolicy, before: Replica | None = None) -> Replica:
    """Read a replica; `before` is what was read of it earlier."""
    meta, status = policy.metadata, policy.status
    known = before is not None and (before.uid, before.generation) == (meta.uid, meta.generation)
    body = before.body if before is not None and known else body_of(policy.spec)
    digest = before.digest if before is not None and known else digest_of(body, str(policy.spec.get(ACTION) or ""))
    return Replica(
        cluster=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        generation=meta.generation,
        labels=meta.labels,
        annotations=meta.annotations,
        spec=policy.spec,
        body=body,
        digest=digest,
        written=parse_time(meta.annotations.get(WRITTEN_ANNOTATION)),
        retried=parse_time(meta.annotations.get(RETRIED_ANNOTATION)),
        turned=parse_time(meta.annotations.get(TURNED_ANNOTATION)),
        good=parse_time(meta.annotations.get(GOOD_ANNOTATION)),
        terminating=parse_time(meta.deletion_timestamp),
        compliant=status.compliant,
        stored=status.rollout_status,
        stored_at=parse_time(status.rollout_last_transition_time),
        observed_generation=status.observed_generation,
        reports={_name(each): each.history[0].event_name for each in status.details if each.history},
        message=_message(status),
    )


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
    return ""
