"""Stored revisions, apart from the rest of the apps group: whoever keeps a history needs no pods."""

from typing import Annotated

from echelon.api.base import APIStruct, JSONObject, field
from echelon.api.kinds import Column, Kind
from echelon.api.meta import ObjectMeta
from echelon.api.printing import AGE, controller


class ControllerRevision(APIStruct, frozen=True, gc=False, kw_only=True):
    """A stored revision of a workload."""

    api_version: str = "apps/v1"
    kind: str = "ControllerRevision"
    metadata: ObjectMeta = ObjectMeta()
    data: Annotated[JSONObject | None, field("The state that was stored.", preserve_unknown=True)] = None
    revision: Annotated[int, field("Number of the revision.", format="int64")]


CONTROLLER_REVISION = Kind(
    "apps",
    "v1",
    "ControllerRevision",
    "controllerrevisions",
    ControllerRevision,
    builtin=True,
    columns=(Column("Controller", cell=controller), Column("Revision", ".revision", type="integer"), AGE),
)
