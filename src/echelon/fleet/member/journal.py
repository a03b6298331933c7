"""The events of a member. They are remembered as they happen, and written when somebody first reads events there.

Kubernetes writes five events for a pod that starts. In a fleet of thousands nobody looks into most clusters, so there
it would be most of what is written. Once somebody has read those of a namespace, they are written as they happen.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

from echelon.api.base import JSONObject
from echelon.fleet.member.cluster_index import JOBS, PODS, REPLICA_SETS
from echelon.fleet.member.decide import news
from echelon.fleet.member.decide.news import News
from echelon.hub.cluster import LogicalCluster
from echelon.hub.storage.store import Change, Key, StaleWrite
from echelon.kube.client import EventType

JOURNAL = Key("journal", "", "")  # not an object, but woken like one
TOLD = frozenset((PODS, REPLICA_SETS, JOBS))
_EVENTS = "events"
_MOST = 512
_SECONDS = 3600.0  # as long as the hub keeps events


@dataclass(slots=True)
class _Happened:
    """How often something happened, and when."""

    first: str
    last: str
    at: float
    count: int = 1


class Journal:
    """What happened in one cluster lately."""

    __slots__ = ("_asked", "_cluster", "_happened", "_only_warnings", "_unwritten")

    def __init__(self, cluster: LogicalCluster, *, only_warnings: bool = False) -> None:
        self._only_warnings = only_warnings
        self._asked: set[str] = set()  # namespaces of which somebody reads events; an empty one is all of them
        self._cluster = cluster
        self._happened: dict[News, _Happened] = {}  # what happened last comes last
        self._unwritten: dict[News, None] = {}

    def follow(self, change: Change) -> bool:
        """Take note of what a change means; tell whether there is something to write."""
        key = change.entry.key
        if change.type is EventType.DELETED or (self._only_warnings and key.resource == REPLICA_SETS):
            return False  # of a ReplicaSet there is nothing to warn
        old, new = change.previous.object if change.previous is not None else None, change.entry.object
        if key.resource == PODS:
            return self.tell(news.of_pod(old, new))
        return self.tell(news.of_replica_set(old, new) if key.resource == REPLICA_SETS else news.of_job(old, new))

    def tell(self, happened: Iterable[News]) -> bool:
        """Take note of what happened; tell whether there is something to write."""
        wanted = False
        for each in happened:
            if self._only_warnings and not each.warning:
                continue
            self._note(each)
            wanted = wanted or self._is_read(each.about.namespace)
        return wanted

    def _is_read(self, namespace: str) -> bool:
        return namespace in self._asked or "" in self._asked

    def _note(self, each: News) -> None:
        cluster, known = self._cluster, self._happened.pop(each, None)
        now = cluster.timestamp()
        if known is None:
            known = _Happened(now, now, cluster.clock().timestamp())
            if len(self._happened) >= _MOST:
                oldest = next(iter(self._happened))
                del self._happened[oldest]
                self._unwritten.pop(oldest, None)
        else:
            known.last, known.at, known.count = now, cluster.clock().timestamp(), known.count + 1
        self._happened[each] = known
        self._unwritten[each] = None

    async def show(self, namespace: str) -> None:
        """Write what happened in a namespace, or in all if it is empty, and from now on what happens there."""
        self._asked.add(namespace)
        await self.write()

    async def write(self) -> None:
        """Write what is not written yet, of what is read."""
        cluster, store = self._cluster, self._cluster.store
        oldest = cluster.clock().timestamp() - _SECONDS
        writes = []
        for each in tuple(self._unwritten):
            if not self._is_read(each.about.namespace):
                continue
            self._unwritten.pop(each, None)
            happened = self._happened.get(each)
            if happened is None or happened.at < oldest or not self._is_there(each.about.namespace):
                self._happened.pop(each, None)
                continue
            key = Key(_EVENTS, each.about.namespace, _name(each))
            entry = store.latest(key)
            meta = entry.object["metadata"] if entry is not None else None
            body = _body(each, happened, meta or self._metadata(key, happened))
            writes.append(store.put(key, body, expected=entry.revision if entry is not None else 0))
        for write in writes:
            try:
                await write
            except StaleWrite:
                continue  # somebody deletes events meanwhile

    def _is_there(self, namespace: str) -> bool:
        found = self._cluster.namespace_object(namespace)
        return found is not None and "deletionTimestamp" not in found["metadata"]

    def _metadata(self, key: Key, happened: _Happened) -> JSONObject:
        stamps = {"uid": self._cluster.new_uid(), "creationTimestamp": happened.first}
        return {"name": key.name, "namespace": key.namespace, **stamps}


def _name(each: News) -> str:
    """Return the name of an event: always the same for the same, also after a restart."""
    text = repr((each.about.uid, each.reason, each.message, each.source, each.part))
    return f"{each.about.name[:230]}.{blake2b(text.encode(), digest_size=8).hexdigest()}"


def _body(each: News, happened: _Happened, metadata: JSONObject) -> JSONObject:
    about = each.about
    involved = {
        "apiVersion": about.api_version,
        "kind": about.kind,
        "namespace": about.namespace,
        "name": about.name,
        "uid": about.uid,
    }
    source = {"component": each.source}
    if each.part:
        involved["fieldPath"] = each.part
    if each.node:
        source["host"] = each.node
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": metadata,
        "involvedObject": involved,
        "reason": each.reason,
        "message": each.message,
        "source": source,
        "firstTimestamp": happened.first,
        "lastTimestamp": happened.last,
        "count": happened.count,
        "type": "Warning" if each.warning else "Normal",
        "eventTime": None,
        "reportingComponent": each.source,
        "reportingInstance": each.node,
    }
