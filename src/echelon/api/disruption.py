"""How many pods may be taken at a time by those who ask first."""

from typing import Annotated, Any

from echelon.api.base import APIStruct, IntOrString, JSONObject, field
from echelon.api.kinds import Column, Kind
from echelon.api.meta import Condition, LabelSelector, ObjectMeta
from echelon.api.printing import AGE, at, count


class PodDisruptionBudgetSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """How many pods may be taken at a time."""

    min_available: Annotated[IntOrString | None, field("Pods that stay, as a number or a percentage.")] = None
    selector: Annotated[LabelSelector | None, field("Pods that it is about.", patch_strategy="replace")] = None
    max_unavailable: Annotated[IntOrString | None, field("Pods that may be missing, likewise.")] = None
    unhealthy_pod_eviction_policy: Annotated[
        str | None, field("When unhealthy pods may be taken: IfHealthyBudget or AlwaysAllow.")
    ] = None


class PodDisruptionBudgetStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """State of a budget."""

    observed_generation: Annotated[int, field("Generation that the status was computed from.", format="int64")] = 0
    disrupted_pods: Annotated[dict[str, str], field("Pods that are being taken, and since when.")] = {}
    disruptions_allowed: Annotated[int, field("Pods that may be taken now.")] = 0
    current_healthy: Annotated[int, field("Healthy pods.")] = 0
    desired_healthy: Annotated[int, field("Healthy pods that there have to be.")] = 0
    expected_pods: Annotated[int, field("Pods that it is about.")] = 0
    conditions: Annotated[
        list[Condition], field("Aspects of its state.", list_map_keys=("type",), patch_merge_key="type")
    ] = []


class PodDisruptionBudget(APIStruct, frozen=True, gc=False, kw_only=True):
    """How many pods may be taken at a time by those who ask first."""

    api_version: str = "policy/v1"
    kind: str = "PodDisruptionBudget"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[PodDisruptionBudgetSpec, field("How many.")] = PodDisruptionBudgetSpec()
    status: Annotated[PodDisruptionBudgetStatus, field("Its state.")] = PodDisruptionBudgetStatus()


def _limit(name: str, obj: JSONObject) -> str:
    value = at(obj, "spec", name)
    return "N/A" if value is None else str(value)


POD_DISRUPTION_BUDGET = Kind(
    "policy",
    "v1",
    "PodDisruptionBudget",
    "poddisruptionbudgets",
    PodDisruptionBudget,
    short_names=("pdb",),
    status=True,
    builtin=True,
    columns=(
        Column("Min Available", cell=lambda obj: _limit("minAvailable", obj)),
        Column("Max Unavailable", cell=lambda obj: _limit("maxUnavailable", obj)),
        Column("Allowed Disruptions", type="integer", cell=count("status", "disruptionsAllowed")),
        AGE,
    ),
)

KINDS: tuple[Kind[Any], ...] = (POD_DISRUPTION_BUDGET,)
