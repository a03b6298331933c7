"""Classes of priority: which pods go first, and which have to make room."""

from typing import Annotated, Any

from echelon.api.base import APIStruct, field
from echelon.api.kinds import Column, Kind
from echelon.api.meta import ObjectMeta
from echelon.api.printing import AGE, at, count


class PriorityClass(APIStruct, frozen=True, gc=False, kw_only=True):
    """How important pods are that name it."""

    api_version: str = "scheduling.k8s.io/v1"
    kind: str = "PriorityClass"
    metadata: ObjectMeta = ObjectMeta()
    value: Annotated[int, field("The priority; higher ones go first.", format="int32")]
    global_default: Annotated[bool, field("Whether it is that of pods which name none.")] = False
    description: Annotated[str, field("For which pods it is meant.")] = ""
    preemption_policy: Annotated[
        str | None, field("PreemptLowerPriority or Never.", default="PreemptLowerPriority")
    ] = "PreemptLowerPriority"


PRIORITY_CLASS = Kind(
    "scheduling.k8s.io",
    "v1",
    "PriorityClass",
    "priorityclasses",
    PriorityClass,
    namespaced=False,
    short_names=("pc",),
    builtin=True,
    columns=(
        Column("Value", type="integer", cell=count("value")),
        Column("Global-Default", type="boolean", cell=lambda obj: bool(at(obj, "globalDefault"))),
        AGE,
        Column("PreemptionPolicy", ".preemptionPolicy"),
    ),
)

KINDS: tuple[Kind[Any], ...] = (PRIORITY_CLASS,)
