"""The replicas of each policy, kept up to date one by one.

A policy with ten thousand replicas is planned whenever one of them says something, so a replica is read when it
changes, and not when it is looked at. The index is compared with the cache from time to time.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import chain

from echelon.api.keys import Key
from echelon.engine.policy.names import ROOT_LABEL, root_of
from echelon.engine.policy.raw_policy import RawPolicy
from echelon.engine.policy.replica import Replica, read_replica
from echelon.engine.rollout.model import Phase
from echelon.kube.informer import Delta, Informer

BATCH = 250  # so many are compared before others have their turn on the event loop


class ReplicaIndex:
    """The replicas of all policies."""

    def __init__(self, policies: Informer[RawPolicy]) -> None:
        self._policies = policies
        self._replicas: dict[Key, dict[str, Replica]] = {}  # of each policy, by cluster

    def of(self, key: Key) -> Mapping[str, Replica]:
        """Return the replicas of a policy by cluster, as they are now."""
        return dict(self._replicas.get(key, {}))

    def changed(self, delta: Delta[RawPolicy]) -> Collection[Key]:
        """Follow a policy; if it is a replica, return the policy to which the change means something.

        One that has lost its label is no replica any more; but it stands where one belongs.
        """
        old = policy_of(delta.old) if delta.old is not None else None
        new = policy_of(delta.new) if delta.new is not None else None
        cluster = delta.object.metadata.namespace
        concerned: dict[Key, None] = {}
        if old is not None and new != old:
            self._put(old, cluster, None)
            concerned[old] = None
        if delta.new is not None and new is not None:
            before = self._replicas.get(new, {}).get(cluster)
            after = read_replica(delta.new, before)
            self._put(new, cluster, after)
            if before is None or replace(before, version=after.version) != after:
                concerned[new] = None
        elif (beside := root_of(delta.object.metadata.name)) is not None:
            concerned[beside] = None
        return tuple(concerned)

    def has_failed(self, key: Key, content: RawPolicy) -> bool:
        """Whether a replica reports a failure."""
        replica = self._replicas.get(key, {}).get(content.metadata.namespace)
        return replica is not None and replica.verdict is Phase.FAILED

    def verify(self) -> Iterator[str | None]:
        """Compare with the cache of policies; repair what is not the same, and yield what it was.

        Yields None when others may have their turn, so each replica is looked at as it is at that moment.
        """
        listed = ((policy_of(each), each.metadata.namespace) for each in self._policies.values())
        indexed = ((key, cluster) for key in list(self._replicas) for cluster in list(self._replicas.get(key, ())))
        for number, (key, cluster) in enumerate(chain(listed, indexed), start=1):
            if key is not None and (difference := self._verify(key, cluster)):
                yield difference
            if number % BATCH == 0:
                yield None

    def _verify(self, key: Key, cluster: str) -> str:
        known = self._replicas.get(key, {}).get(cluster)
        policy = self._policies.get(Key(cluster, f"{key.namespace}.{key.name}"))
        if policy is not None and policy_of(policy) != key:
            policy = None
        has, should = (known.version if known else "none"), (policy.metadata.resource_version if policy else "none")
        if has == should:
            return ""
        self._put(key, cluster, read_replica(policy) if policy is not None else None)
        return f"replica of {key} in {cluster}: {has} instead of {should}"

    def _put(self, key: Key, cluster: str, replica: Replica | None) -> None:
        replicas = self._replicas.setdefault(key, {})
        if replica is not None:
            replicas[cluster] = replica
            return
        replicas.pop(cluster, None)
        if not replicas:
            del self._replicas[key]


def policy_of(policy: RawPolicy) -> Key | None:
    """Return the policy that a replica is of; None for a policy that is no replica, or that is called otherwise."""
    meta = policy.metadata
    return root_of(meta.name) if meta.labels.get(ROOT_LABEL) == meta.name else None
