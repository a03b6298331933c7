"""The informers that sets are planned from.

Grove's own kinds are cached whole. Of everything else, such as pods, a cluster has far more than belongs to sets, so
these are selected by the label that all children carry. Whoever takes that label from a pod lets it go, as a ReplicaSet
lets go of a pod whose labels it does not select any more.

Secrets are cached without what they hold: nobody here needs it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from echelon.api.autoscaling import HORIZONTAL_POD_AUTOSCALER
from echelon.api.base import APIStruct, JSONObject
from echelon.api.controller_revisions import CONTROLLER_REVISION
from echelon.api.core import POD, SECRET, SERVICE
from echelon.api.grove import POD_CLIQUE, POD_CLIQUE_SCALING_GROUP, POD_CLIQUE_SET
from echelon.api.kinds import Kind
from echelon.api.meta import ObjectMeta
from echelon.api.podgangs import POD_GANG
from echelon.api.rbac import ROLE, ROLE_BINDING
from echelon.api.service_accounts import SERVICE_ACCOUNT
from echelon.controllers.context import ControllerContext
from echelon.controllers.pod_clique.ownership import owner_uid
from echelon.engine.pod_clique.names import MANAGED_BY, OPERATOR
from echelon.kube.informer import Informer

SELECTOR = f"{MANAGED_BY}={OPERATOR}"
_BESIDE: tuple[Kind[Any], ...] = (SERVICE, SERVICE_ACCOUNT, ROLE, ROLE_BINDING, HORIZONTAL_POD_AUTOSCALER)
KINDS: tuple[Kind[Any], ...] = (
    POD_CLIQUE_SET,
    POD_CLIQUE,
    POD_CLIQUE_SCALING_GROUP,
    POD_GANG,
    POD,
    SECRET,
    CONTROLLER_REVISION,
    *_BESIDE,
)


class SecretOutline(APIStruct, frozen=True, gc=False, kw_only=True):
    """A Secret without what it holds."""

    api_version: str = "v1"
    kind: str = "Secret"
    metadata: ObjectMeta = ObjectMeta()
    type: str = ""


SECRET_OUTLINE: Kind[Any] = replace(SECRET, type=SecretOutline)  # type: ignore[arg-type] # of which less is read


@dataclass(frozen=True)
class Caches:
    """Sets, and what belongs to them by the uid of its owner."""

    sets: Informer[JSONObject]
    cliques: Informer[JSONObject]
    groups: Informer[JSONObject]
    gangs: Informer[JSONObject]
    pods: Informer[JSONObject]
    secrets: Informer[SecretOutline]
    revisions: Informer[JSONObject]
    beside: Mapping[str, Informer[JSONObject]]  # Services and the like, by their kind

    @classmethod
    def of(cls, context: ControllerContext) -> "Caches":
        """Return the caches of a process."""
        owned = {"owner": owner_uid}
        return cls(
            context.informer(POD_CLIQUE_SET.untyped()),
            context.informer(POD_CLIQUE.untyped(), indexers=owned),
            context.informer(POD_CLIQUE_SCALING_GROUP.untyped(), indexers=owned),
            context.informer(POD_GANG.untyped(), indexers=owned),
            context.informer(POD.untyped(), labels=SELECTOR),
            context.informer(SECRET_OUTLINE, labels=SELECTOR, indexers={"owner": _secret_owner}),
            context.informer(CONTROLLER_REVISION.untyped(), labels=SELECTOR, indexers=owned),
            {kind.kind: context.informer(kind.untyped(), labels=SELECTOR, indexers=owned) for kind in _BESIDE},
        )

    def children(self, kind: Kind[Any], uid: str) -> dict[str, JSONObject]:
        """Return what an object owns of a kind, by name."""
        return _named(self.beside[kind.kind].by_index("owner", uid))

    def secrets_of(self, uid: str) -> dict[str, JSONObject]:
        """Return the Secrets that an object owns, without what they hold."""
        return {each.metadata.name: msgspec.to_builtins(each) for each in self.secrets.by_index("owner", uid)}


def _named(objects: list[JSONObject]) -> dict[str, JSONObject]:
    return {each["metadata"]["name"]: each for each in objects}


def _secret_owner(secret: SecretOutline) -> list[str]:
    return [each.uid for each in secret.metadata.owner_references if each.controller]
