"""One logical cluster: a store, what it serves, who may use it, and the controllers that tidy up behind its objects.

Clock and randomness are given from outside. Under virtual time a cluster behaves the same every time.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random, SystemRandom
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.short_hash import ALPHABET
from echelon.api.times import format_time
from echelon.hub.access.rbac import RBAC_GROUP, Authorizer
from echelon.hub.access.signing import Signer
from echelon.hub.access.tokens import AccountTokens
from echelon.hub.catalogue.catalogue import Catalogue
from echelon.hub.machines import Machines
from echelon.hub.policy.index import BINDINGS, POLICIES, Policies
from echelon.hub.storage.store import Change, Key, Store
from echelon.kube.client import EventType

CRDS = "customresourcedefinitions.apiextensions.k8s.io"
NAMESPACES = "namespaces"
_RBAC_KINDS = {
    f"{kind.lower()}s.{RBAC_GROUP}": kind for kind in ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
}
# Of a UUID of version 4 all bits are random but those that say so.
_VERSION_4 = 0x4 << 76 | 0x8 << 60
_RANDOM_BITS = ~(0xF << 76 | 0xC << 60)


def _wall_clock() -> datetime:
    return datetime.now(UTC)


@dataclass
class LogicalCluster:
    """An API server's worth of state. Verbs live in `reading`, `writing` and `deletion`."""

    name: str
    store: Store
    clock: Callable[[], datetime] = _wall_clock
    random: Random = field(default_factory=SystemRandom)
    accounts: AccountTokens | None = None  # who signs the tokens of its service accounts
    signer: Signer | None = None  # who signs the certificates that are approved here
    # Does what takes the hub's own controllers long beside the event loop. Under virtual time there is nothing beside.
    beside: Callable[[Callable[[], Any]], Awaitable[Any]] | None = None
    machines: Machines | None = None  # who answers for its nodes
    catalogue: Catalogue = field(default_factory=Catalogue)
    authorizer: Authorizer = field(default_factory=Authorizer)
    policies: Policies = field(default_factory=Policies)

    def __post_init__(self) -> None:
        for crd in self.store.list(CRDS).entries:
            self._follow_crd(crd.key, crd.object)
        for resource, kind in _RBAC_KINDS.items():
            for entry in self.store.list(resource).entries:
                self.authorizer.changed(kind, entry.key.namespace, entry.key.name, entry.object)
        for resource in (POLICIES, BINDINGS):
            for entry in self.store.list(resource).entries:
                self.policies.changed(resource, entry.key.name, entry.object)
        self.store.on_commit(self._follow)

    def _follow(self, change: Change) -> None:
        key = change.entry.key
        gone = change.type is EventType.DELETED
        if key.resource == CRDS:
            self._follow_crd(key, None if gone else change.entry.object)
        elif kind := _RBAC_KINDS.get(key.resource):
            self.authorizer.changed(kind, key.namespace, key.name, None if gone else change.entry.object)
        elif key.resource in (POLICIES, BINDINGS):
            self.policies.changed(key.resource, key.name, None if gone else change.entry.object)

    def _follow_crd(self, key: Key, crd: JSONObject | None) -> None:
        if crd is None:
            self.catalogue.withdraw(key.name)
        elif _is_established(crd):
            self.catalogue.serve(crd)

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"cluster {self.name}" if self.name else "the hub"

    def timestamp(self) -> str:
        """Return the present second as Kubernetes writes it."""
        return format_time(self.clock())

    def condition(self, before: Iterable[JSONObject], kind: str, status: str, reason: str, message: str) -> JSONObject:
        """Return a condition that is said now. Its time is the one that it had before if its status is."""
        old = next((condition for condition in before if condition["type"] == kind), None)
        since = old["lastTransitionTime"] if old and old["status"] == status else self.timestamp()
        return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}

    def new_uid(self) -> str:
        """Return an identity that no other object has."""
        bits = self.random.getrandbits(128) & _RANDOM_BITS | _VERSION_4
        text = f"{bits:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def generated_name(self, prefix: str) -> str:
        """Return a name as `generateName` makes it; long prefixes are cut so that the result stays valid."""
        return prefix[:58] + "".join(self.random.choice(ALPHABET) for _ in range(5))

    def namespace_object(self, name: str) -> JSONObject | None:
        """Return a namespace, as the latest write left it."""
        entry = self.store.latest(Key(NAMESPACES, "", name))
        return entry.object if entry else None


def _is_established(crd: JSONObject) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)
