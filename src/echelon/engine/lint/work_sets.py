"""Work sets: their strategies, and the groups that these name."""

from collections.abc import Iterator

from echelon.engine.lint.documents import PLACEMENT, Document, Documents, Finding, mapping, sequence
from echelon.engine.lint.placements import group_names
from echelon.engine.lint.strategies import lint_control, lint_mandatory, lint_strategy

_ZERO = "zero sets no limit: as many clusters as a decision group has start at once, which may be all"


def lint_work_set(one: Document, known: Documents) -> Iterator[Finding]:
    """Look at a work set, and at the placements that it names."""
    yield from lint_control(one)
    for number, each in enumerate(sequence(one.spec.get("placementRefs"))):
        ref = mapping(each)
        at, name = f"spec.placementRefs[{number}].rolloutStrategy", str(ref.get("name", ""))
        strategy = mapping(ref.get("rolloutStrategy"))
        yield from lint_strategy(one, strategy, at, _ZERO)
        placement = known.get(PLACEMENT, one.namespace, name)
        if placement is not None:
            yield from lint_mandatory(one, strategy, at, name, group_names(placement))
