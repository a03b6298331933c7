"""How far a rolling update may go: numbers and percentages, rounded as each kind of workload rounds them.

The directions differ on purpose, and between kinds. A percentage of a small workload is often less than one pod, so
the direction decides whether an update moves at all.
"""

import re
from functools import lru_cache

from echelon.api.base import IntOrString
from echelon.engine.int_or_percent import Rounding, resolve

_HEEDED_SINCE = 1, 37  # the version of Kubernetes from which StatefulSets heed `maxUnavailable`


@lru_cache(maxsize=256)  # asked at every step of every Deployment, and there are few different ones
def deployment_limits(surge: IntOrString | None, unavailable: IntOrString | None, replicas: int) -> tuple[int, int]:
    """Return how many pods a Deployment may have too many, and how many may be missing.

    Two zeros would stand still for ever, so then one may be missing.
    """
    above = resolve(surge, replicas, Rounding.UP)
    below = resolve(unavailable, replicas, Rounding.DOWN)
    if above == 0 and below == 0:
        below = 1
    return above, min(below, replicas)


def clone_set_limits(
    surge: IntOrString | None, unavailable: IntOrString | None, replicas: int, *, paused: bool
) -> tuple[int, int]:
    """Return the same two for a CloneSet, which does not surge while it is paused."""
    above = 0 if paused else resolve(surge, replicas, Rounding.UP)
    return above, resolve(unavailable, replicas, Rounding.DOWN if above else Rounding.UP)


def heeds_unavailable(version: str) -> bool:
    """Whether StatefulSets of a Kubernetes heed `maxUnavailable`; else, and where nobody knows, they go one by one."""
    found = re.match(r"v?(\d+)\.(\d+)", version)
    return found is not None and (int(found[1]), int(found[2])) >= _HEEDED_SINCE


def stateful_set_unavailable(value: IntOrString | None, replicas: int) -> int:
    """Return how many pods of a StatefulSet may be unavailable: one at least."""
    return 1 if value is None else max(1, resolve(value, replicas, Rounding.DOWN))


def daemon_set_limits(surge: IntOrString | None, unavailable: IntOrString | None, nodes: int) -> tuple[int, int]:
    """Return on how many nodes there may be two pods, and on how many none."""
    above = resolve(surge, nodes, Rounding.UP)
    below = resolve(unavailable, nodes, Rounding.UP)
    return (0, 1) if above == 0 and below == 0 else (above, below)
