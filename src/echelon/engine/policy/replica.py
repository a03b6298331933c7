"""A replica of a policy as it is on the hub: what it holds, and what its cluster has made of it.

A fleet has ten thousand of them, of which one changes at a time. So a replica is read once for each version of it, and
its content, which is what costs, once for each generation.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec

from echelon.api.base import JSONObject
from echelon.api.policy import PolicyStatus, TemplateDetails
from echelon.api.times import parse_time
from echelon.engine.policy.content import ACTION, CONTENT_FIELDS, body_of, digest_of
from echelon.engine.policy.names import EVENTS_ANNOTATION, HELD_ANNOTATION
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
    def was_held(self) -> bool:
        """Whether it was held when the hub wrote it, whatever somebody has made of its content since."""
        return self.held and EVENTS_ANNOTATION not in self.annotations

    @property
    def is_of_another_agent(self) -> bool:
        """Whether somebody reports on it who overwrites what he does not know, and would do so again and again."""
        return bool(self.reports) and not self.observed_generation

    @property
    def verdict(self) -> Phase:
        """What its agent says of the content that it has now; progressing for as long as it says nothing of that."""
        if self.is_of_another_agent:
            return self._verdict_of_reports()
        if self.stored in _VERDICTS and self.observed_generation == self.generation:
            return Phase(self.stored)
        return Phase.PROGRESSING

    def _verdict_of_reports(self) -> Phase:
        """Judge by reports alone: those that are later than the release are about what was released."""
        before = read_events(self.annotations.get(EVENTS_ANNOTATION, ""))
        if any(self.reports.get(name, "") in ("", event) for name, event in before.items()):
            return Phase.PROGRESSING
        if len(self.reports) < len(self.spec.get("policy-templates") or ()):
            return Phase.PROGRESSING
        return {"Compliant": Phase.SUCCEEDED, "NonCompliant": Phase.FAILED}.get(self.compliant, Phase.PROGRESSING)


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


def format_events(reports: Mapping[str, str]) -> str:
    """Write down the latest report of each template."""
    return msgspec.json.encode(dict(sorted(reports.items()))).decode()


def read_events(text: str) -> dict[str, str]:
    """Read what was written down of reports; nothing where that cannot be read."""
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, str])
    except msgspec.DecodeError:
        return {}


def _name(details: TemplateDetails) -> str:
    return str(details.template_meta.get("name", ""))


def _message(status: PolicyStatus) -> str:
    """Return what the first template says that is not well, in its own words."""
    for each in status.details:
        if each.compliant != "Compliant" and each.history:
            return f"{_name(each)}: {each.history[0].message}"[:_MESSAGE]
    return ""
