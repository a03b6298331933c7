"""Whether two values are equal where the order of lists does not count.

Both are written down in a normal form, with the items of lists sorted, and the forms are compared: that costs as much
as the values are long, whatever they are.
"""

import json
from typing import Any

from echelon.engine.configuration_policy.effort import Effort
from echelon.engine.configuration_policy.scalars import Likeness, is_zero, scalar_key, text_of


def compare_values(existing: Any, desired: Any, effort: Effort) -> Likeness:
    """Compare two values. Where they differ only in zero values or in spelling, that is a doubt."""
    if _form(existing, effort, exact=True) == _form(desired, effort, exact=True):
        return Likeness.SAME
    same = _form(existing, effort, exact=False) == _form(desired, effort, exact=False)
    return Likeness.DOUBTFUL if same else Likeness.OTHER


def _form(value: Any, effort: Effort, *, exact: bool, depth: int = 0) -> str:
    effort.spend(depth, int(exact))  # the second form costs what the first did
    if isinstance(value, dict):
        inner = (
            (key, _form(each, effort, exact=exact, depth=depth + 1))
            for key, each in value.items()
            if exact or not is_zero(each)
        )
        # What has nothing but zero values inside is a zero value itself.
        fields = [f"{json.dumps(key)}:{form}" for key, form in inner if exact or form not in ("{}", "[]")]
        return "{" + ",".join(sorted(fields)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(sorted(_form(each, effort, exact=exact, depth=depth + 1) for each in value)) + "]"
    return json.dumps(text_of(value) if exact else str(scalar_key(value)))
