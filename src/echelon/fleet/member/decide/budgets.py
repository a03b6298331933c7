"""How far a rolling update may go: numbers and percentages, rounded as each kind of workload rounds them.

The directions differ on purpose, and between kinds. A percentage of a small workload is often less than one pod, so
the direction decides whether an update moves at all.
"""

from echelon.api.base import IntOrString


def resolve(value: IntOrString | None, whole: int, *, up: bool) -> int:
    """Return a number of pods: as it is, or as a share of a whole that is rounded up or down."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    text = value.strip()
    if not text.endswith("%"):
        return int(text or 0)
    share = int(text[:-1]) * whole
    return -(-share // 100) if up else share // 100


def deployment_limits(surge: IntOrString | None, unavailable: IntOrString | None, replicas: int) -> tuple[int, int]:
    """Return how many pods a Deployment may have too many, and how many may be missing.

    Two zeros would stand still for ever, so then one may be missing.
    """
    above = resolve(surge, replicas, up=True)
    below = resolve(unavailable, replicas, up=False)
    if above == 0 and below == 0:
        below = 1
    return above, min(below, replicas)


def clone_set_limits(
    surge: IntOrString | None, unavailable: IntOrString | None, replicas: int, *, paused: bool
) -> tuple[int, int]:
    """Return the same two for a CloneSet, which does not surge while it is paused."""
    above = 0 if paused else resolve(surge, replicas, up=True)
    return above, resolve(unavailable, replicas, up=above == 0)


def clone_set_partition(value: IntOrString | None, replicas: int) -> int:
    """Return how many pods stay old. Only "100%" keeps all of several: another percentage lets at least one go."""
    kept = min(max(resolve(value, replicas, up=True), 0), replicas)
    if isinstance(value, str) and value.strip() != "100%" and replicas > 1 and kept == replicas:
        return kept - 1
    return kept


def stateful_set_unavailable(value: IntOrString | None, replicas: int) -> int:
    """Return how many pods of a StatefulSet may be unavailable: one at least."""
    return 1 if value is None else max(1, resolve(value, replicas, up=False))


def daemon_set_limits(surge: IntOrString | None, unavailable: IntOrString | None, nodes: int) -> tuple[int, int]:
    """Return on how many nodes there may be two pods, and on how many none."""
    above = resolve(surge, nodes, up=True)
    below = resolve(unavailable, nodes, up=True)
    return (0, 1) if above == 0 and below == 0 else (above, below)
