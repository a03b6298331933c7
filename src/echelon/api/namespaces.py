"""Namespaces, apart from the rest of the core group: whoever needs one needs no pods."""

from typing import Annotated

from echelon.api.base import APIStruct, field
from echelon.api.kinds import Column, Kind
from echelon.api.meta import ObjectMeta, PlainCondition
from echelon.api.printing import AGE


class NamespaceSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """What happens when a namespace ends."""

    finalizers: Annotated[list[str], field("What must be done before the namespace is gone.", atomic=True)] = []


class NamespaceStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """State of a namespace."""

    phase: Annotated[str, field("Active or Terminating.")] = ""
    conditions: Annotated[
        list[PlainCondition], field("What keeps it from ending.", list_map_keys=("type",), patch_merge_key="type")
    ] = []


class Namespace(APIStruct, frozen=True, gc=False, kw_only=True):
    """A scope for names."""

    api_version: str = "v1"
    kind: str = "Namespace"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[NamespaceSpec, field("What happens when it ends.")] = NamespaceSpec()
    status: Annotated[NamespaceStatus, field("Its state.")] = NamespaceStatus()


NAMESPACE = Kind(
    "",
    "v1",
    "Namespace",
    "namespaces",
    Namespace,
    namespaced=False,
    short_names=("ns",),
    status=True,
    builtin=True,
    columns=(Column("Status", ".status.phase"), AGE),
    selectable_fields=("status.phase",),
)
