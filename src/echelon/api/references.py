"""What objects say of others, and events of who reported them."""

from typing import Annotated, ClassVar

from echelon.api.base import APIStruct, JSONObject, field


class ObjectReference(APIStruct, frozen=True, gc=False, kw_only=True):
    """Points at an object, or a part of one."""

    kind: Annotated[str, field("Kind of the object.")] = ""
    namespace: Annotated[str, field("Namespace of the object.")] = ""
    name: Annotated[str, field("Name of the object.")] = ""
    uid: Annotated[str, field("UID of the object.")] = ""
    api_version: Annotated[str, field("API version of the object.")] = ""
    resource_version: Annotated[str, field("Version of the object.")] = ""
    field_path: Annotated[str, field("Part of the object.")] = ""

    schema_extra: ClassVar[JSONObject] = {"x-kubernetes-map-type": "atomic"}


class LocalObjectReference(APIStruct, frozen=True, gc=False, kw_only=True):
    """An object in the same namespace."""

    name: Annotated[str, field("Name of the object.", default="")] = ""

    schema_extra: ClassVar[JSONObject] = {"x-kubernetes-map-type": "atomic"}


class EventSource(APIStruct, frozen=True, gc=False, kw_only=True):
    """Who reported an event."""

    component: Annotated[str, field("Component that reported.")] = ""
    host: Annotated[str, field("Node that it ran on.")] = ""
