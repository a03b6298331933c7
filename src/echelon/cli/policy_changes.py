"""What enforcing a policy would change on the clusters that still wait for their turn, as their agents report it.

Agents look before they touch: while a cluster is held, its replica says which objects would be created, changed and
deleted. A fleet of a thousand clusters differs in a few ways, so clusters that would change in the same way are told
together. What is not known yet is never taken for nothing.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from echelon.api.configuration_policy import CONFIGURATION_POLICY
from echelon.api.policy import PendingChange, TemplateDetails
from echelon.engine.policy.replica import Replica
from echelon.engine.policy.strategy import strategy_of
from echelon.engine.policy.subject import is_waiting
from echelon.rollouts.policies import details_of, kinds_of_templates, newest_message
from echelon.rollouts.policy_reading import PolicyReading

MOST_LISTED = 20  # changes of a template that a status has room for
_MORE = "more changes are pending than are listed"  # what a template's report says beside a list that was cut


@dataclass(frozen=True)
class TemplateChange:
    """What enforcing a template would do to an object."""

    template: str
    change: PendingChange

    @property
    def title(self) -> str:
        """The object, as people call it."""
        return f"{self.change.kind} {'/'.join(filter(None, (self.change.namespace, self.change.name)))}"


@dataclass(frozen=True)
class Alike:
    """Clusters on which the same would change."""

    clusters: tuple[str, ...]
    changes: tuple[TemplateChange, ...]
    cut: tuple[str, ...] = ()  # templates that would change more than they list


@dataclass(frozen=True)
class Preview:
    """What enforcing a policy would change."""

    alike: tuple[Alike, ...] = ()  # most clusters first
    unchanged: tuple[str, ...] = ()  # clusters that are held, and on which nothing would change
    violating: tuple[str, ...] = ()  # those of them that violate the policy, and that enforcing would not mend
    unknown: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # clusters, by why nothing is known of them
    enforced: tuple[str, ...] = ()  # clusters that are held no more

    @property
    def changes_something(self) -> bool:
        """Whether it is known that something would change."""
        return bool(self.alike)

    @property
    def is_certain(self) -> bool:
        """Whether all that would change is known."""
        return not self.unknown


def preview_of(reading: PolicyReading, only: Collection[str] = ()) -> Preview:
    """Return what enforcing a policy would change, on some clusters or on all of them."""
    view, in_turn = reading.view, strategy_of(reading.view).in_turn
    alike: dict[tuple[tuple[TemplateChange, ...], tuple[str, ...]], list[str]] = {}
    unknown: dict[str, list[str]] = {}
    unchanged, violating, enforced = list[str](), list[str](), list[str]()
    for cluster, replica in sorted(view.replicas.items()):
        if only and cluster not in only:
            continue
        if not in_turn or replica.digest == view.content.revision:
            enforced.append(cluster)
        elif why := _unknown(reading, replica):
            unknown.setdefault(why, []).append(cluster)
        elif changes := tuple(_changes(reading, cluster)):
            alike.setdefault((changes, _cut(reading, cluster)), []).append(cluster)
        else:
            unchanged.append(cluster)
            violating += [cluster] if replica.compliant == "NonCompliant" else []
    listed = [Alike(tuple(clusters), *what) for what, clusters in alike.items()]
    listed.sort(key=lambda each: (-len(each.clusters), each.clusters))
    told = {why: tuple(clusters) for why, clusters in unknown.items()}
    return Preview(tuple(listed), tuple(unchanged), tuple(violating), told, tuple(enforced))


def _unknown(reading: PolicyReading, replica: Replica) -> str:
    """Return why nobody knows what would change on a cluster that is not enforced; nothing if it is known."""
    if not is_waiting(replica, reading.view.content):
        return "yet to get the present policy to look at"
    if replica.is_of_another_agent:
        return "with an agent that does not tell what would change"
    if not reading.keeps_changes:
        return "on a hub whose definition of policies has no room for what would change"
    if replica.observed_generation != replica.generation:
        return "yet to report on the present policy"
    policy = reading.reports[replica.cluster]
    kinds = kinds_of_templates(policy)
    for name, told in details_of(policy).items():
        if told.pending_changes or told.compliant == "Compliant":
            continue
        if told.compliant != "NonCompliant":
            return f"yet to evaluate template {name}{f', which is {told.compliant}' if told.compliant else ''}"
        if kinds[name] != CONFIGURATION_POLICY.kind:
            return f"with a {kinds[name]} as template {name}, which does not say what it would change"
    return ""


def _changes(reading: PolicyReading, cluster: str) -> Iterable[TemplateChange]:
    for name, told in details_of(reading.reports[cluster]).items():
        yield from (TemplateChange(name, each) for each in told.pending_changes)


def _cut(reading: PolicyReading, cluster: str) -> tuple[str, ...]:
    return tuple(name for name, told in details_of(reading.reports[cluster]).items() if _is_cut(told))


def _is_cut(told: TemplateDetails) -> bool:
    return len(told.pending_changes) >= MOST_LISTED or (bool(told.pending_changes) and _MORE in newest_message(told))
