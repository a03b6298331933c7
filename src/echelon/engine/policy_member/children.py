"""The objects of templates on a cluster: what makes one as its template asks, and what becomes of one while held.

While a cluster is held nothing is changed there, and deleting an object that enforces would prune. So whatever would
be deleted is parked instead: set to inform, and marked as enforced before, because enforcing is what entitles to
prune. Every change of such an object is one write, or a crash in between would forget what it was.
"""

from typing import Any

from echelon.api.base import JSONObject
from echelon.api.configuration_policy import CONFIGURATION_POLICY
from echelon.api.kinds import Kind
from echelon.engine.merge_patch import merge_difference
from echelon.engine.plan import Create, Delete, Patch, Write
from echelon.engine.policy.names import ENFORCED_BEFORE_ANNOTATION, HELD_ANNOTATION
from echelon.engine.policy_member.documents import (
    REPORT_BEFORE_CHANGE,
    TRUE,
    Child,
    PolicyDocument,
    is_held,
)
from echelon.engine.policy_member.templates import with_defaults
from echelon.engine.rollout.annotations import RETRIED_ANNOTATION
from echelon.engine.work.updating import LastApplied, last_applied_of


def create_child(kind: Kind[Any], wanted: JSONObject, policy: PolicyDocument) -> Create:
    """Return what makes the object of a template."""
    held, retried = is_held(policy), policy.metadata.annotations.get(RETRIED_ANNOTATION)
    marks = {HELD_ANNOTATION: TRUE if held else None, RETRIED_ANNOTATION: retried}
    meta = wanted["metadata"]
    notes = meta["annotations"] | {key: value for key, value in marks.items() if value is not None}
    return Create(kind, {**wanted, "metadata": {**meta, "annotations": notes}}, meta["namespace"])


def update_child(
    wanted: JSONObject, live: Child, policy: PolicyDocument, latest: str = "", kept: LastApplied | None = None
) -> Patch | None:
    """Return what makes an object as its template asks; nothing if it is.

    `latest` is the name of the template's latest report, `kept` what the cluster made of the last write. Labels and
    annotations of others stay.
    """
    body: JSONObject = {}
    configuration = live.kind.kind == CONFIGURATION_POLICY.kind
    spec = merge_difference(with_defaults(live.spec) if configuration else live.spec, wanted["spec"])
    if spec and not (kept is not None and kept == last_applied_of(_content(wanted), live.document)):
        body["spec"] = spec
    retried = {RETRIED_ANNOTATION: policy.metadata.annotations.get(RETRIED_ANNOTATION)}
    notes = {**wanted["metadata"]["annotations"], **_marks(live, held=is_held(policy)), **retried}
    if "spec" in body and not configuration:
        notes[REPORT_BEFORE_CHANGE] = latest
    metadata = _differing(live, wanted["metadata"]["labels"], notes)
    if not live.has_owner(policy):
        metadata["ownerReferences"] = [*live.other_owners, *wanted["metadata"]["ownerReferences"]]
    if metadata:
        body["metadata"] = metadata
    return _patch(live, body) if body else None


def kept_of(wanted: JSONObject, live: Child) -> LastApplied | None:
    """Note what the cluster made of an object, if that is something else than what was asked for."""
    configuration = live.kind.kind == CONFIGURATION_POLICY.kind
    before = with_defaults(live.spec) if configuration else live.spec
    return last_applied_of(_content(wanted), live.document) if merge_difference(before, wanted["spec"]) else None


def park_child(live: Child) -> Patch | None:
    """Return what keeps an object from changing anything until its cluster's turn; nothing if it is so."""
    body: JSONObject = {"spec": {"remediationAction": "inform"}} if live.enforced else {}
    if metadata := _differing(live, {}, _marks(live, held=True)):
        body["metadata"] = metadata
    return _patch(live, body) if body else None


def delete_child(live: Child) -> Delete:
    """Return what ends an object; its controller prunes before it goes."""
    meta = live.metadata
    return Delete(live.kind, live.name, meta.get("namespace", ""), meta.get("uid", ""))


def drop_child(live: Child) -> tuple[Write, ...]:
    """Return what ends an object so that whatever it looked after survives."""
    if live.kind.kind != CONFIGURATION_POLICY.kind or live.spec.get("pruneObjectBehavior", "None") == "None":
        return (delete_child(live),)
    return _patch(live, {"spec": {"pruneObjectBehavior": "None"}}), delete_child(live)


def is_asked_again(live: Child, policy: PolicyDocument) -> bool:
    """Whether somebody has asked for another try that an object does not know of."""
    asked = policy.metadata.annotations.get(RETRIED_ANNOTATION)
    return asked is not None and live.annotations.get(RETRIED_ANNOTATION) != asked


def reset_child(live: Child) -> Patch:
    """Return what makes the controller of an object report anew."""
    return _patch(live, {"status": {"compliant": None}}, "status")


def _marks(live: Child, *, held: bool) -> JSONObject:
    enforced = live.enforced or live.annotations.get(ENFORCED_BEFORE_ANNOTATION) == TRUE
    return {HELD_ANNOTATION: TRUE if held else None, ENFORCED_BEFORE_ANNOTATION: TRUE if held and enforced else None}


def _differing(live: Child, labels: JSONObject, annotations: JSONObject) -> JSONObject:
    """Return which of these labels and annotations an object does not have; None stands for one that it must not."""
    changed = {
        "labels": {key: value for key, value in labels.items() if live.labels.get(key) != value},
        "annotations": {key: value for key, value in annotations.items() if live.annotations.get(key) != value},
    }
    return {field: said for field, said in changed.items() if said}


def _content(wanted: JSONObject) -> JSONObject:
    return {"spec": wanted["spec"]}


def _patch(live: Child, body: JSONObject, subresource: str = "") -> Patch:
    meta = live.metadata
    return Patch(
        live.kind,
        live.name,
        body,
        meta.get("namespace", ""),
        meta.get("uid", ""),
        meta.get("resourceVersion", ""),
        subresource,
    )
