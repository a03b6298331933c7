"""Service accounts, apart from the rest of the core group: whoever needs one needs no pods."""

from typing import Annotated

from echelon.api.base import APIStruct, field
from echelon.api.kinds import Kind
from echelon.api.meta import ObjectMeta
from echelon.api.printing import AGE
from echelon.api.references import LocalObjectReference, ObjectReference


class ServiceAccount(APIStruct, frozen=True, gc=False, kw_only=True):
    """An identity for programs."""

    api_version: str = "v1"
    kind: str = "ServiceAccount"
    metadata: ObjectMeta = ObjectMeta()
    secrets: Annotated[
        list[ObjectReference], field("Secrets that its pods may use.", list_map_keys=("name",), patch_merge_key="name")
    ] = []
    image_pull_secrets: Annotated[
        list[LocalObjectReference], field("Secrets for pulling images of its pods.", atomic=True)
    ] = []
    automount_service_account_token: Annotated[bool | None, field("Whether pods get a token.")] = None


SERVICE_ACCOUNT = Kind(
    "", "v1", "ServiceAccount", "serviceaccounts", ServiceAccount, short_names=("sa",), builtin=True, columns=(AGE,)
)
