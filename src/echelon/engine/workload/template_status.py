"""The status of a template on the hub: the sums over its clusters, as Karmada adds them up.

Whoever waits for a rollout by kubectl or Argo CD reads this. Its `observedGeneration` becomes the template's only when
every cluster has observed what was made of that generation; until then it stays what it was, and nobody is told that
the numbers are of the present.
"""

from collections.abc import Iterable

from echelon.api.base import JSONObject
from echelon.engine.align.reflection import COUNTS
from echelon.engine.plan import Patch
from echelon.engine.work.health_state import number, part, text
from echelon.engine.workload.view import WorkloadView

_REQUIRED = frozenset(("replicas", "currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled"))
_REQUIRED_OF_ALL = _REQUIRED | {"numberReady"}  # fields that a server wants even if they are zero


def template_status(view: WorkloadView, expected: Iterable[str]) -> Patch | None:
    """Return the write of what is different in the status of the template; `expected` clusters are to have it."""
    template, kind = view.template, view.template_kind
    if template is None or kind is None or view.foreign:
        return None
    summed = COUNTS.get((text(template, "apiVersion").rpartition("/")[0], text(template, "kind")))
    if summed is None:
        return None
    statuses = [work.status or {} for work in view.works.values() if work.terminating is None]
    before, meta = part(template, "status"), part(template, "metadata")
    after: JSONObject = {name: sum(number(each, name) for each in statuses) for name in summed}
    if _all_observed(view, expected, number(meta, "generation")):
        after["observedGeneration"] = number(meta, "generation")
    changed = {name: value for name, value in after.items() if value != number(before, name)}
    if not changed:
        return None
    body = {name: value for name, value in after.items() if value or name in before or name in _REQUIRED_OF_ALL}
    return Patch(
        kind,
        text(meta, "name"),
        {"status": body},
        text(meta, "namespace"),
        uid=text(meta, "uid"),
        resource_version=text(meta, "resourceVersion"),
        subresource="status",
    )


def _all_observed(view: WorkloadView, expected: Iterable[str], generation: int) -> bool:
    """Whether every cluster has what was made of the present template, and its controller has seen that."""
    names = {*expected, *(name for name, work in view.works.items() if work.terminating is None)}
    if not names:
        return False
    statuses = [work.status if (work := view.works.get(name)) is not None else None for name in names]
    return all(
        status is not None
        and number(status, "observedGeneration") >= number(status, "generation")
        and number(status, "resourceTemplateGeneration") >= generation
        for status in statuses
    )
