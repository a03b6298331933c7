"""The ways by which a policy gets to clusters, read once more from bindings and policy sets."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from echelon.api.base import JSONObject

POLICY_NAME = "audit"


@dataclass(frozen=True)
class Way:
    """A binding of the policy to a placement, directly or through a policy set."""

    placement: str
    restricted: bool = False
    override: str = ""
    excluded: frozenset[str] = frozenset()


def ways_of(bindings: Iterable[JSONObject], sets: Mapping[str, JSONObject]) -> list[Way]:
    return [way for each in sorted(bindings, key=lambda one: one["metadata"]["name"]) for way in _ways_of(each, sets)]


def _ways_of(binding: JSONObject, sets: Mapping[str, JSONObject]) -> Iterable[Way]:
    placement, restricted = binding["placementRef"]["name"], binding.get("subFilter") == "restricted"
    override = binding.get("bindingOverrides", {}).get("remediationAction", "").lower()
    for subject in binding["subjects"]:
        if (subject["kind"], subject["name"]) == ("Policy", POLICY_NAME):
            yield Way(placement, restricted, override)
        elif subject["kind"] == "PolicySet" and subject["name"] in sets:
            spec = sets[subject["name"]]["spec"]
            if POLICY_NAME in spec["policies"]:
                listed = [each for each in spec.get("exclusions", []) if each["policyName"] == POLICY_NAME]
                left_out = frozenset(name for each in listed for name in each["clusterNames"])
                yield Way(placement, restricted, override, left_out)
