"""Which content an object has, as a hash.

A revision is known by a hash of its content. Rollouts, approvals and works of one revision must still belong together
after an upgrade of Echelon, so the hash is of canonical JSON: it does not depend on the order of keys, on how a library
writes numbers, or on anything that we add to our own types.
"""

import json
from typing import Any

from echelon.api.short_hash import short_hash

_EXACT = 1 << 53  # up to here, a float that is whole is the same number as an integer


def canonical(content: Any) -> bytes:
    """JSON with sorted keys and without whitespace, the same for all that an API server holds to be equal."""
    text = json.dumps(_plain(content), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def revision_of(content: Any) -> str:
    """The hash of a content: short, fit for names and labels, and stable."""
    return short_hash(canonical(content))


def _plain(value: Any) -> Any:
    """Servers and clients write 1.0 as 1."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return int(value)
    return value
