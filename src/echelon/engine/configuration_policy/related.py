"""The objects that an evaluation looked at, as its status lists them."""

from collections.abc import Mapping
from typing import Any

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

MOST = 3000  # an object of a server has no room for more


def related_objects(policy: ConfigurationPolicy, evaluation: Evaluation, manager: str) -> list[RelatedObject]:
    """Return the objects that a policy is about, each once, sorted.

    While a template is not understood, what was known of its objects before is all that is known.
    """
    created = {each.place: each for each in pruning.enforced_objects(policy) if each.created}
    found: dict[tuple[str, str, str], RelatedObject] = {}
    for each in evaluation.templates:
        if isinstance(each, TemplateResult):
            for result in each.results:
                _add(found, _related(each, result, created, manager))
        else:
            for known in policy.status.related_objects:
                found.setdefault(_order(known), known)
    return [found[key] for key in sorted(found)][:MOST]


def _add(found: dict[tuple[str, str, str], RelatedObject], one: RelatedObject) -> None:
    """Add an object. Of several templates that are about it, the one that finds something wrong is heard."""
    before = found.get(_order(one))
    if before is None or (before.compliant == COMPLIANT and one.compliant != COMPLIANT):
        found[_order(one)] = one


def _order(related: RelatedObject) -> tuple[str, str, str]:
    metadata = related.object.metadata
    return f"{related.object.kind} {related.object.api_version}", metadata.namespace, metadata.name


def _related(each: TemplateResult, result: Result, created: Mapping[Place, Entry], manager: str) -> RelatedObject:
    seen = result.told
    return RelatedObject(
        object=_resource(each.kind, seen.namespace, seen.name or "-"),
        compliant=COMPLIANT if seen.compliant else NON_COMPLIANT,
        reason=seen.related_reason,
        properties=_properties(result, created, manager),
    )


def _resource(kind: Kind[Any], namespace: str, name: str) -> RelatedResource:
    return RelatedResource(
        api_version=kind.api_version, kind=kind.kind, metadata=RelatedMetadata(name=name, namespace=namespace)
    )


def _properties(result: Result, created: Mapping[Place, Entry], manager: str) -> RelatedProperties | None:
    """Return what the policy did with an object; nothing for one that a search came across."""
    finding = result.finding
    if finding is None:
        return None
    live = result.live
    uid = "" if live is None else str(live["metadata"].get("uid", ""))
    target = finding.target
    entry = created.get(place_of(target.kind, target.namespace, target.name))
    ours = result.created
    if not ours and live is not None and entry is not None:
        ours = entry.uid == uid if entry.uid else pruning.is_made_by(live, manager)
    shown = ""
    if target.template.record_diff and finding.fix is not None:
        shown = diff(target.kind, finding.base, finding.after)
    return RelatedProperties(
        created_by_policy=True if ours else None,
        uid=uid if ours else "",
        diff=shown,
        matches_after_dry_run=finding.matches_after_dry_run,
    )
