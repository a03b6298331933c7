"""What decisions need of a pod, read once for each version of it.

A set may have ten thousand pods of which one changes at a time, so nothing here is looked up again in wire forms. A pod
is *live* if it is neither being deleted nor ended; only live pods count, in every counter and for every index. A pod
that is Ready is ready, whatever its containers went through before: exit codes of long ago stay in its status for ever.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import msgspec

from echelon.api.base import JSON, JSONObject
from echelon.api.times import parse_time
from echelon.engine.pod_clique.names import GANG, GATE, POD_INDEX, TEMPLATE_HASH

ENDED_BEFORE = "echelon.dev/ended-before"  # on a pod: how many pods of its index ended one after the other before it

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_ENDED = frozenset(("Failed", "Succeeded"))
_INDEX = re.compile(r"(?:.*-)?(0|[1-9][0-9]{0,8})")


class PodFacts(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A pod of a clique."""

    name: str
    uid: str
    version: str = ""
    index: int | None = None  # None if its host name does not tell
    hash: str = ""
    gang: str = ""
    created: datetime = EPOCH
    node: str = ""
    phase: str = "Pending"
    ready: bool = False
    since: datetime = EPOCH  # when it became ready, or stopped being so, or was created
    scheduled: bool = False
    unschedulable: bool = False  # a scheduler looked for a node and found none
    gated: bool = False  # it waits for its gang
    foreign_gates: tuple[JSON, ...] = ()  # other gates, as they are on the wire
    failing: bool = False  # not ready, and a container's last run ended with an error
    unhealthy: bool = False  # not ready although a container has started up
    terminating: bool = False
    ended: bool = False  # Failed or Succeeded
    ended_at: datetime | None = None
    ended_before: int = 0

    @property
    def live(self) -> bool:
        """Whether it counts."""
        return not self.terminating and not self.ended

    @property
    def serves(self) -> bool:
        """Whether it is a unit that a deletion would take away."""
        return self.ready and not self.terminating and not self.ended


def read_pod(body: JSONObject) -> PodFacts:
    """Read a pod from its wire form. Whatever is missing or of a wrong type is taken for absent."""
    metadata, spec, status = (_object(body.get(key)) for key in ("metadata", "spec", "status"))
    labels, annotations = _object(metadata.get("labels")), _object(metadata.get("annotations"))
    conditions = {each.get("type"): each for each in _objects(status.get("conditions"))}
    ready, placed = conditions.get("Ready", {}), conditions.get("PodScheduled", {})
    created = parse_time(metadata.get("creationTimestamp")) or EPOCH
    phase = str(status.get("phase") or "Pending")
    gates = _objects(spec.get("schedulingGates"))
    node = str(spec.get("nodeName") or "")
    containers = _objects(status.get("containerStatuses"))
    is_ready = ready.get("status") == "True"
    failing = not is_ready and any(
        _failed(each) for each in (*containers, *_objects(status.get("initContainerStatuses")))
    )
    ended = phase in _ENDED
    since = max(created, parse_time(ready.get("lastTransitionTime")) or created)
    return PodFacts(
        name=str(metadata.get("name", "")),
        uid=str(metadata.get("uid", "")),
        version=str(metadata.get("resourceVersion", "")),
        index=_index(spec.get("hostname"), labels.get(POD_INDEX)),
        hash=str(labels.get(TEMPLATE_HASH, "")),
        gang=str(labels.get(GANG, "")),
        created=created,
        node=node,
        phase=phase,
        ready=is_ready,
        since=since,
        scheduled=bool(node) or placed.get("status") == "True",
        unschedulable=not node and placed.get("status") == "False" and placed.get("reason") == "Unschedulable",
        gated=any(gate.get("name") == GATE for gate in gates),
        foreign_gates=tuple(gate for gate in gates if gate.get("name") != GATE),
        failing=failing,
        unhealthy=not is_ready and not failing and any(_started_not_ready(each) for each in containers),
        terminating=bool(metadata.get("deletionTimestamp")),
        ended=ended,
        ended_at=_end(containers, ready, created) if ended else None,
        ended_before=_count(annotations.get(ENDED_BEFORE)),
    )


def _index(hostname: JSON, label: JSON) -> int | None:
    """Return the index of a pod. Its host name cannot be edited, the label can."""
    found = _INDEX.fullmatch(hostname) if isinstance(hostname, str) and hostname else None
    if found is None and not hostname and isinstance(label, str):
        found = _INDEX.fullmatch(label)
    return int(found[1]) if found else None


def _count(text: JSON) -> int:
    return int(text) if isinstance(text, str) and re.fullmatch(r"[0-9]{1,4}", text) else 0


def _failed(container: JSONObject) -> bool:
    last = _object(_object(container.get("lastState")).get("terminated"))
    return bool(last.get("exitCode"))


def _started_not_ready(container: JSONObject) -> bool:
    return bool(container.get("started")) and not container.get("ready")


def _end(containers: Iterable[JSONObject], ready: JSONObject, created: datetime) -> datetime:
    """Return when a pod ended: when the last of its containers did, else when it stopped being ready."""
    ends = (parse_time(_object(_object(each.get("state")).get("terminated")).get("finishedAt")) for each in containers)
    known = [end for end in ends if end is not None]
    return max(known) if known else parse_time(ready.get("lastTransitionTime")) or created


def _object(value: JSON) -> JSONObject:
    return value if isinstance(value, dict) else {}


def _objects(value: JSON) -> Sequence[JSONObject]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else ()
