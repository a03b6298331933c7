"""How a kind behaves beyond its schema.

Custom resources all behave alike. The kinds that Kubernetes serves itself each have habits of their own: values that
the server fills in, fields that cannot change, checks that a schema has no words for. A `Strategy` is a set of
functions for those habits; what a kind does not mention, it does like everybody else.
"""

from collections.abc import Callable
from dataclasses import dataclass

from echelon.api.base import JSON, JSONObject
from echelon.api.json_equality import is_same
from echelon.hub.access.identity import User
from echelon.hub.cluster import LogicalCluster
from echelon.hub.schema.metadata import NameStyle
from echelon.kube.errors import Cause


def no_preparation(_cluster: LogicalCluster, _new: JSONObject, _user: User) -> None:
    """Store an object as it came."""


def no_update_preparation(_cluster: LogicalCluster, _new: JSONObject, _old: JSONObject, _user: User) -> None:
    """Store a change as it came."""


def no_status_preparation(_cluster: LogicalCluster, _change: "StatusChange") -> None:
    """Store a change of the status as it came."""


def no_checks(_new: JSONObject, _old: JSONObject | None) -> list[Cause]:
    """Find nothing wrong that the schema allows."""
    return []


def free_to_delete(_obj: JSONObject) -> None:
    """Let anyone delete it who may."""


def anything_but_status_changed(new: JSONObject, old: JSONObject) -> bool:
    """Tell whether the desired state differs: everything besides metadata and status counts."""
    names = (new.keys() | old.keys()) - {"metadata", "status", "apiVersion", "kind"}
    return any(not is_same(new.get(name), old.get(name)) for name in names)


def no_finalizers(obj: JSONObject) -> bool:
    """Tell whether nothing holds a deleted object back."""
    return not obj["metadata"].get("finalizers") and not obj["metadata"].get("deletionGracePeriodSeconds")


def no_grace(_obj: JSONObject, _asked: int | None) -> int:
    """Delete without a grace period."""
    return 0


@dataclass(frozen=True)
class StatusChange:
    """A status on its way through one of the endpoints that may write it; `new` may be changed."""

    endpoint: str
    new: JSONObject
    old: JSONObject
    user: User


@dataclass(frozen=True)
class Strategy:
    """The habits of a kind."""

    counts_generations: bool = False
    unconditional_update: bool = True
    compiles: bool = False  # `validate` takes long, however small an object is
    name_style: NameStyle = "subdomain"
    first_status: JSONObject | None = None  # what a new object reports: zeros that clients read without asking
    prepare_create: Callable[[LogicalCluster, JSONObject, User], None] = no_preparation
    prepare_update: Callable[[LogicalCluster, JSONObject, JSONObject, User], None] = no_update_preparation
    status_endpoints: tuple[str, ...] = ("status",)  # subresources through which nothing but the status changes
    prepare_status: Callable[[LogicalCluster, StatusChange], None] = no_status_preparation
    validate: Callable[[JSONObject, JSONObject | None], list[Cause]] = no_checks
    desired_state_changed: Callable[[JSONObject, JSONObject], bool] = anything_but_status_changed
    check_delete: Callable[[JSONObject], None] = free_to_delete
    prepare_delete: Callable[[JSONObject], None] = free_to_delete
    grace_period: Callable[[JSONObject, int | None], int] = no_grace
    may_go: Callable[[JSONObject], bool] = no_finalizers

    @property
    def stores_as_admitted(self) -> bool:
        """Whether nothing is added to what a client sends, besides metadata."""
        prepared = self.prepare_create is not no_preparation or self.prepare_update is not no_update_preparation
        return not prepared and self.first_status is None


def immutable(new: JSONObject, old: JSONObject | None, *path: str) -> list[Cause]:
    """Find a field that may not change after creation."""
    before: JSON = old
    after: JSON = new
    for name in path:
        before = (before or {}).get(name)
        after = (after or {}).get(name)
    if old is None or before == after:
        return []
    return [Cause(".".join(path), "Invalid value: field is immutable")]


CUSTOM = Strategy(counts_generations=True, unconditional_update=False)
