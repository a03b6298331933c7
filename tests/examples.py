"""How many examples of a property are tried, where it deserves other than the usual number.

`make test` tries few of them, as it does with the usual number; `make test-all` tries all.
"""

import os

from hypothesis import settings

from tests.budgets import FULL

QUICK_SHARE = 5


def examples(number: int) -> settings:
    """Return the settings of a property that deserves so many examples."""
    return settings(deadline=None, max_examples=number if os.environ.get(FULL) else max(1, number // QUICK_SHARE))
