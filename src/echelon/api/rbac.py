"""Roles and their bindings, from which the hub decides who may do what."""

from typing import Annotated, Any, ClassVar

import msgspec

from echelon.api.base import APIStruct, JSONObject, field
from echelon.api.kinds import Column, Kind
from echelon.api.meta import LabelSelector, ObjectMeta
from echelon.api.printing import AGE, role_of_binding, subjects


class PolicyRule(APIStruct, frozen=True, gc=False, kw_only=True):
    """What may be done to what."""

    verbs: Annotated[list[str], field("What may be done; `*` is everything.", min_items=1, atomic=True)]
    api_groups: Annotated[list[str], field("API groups; `*` is all.", atomic=True)] = []
    resources: Annotated[list[str], field("Resources; `*` is all.", atomic=True)] = []
    resource_names: Annotated[list[str], field("Objects by name; all of them if empty.", atomic=True)] = []
    non_resource_urls: Annotated[list[str], field("Paths outside of the API; only in cluster roles.", atomic=True)] = (
        msgspec.field(default_factory=list, name="nonResourceURLs")
    )


class RoleRef(APIStruct, frozen=True, gc=False, kw_only=True):
    """The role that a binding grants."""

    api_group: Annotated[str, field("API group of the role.", default="rbac.authorization.k8s.io")] = (
        "rbac.authorization.k8s.io"
    )
    kind: Annotated[str, field("Role or ClusterRole.", enum=("Role", "ClusterRole"))]
    name: Annotated[str, field("Name of the role.")]

    schema_extra: ClassVar[JSONObject] = {"x-kubernetes-map-type": "atomic"}


class Subject(APIStruct, frozen=True, gc=False, kw_only=True):
    """Who is granted something."""

    kind: Annotated[str, field("User, Group or ServiceAccount.", enum=("User", "Group", "ServiceAccount"))]
    api_group: Annotated[str, field("API group of the subject; empty for service accounts.")] = ""
    name: Annotated[str, field("Name of the subject.")]
    namespace: Annotated[str, field("Namespace of a service account.")] = ""

    schema_extra: ClassVar[JSONObject] = {"x-kubernetes-map-type": "atomic"}


class AggregationRule(APIStruct, frozen=True, gc=False, kw_only=True):
    """Roles whose rules are put together."""

    cluster_role_selectors: Annotated[
        list[LabelSelector], field("Cluster roles to take, one selector suffices.", atomic=True)
    ] = []


class Role(APIStruct, frozen=True, gc=False, kw_only=True):
    """What may be done in a namespace."""

    api_version: str = "rbac.authorization.k8s.io/v1"
    kind: str = "Role"
    metadata: ObjectMeta = ObjectMeta()
    rules: Annotated[list[PolicyRule] | None, field("The rules.", atomic=True, nullable=True)] = []


class ClusterRole(APIStruct, frozen=True, gc=False, kw_only=True):
    """What may be done everywhere."""

    api_version: str = "rbac.authorization.k8s.io/v1"
    kind: str = "ClusterRole"
    metadata: ObjectMeta = ObjectMeta()
    rules: Annotated[list[PolicyRule] | None, field("The rules.", atomic=True, nullable=True)] = []
    aggregation_rule: Annotated[AggregationRule | None, field("Roles from which the rules are filled.")] = None


class RoleBinding(APIStruct, frozen=True, gc=False, kw_only=True):
    """Grants a role in a namespace."""

    api_version: str = "rbac.authorization.k8s.io/v1"
    kind: str = "RoleBinding"
    metadata: ObjectMeta = ObjectMeta()
    subjects: Annotated[list[Subject], field("Who gets it.", atomic=True)] = []
    role_ref: Annotated[RoleRef, field("The role; never changes.")]


class ClusterRoleBinding(APIStruct, frozen=True, gc=False, kw_only=True):
    """Grants a cluster role everywhere."""

    api_version: str = "rbac.authorization.k8s.io/v1"
    kind: str = "ClusterRoleBinding"
    metadata: ObjectMeta = ObjectMeta()
    subjects: Annotated[list[Subject], field("Who gets it.", atomic=True)] = []
    role_ref: Annotated[RoleRef, field("The role; never changes.")]


GROUP = "rbac.authorization.k8s.io"
# Roles show when they were made, not how old they are.
_CREATED = Column("Created At", ".metadata.creationTimestamp")
_BINDING = (
    Column("Role", cell=role_of_binding),
    AGE,
    Column("Users", priority=1, cell=subjects("User")),
    Column("Groups", priority=1, cell=subjects("Group")),
    Column("ServiceAccounts", priority=1, cell=subjects("ServiceAccount")),
)

ROLE = Kind(GROUP, "v1", "Role", "roles", Role, builtin=True, columns=(_CREATED,))
CLUSTER_ROLE = Kind(
    GROUP, "v1", "ClusterRole", "clusterroles", ClusterRole, namespaced=False, builtin=True, columns=(_CREATED,)
)
ROLE_BINDING = Kind(GROUP, "v1", "RoleBinding", "rolebindings", RoleBinding, builtin=True, columns=_BINDING)
CLUSTER_ROLE_BINDING = Kind(
    GROUP,
    "v1",
    "ClusterRoleBinding",
    "clusterrolebindings",
    ClusterRoleBinding,
    namespaced=False,
    builtin=True,
    columns=_BINDING,
)

KINDS: tuple[Kind[Any], ...] = (ROLE, CLUSTER_ROLE, ROLE_BINDING, CLUSTER_ROLE_BINDING)
