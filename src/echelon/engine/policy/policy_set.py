"""The status of a policy set: whether its policies are complied with on the clusters that it puts them on.

A policy may be bound to more clusters than a set binds it to, by itself or through other sets. So what a policy says of
itself is not what it is worth to a set; only the clusters of the set's own bindings count, without those that the set
excludes for this policy. Restricted bindings place nothing and add no cluster here either.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from echelon.api.base import JSONObject
from echelon.api.policy_binding import (
    PolicySetExclusionStatus,
    PolicySetPlacement,
    PolicySetSpec,
    PolicySetStatus,
)
from echelon.api.rollout import RolloutSummary
from echelon.engine.policy.raw_policy import RawPolicy

NON_COMPLIANT: Final = "NonCompliant"
PENDING: Final = "Pending"
COMPLIANT: Final = "Compliant"
_WORST_FIRST: Final = (NON_COMPLIANT, PENDING, COMPLIANT)

_ALL_REPORT = "All policies are reporting status"
_EXCLUDED = "One or more policies were excluded. For details, see status.exclusions."


@dataclass(frozen=True)
class SetBinding:
    """A binding that names the set, with what its placement has decided."""

    name: str
    placement: str = ""  # empty where there is no such placement
    placement_rule: str = ""
    clusters: frozenset[str] = frozenset()
    restricted: bool = False


@dataclass(frozen=True)
class MemberPolicy:
    """What a set has to know of a policy: the clusters by the state that the policy has there."""

    disabled: bool = False
    clusters: Mapping[str, frozenset[str]] = field(default_factory=dict)  # by state; empty where nothing is known yet
    of_the_rest: str = ""  # the state on clusters that are too many to be listed

    def state_on(self, placed: frozenset[str]) -> str:
        """Return the worst state that it has on some clusters; empty if none of them has told one."""
        for state in _WORST_FIRST:
            if not self.clusters.get(state, frozenset()).isdisjoint(placed):
                return state
        return self.of_the_rest if placed else ""

    def is_on(self, clusters: frozenset[str]) -> bool:
        """Whether one of these clusters has it."""
        return any(not listed.isdisjoint(clusters) for listed in self.clusters.values())


def read_policy(policy: RawPolicy) -> MemberPolicy:
    """Read a policy, in time that grows with its clusters: read it once for each state of it."""
    clusters: dict[str, set[str]] = {}
    for each in policy.status.status:
        clusters.setdefault(each.compliant, set()).add(each.clustername)
    # Where the list was cut, those are left out that are done; they are worse than the policy on none.
    was_cut = _total(policy.status.rollout) > len(policy.status.status)
    rest = COMPLIANT if was_cut and policy.status.compliant == COMPLIANT else ""
    disabled = bool(policy.spec.get("disabled"))
    return MemberPolicy(disabled, {state: frozenset(names) for state, names in clusters.items()}, rest)


def _total(rollout: RolloutSummary | None) -> int:
    if rollout is None:
        return 0
    counts = (rollout.to_apply, rollout.progressing, rollout.succeeded, rollout.failed, rollout.timed_out)
    return sum(counts) + rollout.skipped


def policy_set_status(
    spec: PolicySetSpec, bindings: Sequence[SetBinding], policies: Mapping[str, MemberPolicy]
) -> PolicySetStatus:
    """Return the status of a set, given its bindings and those of its policies that exist. An empty set has none."""
    if not spec.policies:
        return PolicySetStatus()
    placed = frozenset[str]().union(*(each.clusters for each in bindings if not each.restricted))
    excluded = _excluded(spec, placed)
    states: dict[str, list[str]] = {}
    for name in dict.fromkeys(spec.policies):
        member = policies.get(name)
        states.setdefault(_standing(member, placed, excluded.get(name, frozenset())), []).append(name)
    return PolicySetStatus(
        compliant=_compliance(states),
        status_message=_message(states, exclusions=bool(excluded)),
        placement=_placement(bindings, policies),
        exclusions=[
            PolicySetExclusionStatus(policy_name=name, clusters=sorted(clusters)) for name, clusters in excluded.items()
        ],
    )


# How a policy stands besides the states that it can report.
_DELETED, _DISABLED, _UNKNOWN, _LEFT_OUT = "deleted", "disabled", "unknown", "left out"


def _standing(member: MemberPolicy | None, placed: frozenset[str], excluded: frozenset[str]) -> str:
    if member is None:
        return _DELETED
    if member.disabled:
        return _DISABLED
    counting = placed - excluded if excluded else placed
    if excluded and not counting:
        return _LEFT_OUT  # nobody will ever report it
    return member.state_on(counting) or _UNKNOWN


def _excluded(spec: PolicySetSpec, placed: frozenset[str]) -> dict[str, frozenset[str]]:
    """Return the clusters that were really left out, by policy. Several entries for one policy add up."""
    found: dict[str, frozenset[str]] = {}
    for each in spec.exclusions:
        if each.policy_name in spec.policies and (clusters := placed.intersection(each.cluster_names)):
            found[each.policy_name] = found.get(each.policy_name, frozenset()) | clusters
    return found


def _compliance(states: Mapping[str, object]) -> str:
    """Return the worst state, once every policy that counts has one."""
    return "" if _UNKNOWN in states else next((state for state in _WORST_FIRST if state in states), "")


def _message(states: Mapping[str, Sequence[str]], *, exclusions: bool) -> str:
    parts = list(_parts(states)) or [_ALL_REPORT]
    return "; ".join([*parts, _EXCLUDED] if exclusions else parts)


def _parts(states: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for standing, words in (
        (PENDING, "Policies awaiting pending dependencies"),
        (_DISABLED, "Disabled policies"),
        (_UNKNOWN, "No status provided while awaiting policy status"),
        (_DELETED, "Deleted policies"),
    ):
        if names := states.get(standing):
            yield f"{words}: {', '.join(names)}"


def _placement(bindings: Sequence[SetBinding], policies: Mapping[str, MemberPolicy]) -> list[PolicySetPlacement]:
    """Return how the set gets to clusters, in the same order always.

    A restricted binding is a way only where it changes something: on a cluster that has one of the policies.
    """
    ways = {
        (each.name, each.placement, each.placement_rule)
        for each in bindings
        if not each.restricted or any(policy.is_on(each.clusters) for policy in policies.values())
    }
    return [
        PolicySetPlacement(placement_binding=binding, placement=placement, placement_rule=rule)
        for binding, placement, rule in sorted(ways)
    ]


def status_body(status: PolicySetStatus) -> JSONObject:
    """Return a status as a merge patch: whatever is empty is taken out."""
    return {"status": dict.fromkeys(_FIELDS) | msgspec.to_builtins(status)}


_FIELDS = tuple(each.encode_name for each in msgspec.structs.fields(PolicySetStatus))
