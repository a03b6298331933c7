"""Which of Echelon's own fields of a policy a hub keeps.

A hub that was set up by others has upstream's definition of policies, which knows none of them: a strategy that is
written there is gone, and the policy looks like one that goes everywhere at once. Nothing may be written before that is
known.
"""

from functools import cache
from typing import Final

from echelon.api.base import JSONObject
from echelon.api.policy import POLICY, Policy
from echelon.api.schema import schema_of
from echelon.engine.kept_fields import keeps, schema_at

STRATEGY: Final = "spec.rolloutStrategy"
ROLLOUT_STATUS: Final = "status.rolloutStatus"
TRANSITION_TIME: Final = "status.rolloutLastTransitionTime"
CLUSTER_STATUS: Final = "status.status[].rolloutStatus"
CLUSTER_TRANSITION_TIME: Final = "status.status[].rolloutLastTransitionTime"
PENDING_CHANGES: Final = "status.details[].pendingChanges"
OBSERVED_GENERATION: Final = "status.observedGeneration"
CONDITIONS: Final = "status.conditions"
ROLLOUT: Final = "status.rollout"
OWN_FIELDS: Final = (
    STRATEGY,
    ROLLOUT_STATUS,
    TRANSITION_TIME,
    CLUSTER_STATUS,
    CLUSTER_TRANSITION_TIME,
    PENDING_CHANGES,
    OBSERVED_GENERATION,
    CONDITIONS,
    ROLLOUT,
)


def kept_fields(definition: JSONObject) -> frozenset[str]:
    """Return which of `OWN_FIELDS` are kept, whole, by a hub that has this CustomResourceDefinition of policies."""
    return frozenset(
        path for path in OWN_FIELDS if keeps(definition, POLICY.version, path, schema_at(_own_schema(), path))
    )


@cache
def _own_schema() -> JSONObject:
    return schema_of(Policy)
