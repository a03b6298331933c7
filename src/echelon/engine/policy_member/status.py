"""The status of a policy that an agent writes: on the copy first, then on the hub's replica, field by field.

Servers refuse objects that are too large, and then nobody hears anything of a policy. So what has to be known goes
first: the differences that enforcing would make are cut, then the histories.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from echelon.api.base import JSONObject
from echelon.engine.merge_patch import merge_difference
from echelon.engine.policy_member.documents import PolicyDocument, ReplicaStatus, is_held
from echelon.engine.policy_member.sync import TemplateState
from echelon.engine.policy_member.verdict import NOT_YET, JudgedTemplate, Verdict
from echelon.engine.work.updating import LastApplied, last_applied_of

MOST_CHANGES = 20  # of one template
MOST_CHANGES_BYTES = 64 * 1024  # of all templates together
MOST_DETAILS_BYTES = 512 * 1024
_SHORTER = ((3, 1024), (1, 1024), (1, 128))  # entries a template, and letters a message


@dataclass(frozen=True)
class PolicyReport:
    """What there is to say of a policy on its cluster."""

    compliant: str
    details: list[JSONObject]


def policy_report(
    copy: PolicyDocument, states: Sequence[TemplateState], judged: Sequence[JudgedTemplate]
) -> PolicyReport:
    """Put together what there is to say of each template, and what follows for the policy."""
    details = [_detail(state, known) for state, known in zip(states, judged, strict=True)]
    found = [str(each.get("compliant", "")) for each in details]
    compliant = next((each for each in ("NonCompliant", "Pending") if each in found), "")
    if not compliant:
        compliant = "Compliant" if all(each == "Compliant" for each in found) else copy.status.compliant
    details = _shortened(details)
    return PolicyReport(compliant, _with_changes(details, states) if is_held(copy) else details)


def says_nothing(report: PolicyReport, verdict: Verdict) -> bool:
    """Whether a report tells only that there is nothing to tell yet: nobody has evaluated any template."""
    known = report.compliant or any(each.keys() != {"templateMeta"} for each in report.details)
    return verdict.observed_generation == NOT_YET and not known


def copy_status(report: PolicyReport, verdict: Verdict) -> JSONObject:
    """Return the status of a copy: all that the hub's replica says, for people on the cluster."""
    return {
        **replica_status(report, verdict, judged=False),
        "rolloutStatus": verdict.rollout_status or None,
        "rolloutLastTransitionTime": verdict.transition_time or None,
    }


def replica_status(report: PolicyReport, verdict: Verdict, *, judged: bool) -> JSONObject:
    """Return the fields that are the agent's on the hub; `judged` if the rollout's status is among them."""
    said: JSONObject = {
        "compliant": report.compliant or None,
        "details": report.details or None,
        "observedGeneration": verdict.observed_generation,
    }
    if judged and verdict.rollout_status:
        said |= {"rolloutStatus": verdict.rollout_status, "rolloutLastTransitionTime": verdict.transition_time}
    return said


def status_difference(live: ReplicaStatus, wanted: JSONObject, kept: LastApplied | None = None) -> JSONObject:
    """Return what to merge into a status; nothing if it says that, or all of that which the server keeps."""
    present = _present(live, wanted)
    difference = merge_difference(present, wanted)
    if difference and kept is not None and kept == _kept(wanted, present):
        return {}
    return difference


def kept_of(live: ReplicaStatus, wanted: JSONObject) -> LastApplied | None:
    """Note what a server made of a status, if that is something else than it was told."""
    present = _present(live, wanted)
    return _kept(wanted, present) if merge_difference(present, wanted) else None


def _present(live: ReplicaStatus, wanted: JSONObject) -> JSONObject:
    said: JSONObject = msgspec.to_builtins(live)
    return {name: said.get(name) for name in wanted}


def _kept(wanted: JSONObject, present: JSONObject) -> LastApplied:
    return last_applied_of({"said": wanted}, {"said": present})


def _detail(state: TemplateState, judged: JudgedTemplate) -> JSONObject:
    """Return what is said of a template: its verdict, else what the latest report says.

    The latest report alone may be one that was sent before its evaluation came to nothing.
    """
    detail: JSONObject = {"templateMeta": {"name": state.name}}
    if said := judged.compliance or (state.history[0].compliance if state.history else ""):
        detail["compliant"] = said
    if state.history:
        detail["history"] = [each.entry() for each in state.history]
    return detail


def _with_changes(details: Sequence[JSONObject], states: Sequence[TemplateState]) -> list[JSONObject]:
    """Say what enforcing would change: as many objects as there is room for, and then as many of the differences."""
    left = MOST_CHANGES_BYTES
    listed: list[list[JSONObject]] = []
    for state in states:
        listed.append([])
        for change in _changes(state):
            bare = {key: value for key, value in change.items() if key != "diff"}
            left -= len(msgspec.json.encode(bare))
            if left >= 0:
                listed[-1].append(bare)
    for fitting, state in zip(listed, states, strict=True):
        for number, (bare, change) in enumerate(zip(fitting, _changes(state), strict=False)):
            more = len(msgspec.json.encode(change)) - len(msgspec.json.encode(bare))
            if more <= left:
                left -= more
                fitting[number] = change
    return [
        {**detail, "pendingChanges": changes} if changes else detail
        for detail, changes in zip(details, listed, strict=True)
    ]


def _changes(state: TemplateState) -> list[JSONObject]:
    listed = state.child.status.get("pendingChanges") if state.child is not None and state.synced else None
    return [each for each in listed if isinstance(each, dict)][:MOST_CHANGES] if isinstance(listed, list) else []


def _shortened(details: list[JSONObject]) -> list[JSONObject]:
    """Return details that fit into an object beside everything else."""
    for entries, letters in _SHORTER:
        if len(msgspec.json.encode(details)) <= MOST_DETAILS_BYTES:
            break
        details = [_shorter(each, entries, letters) for each in details]
    return details


def _shorter(detail: JSONObject, entries: int, letters: int) -> JSONObject:
    history = [{**each, "message": each["message"][:letters]} for each in detail.get("history", ())[:entries]]
    return {**detail, "history": history} if history else detail
