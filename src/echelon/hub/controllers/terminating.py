"""What is being deleted and has to lose its content first: namespaces and definitions."""

from collections.abc import Callable

from echelon.hub.cluster import LogicalCluster
from echelon.hub.controllers.todo import Todo
from echelon.hub.storage.store import Change, Key
from echelon.hub.verbs.admission import Request, Target
from echelon.hub.verbs.deletion import delete
from echelon.kube import errors
from echelon.kube.client import DeleteOptions, EventType


class Terminating:
    """The containers of one resource that are being deleted; each is looked at again whenever its content changes."""

    def __init__(self, resource: str, container_of: Callable[[Key], str], todo: Todo[str]) -> None:
        self._resource = resource
        self._container_of = container_of
        self._todo = todo
        self._names: dict[str, None] = {}  # a dict as an ordered set: replays are exact

    def follow(self, change: Change) -> None:
        """Learn of a change."""
        key = change.entry.key
        if key.resource == self._resource:
            self._names.pop(key.name, None)
            if change.type is EventType.DELETED:
                self._todo.discard(key.name)
            elif change.entry.metadata.get("deletionTimestamp"):
                self._names[key.name] = None
                self._todo.remind(key.name)
        elif (container := self._container_of(key)) in self._names:
            self._todo.add(container)


async def delete_content(cluster: LogicalCluster, target: Target, controller: Request) -> None:
    """Delete an object together with what holds it; one that is gone is no failure."""
    try:
        await delete(cluster, target, DeleteOptions(propagation="Background"), controller)
    except errors.NotFound:
        return
