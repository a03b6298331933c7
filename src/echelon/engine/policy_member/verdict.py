"""Whether a cluster has what a policy asks for: the verdict of its agent, on which the rollout goes on.

A verdict is about one state of the replica on the hub and says nothing of any other: what is found on the cluster
counts only if every step from that replica to the latest evaluation has been taken. Where one is missing, whatever the
hub has written stays.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from echelon.api.configuration_policy import CONFIGURATION_POLICY
from echelon.engine.policy_member.documents import (
    REPORT_BEFORE_CHANGE,
    Child,
    PolicyDocument,
    is_held,
)
from echelon.engine.policy_member.sync import TemplateState

SUCCEEDED, FAILED, TIME_OUT = "Succeeded", "Failed", "TimeOut"
NOT_YET = -1  # of a generation: somebody reports who will say which one, and has not evaluated any

_COMPLIANCE = frozenset({"Compliant", "NonCompliant", "Pending"})
_HUBS_WORDS = frozenset({"", "ToApply", "Skip"})  # nobody asked for a verdict
_GENERATION_FIELDS = ("lastEvaluatedGeneration", "observedGeneration")


@dataclass(frozen=True)
class JudgedTemplate:
    """What is known of a template: its state of compliance, empty while that is not known for the present content."""

    compliance: str
    enforced: bool
    changing: bool = False  # its latest evaluation changed something: the next one tells what came of it


@dataclass(frozen=True)
class Verdict:
    """What an agent has to say about a replica besides its compliance.

    `rollout_status` and its time are what the hub's are, unless it is for the agent to change them.
    """

    rollout_status: str
    transition_time: str
    observed_generation: int

    def differs_from(self, replica: PolicyDocument) -> bool:
        """Whether it is the agent who changes the rollout's status."""
        status = replica.status
        return (self.rollout_status, self.transition_time) != (
            status.rollout_status,
            status.rollout_last_transition_time,
        )


def judge_template(state: TemplateState, *, changed: bool) -> JudgedTemplate:
    """Judge a template by its object; `changed`: whether the latest evaluation of that changed something."""
    if state.message:
        said = state.message.partition(";")[0]
        return JudgedTemplate(said, state.enforced)
    child, latest = state.child, state.history[0].name if state.history else ""
    if child is None or not state.synced or not is_evaluated(child, latest) or child.compliant not in _COMPLIANCE:
        return JudgedTemplate("", state.enforced)
    return JudgedTemplate(child.compliant, state.enforced, changing=changed)


def is_evaluated(child: Child, latest: str) -> bool:
    """Whether an object was evaluated as it is now; `latest` is the name of its latest report."""
    for field in _GENERATION_FIELDS:
        if isinstance(child.status.get(field), int):
            return bool(child.status[field] == child.generation)
    if child.kind.kind == CONFIGURATION_POLICY.kind:
        return False
    return bool(latest) and latest != child.annotations.get(REPORT_BEFORE_CHANGE, "")


def judge(replica: PolicyDocument, templates: Sequence[JudgedTemplate], now: str, *, in_step: bool) -> Verdict:
    """Judge a replica, as the hub has it. `in_step`: whether the cluster's copy has its annotations and spec."""
    status = replica.status
    said, time = status.rollout_status, status.rollout_last_transition_time
    observed = status.observed_generation or NOT_YET
    if not in_step or any(not each.compliance for each in templates):
        return Verdict(said, time, observed)
    generation = replica.metadata.generation
    word = "" if is_held(replica) or said in _HUBS_WORDS else _word(templates)
    if not word or (said == TIME_OUT and word != SUCCEEDED):
        return Verdict(said, time, generation)
    # A word about an older generation is not the beginning of this one.
    return Verdict(word, time if said == word and observed == generation else now, generation)


def _word(templates: Sequence[JudgedTemplate]) -> str:
    """Return what has come of the present content; nothing while that is open."""
    if not any(each.enforced for each in templates):
        return "" if _has(templates, "Pending") else SUCCEEDED
    if any(each.compliance == "NonCompliant" and not each.changing for each in templates):
        return FAILED
    return SUCCEEDED if all(each.compliance == "Compliant" for each in templates) else ""


def _has(templates: Sequence[JudgedTemplate], compliance: str) -> bool:
    return any(each.compliance == compliance for each in templates)
