"""The objects that an evaluation looked at, as its status lists them."""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from echelon.api.configuration_policy import (
    ConfigurationPolicy,
    RelatedMetadata,
    RelatedObject,
    RelatedProperties,
    RelatedResource,
)
from echelon.api.kinds import Kind
from echelon.engine.configuration_policy import pruning
from echelon.engine.configuration_policy.diff import diff
from echelon.engine.configuration_policy.messages import COMPLIANT, NON_COMPLIANT
from echelon.engine.configuration_policy.pruning import Entry, Place
from echelon.engine.configuration_policy.results import Evaluation, Result, TemplateResult, place_of

MOST = 1000  # an object of a server has no room for many more
MOST_DIFFS = 20


def related_objects(policy: ConfigurationPolicy, evaluation: Evaluation) -> list[RelatedObject]:
    """Return the objects that a policy is about, each once, sorted; see `bounded`.

    While a template is not understood, what was known of its objects before is all that is known.
    """
    created = {each.place: each for each in pruning.enforced_objects(policy) if each.created}
    found: dict[tuple[str, str, str], RelatedObject] = {}
    for each in evaluation.templates:
        if isinstance(each, TemplateResult):
            for result in each.results:
                _add(found, _related(each, result, created, evaluation.confirmed))
        else:
            for known in policy.status.related_objects:
                found.setdefault(_order(known), known)
    return [found[key] for key in sorted(found)]


def bounded(related: list[RelatedObject]) -> list[RelatedObject]:
    """Return as many related objects, and as many diffs, as a status has room for.

    What the policy created comes first, because only the status knows that; then what it is about in particular.
    """

    def rank(each: RelatedObject) -> tuple[bool, bool]:
        return not (each.properties is not None and each.properties.created_by_policy), each.properties is None

    kept = sorted(sorted(related, key=rank)[:MOST], key=_order)
    shown = 0
    for number, each in enumerate(kept):
        if each.properties is not None and each.properties.diff:
            shown += 1
            if shown > MOST_DIFFS:
                properties = msgspec.structs.replace(each.properties, diff="")
                kept[number] = msgspec.structs.replace(each, properties=properties)
    return kept


def _add(found: dict[tuple[str, str, str], RelatedObject], one: RelatedObject) -> None:
    """Add an object. Of several templates that are about it, the one that finds something wrong is heard."""
    before = found.get(_order(one))
    if before is None or (before.compliant == COMPLIANT and one.compliant != COMPLIANT):
        found[_order(one)] = one


def _order(related: RelatedObject) -> tuple[str, str, str]:
    metadata = related.object.metadata
    return f"{related.object.kind} {related.object.api_version}", metadata.namespace, metadata.name


def _related(
    each: TemplateResult, result: Result, created: Mapping[Place, Entry], confirmed: Collection[str]
) -> RelatedObject:
    seen = result.told
    return RelatedObject(
        object=_resource(each.kind, seen.namespace, seen.name or "-"),
        compliant=COMPLIANT if seen.compliant else NON_COMPLIANT,
        reason=seen.related_reason,
        properties=_properties(each, result, created, confirmed),
    )


def _resource(kind: Kind[Any], namespace: str, name: str) -> RelatedResource:
    return RelatedResource(
        api_version=kind.api_version, kind=kind.kind, metadata=RelatedMetadata(name=name, namespace=namespace)
    )


def _properties(
    each: TemplateResult, result: Result, created: Mapping[Place, Entry], confirmed: Collection[str]
) -> RelatedProperties | None:
    """Return what the policy did with an object; nothing for one that a search came across."""
    if not result.is_target:
        return None
    finding, uid = result.finding, _created_uid(each, result, created, confirmed)
    shown = ""
    if finding is not None and finding.target.template.record_diff and finding.fix is not None:
        shown = diff(each.kind, finding.base, finding.after)
    return RelatedProperties(
        created_by_policy=True if uid else None,
        uid=uid,
        diff=shown,
        matches_after_dry_run=finding is not None and finding.matches_after_dry_run,
    )


def _created_uid(
    each: TemplateResult, result: Result, created: Mapping[Place, Entry], confirmed: Collection[str]
) -> str:
    """Return the uid of the object that the policy created here last, whether that is the one that is there now or not.

    It is not forgotten because a read shows another one or none: that may be of the past, and a uid comes but once.
    """
    there = "" if result.live is None else str(result.live["metadata"].get("uid", ""))
    entry = created.get(place_of(each.kind, result.found.namespace, result.found.name))
    if result.created:
        return there
    if entry is None:
        return ""
    if not entry.is_intent:
        return entry.uid
    return there if there in confirmed else entry.replaced
