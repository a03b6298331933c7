"""Policies as `echelon rollout` sees them: the policy and its replicas, with what agents report of each template."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from echelon.api.base import JSONObject
from echelon.api.policy import TemplateDetails
from echelon.engine.policy.content import ACTION, TEMPLATES
from echelon.engine.policy.plan import refusal_of
from echelon.engine.policy.raw_policy import RawPolicy
from echelon.engine.policy.replica import Replica
from echelon.engine.policy.strategy import strategy_of
from echelon.engine.policy.subject import contents_of, is_waiting, subject_of
from echelon.engine.rollout.stored_revision import StoredRevision
from echelon.kube.client import Reader
from echelon.rollouts.memory import Memory
from echelon.rollouts.picture import DONE, FAILED, MOVING, WAITING, ObjectLine
from echelon.rollouts.policy_reading import PolicyReading, read_policy, root_of_replica
from echelon.rollouts.reading import Found

_STATES = {"Compliant": DONE, "NonCompliant": FAILED}
NOT_REPORTED = "not reported on yet"


async def read_rollout(client: Reader, document: JSONObject, now: datetime, memory: Memory | None = None) -> Found:
    """Return a policy with everything around it."""
    return found_policy(await read_policy(client, document, now, memory), now)


def found_policy(reading: PolicyReading, now: datetime) -> Found:
    """Return a policy as the subject of a rollout, with what its agents say of its templates."""
    view = reading.view
    strategy = strategy_of(view)
    subject = subject_of(view, strategy, contents_of(view, strategy), now)
    if refusal := refusal_of(view):
        subject = replace(subject, problem=refusal[1])
    disabled = "spec.disabled is true: no cluster is to have it" if view.policy.spec.get("disabled") else ""
    if disabled:
        subject = replace(subject, references=())
    objects = {cluster: [*_templates(reading, cluster)] for cluster in reading.reports}
    return Found(subject, objects, disabled, strategy.in_turn, reading.unseen)


def is_fresh(replica: Replica) -> bool:
    """Whether what a replica says is about what it is now; of other agents nobody can tell, and all of it counts."""
    return replica.observed_generation == replica.generation or replica.is_of_another_agent


def kinds_of_templates(policy: RawPolicy) -> dict[str, str]:
    """Return the kind of each template, by its name."""
    found: dict[str, str] = {}
    templates = policy.spec.get(TEMPLATES)
    for each in templates if isinstance(templates, list) else ():
        definition = each.get("objectDefinition") if isinstance(each, dict) else None
        if isinstance(definition, dict):
            metadata = definition.get("metadata")
            name = metadata.get("name") if isinstance(metadata, dict) else None
            found[str(name or "")] = str(definition.get("kind") or "")
    return found


def details_of(policy: RawPolicy) -> dict[str, TemplateDetails]:
    """Return what a replica says of each of its templates, by name; of some perhaps nothing."""
    told = {str(each.template_meta.get("name") or ""): each for each in policy.status.details}
    return {name: told.get(name, TemplateDetails()) for name in kinds_of_templates(policy)}


def newest_message(details: TemplateDetails) -> str:
    """Return the latest report of a template, in its own words."""
    return details.history[0].message if details.history else ""


def copy_of(document: JSONObject) -> str:
    """Return what to say to somebody who names a replica; nothing about a policy."""
    root = root_of_replica(document)
    if root is None:
        return ""
    meta = document["metadata"]
    return (
        f"{meta['namespace']}/{meta['name']} is the replica of policy {root.name} in namespace {root.namespace} for"
        f" cluster {meta['namespace']}; name the policy: {root.name} -n {root.namespace}"
    )


def describe_content(revision: StoredRevision) -> JSONObject:
    """Return what a list of revisions says of one."""
    content = revision.content or {}
    return {"action": content.get(ACTION) or None, "templates": len(content.get(TEMPLATES) or ())}


def _templates(reading: PolicyReading, cluster: str) -> Iterator[ObjectLine]:
    """Return the templates of a cluster: a violation is a failure only where the policy is enforced."""
    policy, replica = reading.reports[cluster], reading.view.replicas[cluster]
    waits = is_waiting(replica, reading.view.content)
    kinds, fresh = kinds_of_templates(policy), is_fresh(replica)
    for name, told in details_of(policy).items():
        title = f"{kinds[name]} {name}".strip()
        if not fresh or not told.compliant:
            yield ObjectLine(title, WAITING if waits else MOVING, NOT_REPORTED, preview=waits)
            continue
        state = _STATES.get(told.compliant, MOVING)
        if state == FAILED and (waits or not reading.view.content.enforceable):
            state = WAITING if waits else DONE
        yield ObjectLine(title, state, newest_message(told) or told.compliant, preview=waits)
