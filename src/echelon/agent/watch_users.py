"""Who looks at which object, so that a change of an object leads to whoever it concerns."""

from collections.abc import Iterable

from echelon.agent.object_watches import ObjectRef, ObjectWatches
from echelon.engine.work.removal import ResourceKey


class WatchUsers:
    """What each work, or each policy, has watched."""

    def __init__(self, watches: ObjectWatches, kind: str) -> None:
        """`kind` tells users of one kind from those of others that have the same watches."""
        self._watches = watches
        self._kind = kind
        self._refs: dict[str, tuple[ObjectRef, ...]] = {}  # by user
        self._users: dict[ResourceKey, set[str]] = {}

    def watch(self, user: str, refs: Iterable[ObjectRef]) -> tuple[ObjectRef, ...]:
        """Watch this for a user, and nothing else; return what was watched for it before."""
        before = self._refs.pop(user, ())
        for ref in before:
            users = self._users.get(ref.key, set())  # none are left if it was watched under two versions
            users.discard(user)
            if not users:
                self._users.pop(ref.key, None)
        wanted = tuple(dict.fromkeys(refs))
        if wanted:
            self._refs[user] = wanted
        for ref in wanted:
            self._users.setdefault(ref.key, set()).add(user)
        self._watches.watch((self._kind, user), wanted)
        return before

    def refs(self, user: str) -> tuple[ObjectRef, ...]:
        """Return what is watched for a user."""
        return self._refs.get(user, ())

    def of(self, key: ResourceKey) -> list[str]:
        """Return the users of what is watched under a key, in the order of their names."""
        return sorted(self._users.get(key, ()))
