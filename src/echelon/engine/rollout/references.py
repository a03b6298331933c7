"""References to placements: which clusters a rollout is about, in which groups, and whether that is certain.

A placement's decisions are several objects that are written one after the other, and other controllers than ours may
write them. So what is read here says not only who is selected but also whether status and decisions agree: nothing is
taken away from anybody while they do not.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from echelon.api.placement import Placement, PlacementDecision
from echelon.api.rollout import RolloutStrategy
from echelon.engine.placement.decisions import DecisionGroups, GroupKey, UnreadableIndex
from echelon.engine.placement.groups import NotAPercentage, group_size
from echelon.engine.placement.slices import INDEX_LABEL, readable_index
from echelon.engine.placement.status import SATISFIED


@dataclass(frozen=True)
class PlacementView:
    """A placement and its decisions."""

    groups: DecisionGroups
    selected: int = 0  # as its status says
    settled: bool = False  # whether status and decisions agree
    group_size: int = 0
    incomplete_groups: frozenset[GroupKey] = frozenset()  # the status says that they have more clusters
    error: str = ""  # why the decisions cannot be read
    named: frozenset[str] = frozenset()  # the groups that its spec has, with clusters or without
    selects_none: bool = False  # the user asks for no cluster
    unsatisfied: str = ""  # what its status says of why not all, or none, are selected
    left_out: str = ""  # which decisions do not count, because nobody can tell of which group they are


@dataclass(frozen=True)
class PlacementReference:
    """A reference to a placement, which may not exist."""

    name: str
    strategy: RolloutStrategy
    placement: PlacementView | None
    uncertain: bool = False  # status and decisions may be of different times, also where they agree
    ignored: str = ""  # which decisions do not count although they have its label
    note: str = ""  # what else somebody should know of its decisions
    path: str = "spec"  # the field that has its strategy


def believable(
    placement: Placement, decisions: Iterable[PlacementDecision]
) -> tuple[tuple[PlacementDecision, ...], bool]:
    """Return the decisions with a placement's label that count: those that it owns, or all if it owns none."""
    decisions = tuple(decisions)
    uid = placement.metadata.uid
    own = tuple(each for each in decisions if any(owner.uid == uid for owner in each.metadata.owner_references))
    return (own, True) if own else (decisions, False)


def read_placement(
    placement: Placement, decisions: Iterable[PlacementDecision], *, owned: bool = False
) -> PlacementView:
    """Read a placement with the decisions that are believed to be its own, because it owns them or by their label."""
    decisions, left_out = _without_strangers(placement, tuple(decisions))
    selected = placement.status.number_of_selected_clusters
    try:
        groups = DecisionGroups.from_decisions(decisions)
    except UnreadableIndex as error:
        return PlacementView(DecisionGroups({}), selected, error=str(error))
    strategy = placement.spec.decision_strategy.group_strategy
    total = max(selected, len(groups.clusters))
    try:
        size = group_size(strategy.clusters_per_decision_group, total)
    except NotAPercentage:  # the placement's own conditions tell that
        size = total
    settled = _is_settled(placement, decisions, groups, owned=owned)
    incomplete = frozenset[GroupKey]() if settled else _incomplete(placement, groups)
    if incomplete:
        groups = DecisionGroups({**dict.fromkeys(incomplete, frozenset()), **groups.groups})
    return PlacementView(
        groups,
        selected,
        settled,
        size,
        incomplete,
        named=frozenset(each.group_name for each in strategy.decision_groups),
        selects_none=placement.spec.number_of_clusters == 0,
        unsatisfied=_unsatisfied(placement),
        left_out=left_out,
    )


def _without_strangers(
    placement: Placement, decisions: tuple[PlacementDecision, ...]
) -> tuple[tuple[PlacementDecision, ...], str]:
    """Leave out decisions with a group that cannot be read and that the placement's status does not name.

    The label and even the owner of a decision are what its author wrote. The status is the placement's own word, so
    what it names is damaged, and waited for; what it does not is a stranger's, and must not stop the others.
    """
    named = {name for group in placement.status.decision_groups for name in group.decisions}
    strange = {
        name
        for each in decisions
        if not readable_index(each.metadata.labels.get(INDEX_LABEL, "0")) and (name := each.metadata.name) not in named
    }
    if not named or not strange:
        return decisions, ""
    first = min(strange)
    others = f" and {len(strange) - 1} more" if len(strange) > 1 else ""
    why = f"{placement.metadata.name}: decision {first}{others} does not count: its group is no number, and the "
    kept = tuple(each for each in decisions if each.metadata.name not in strange)
    return kept, f"{why}placement's status does not name it"


def join_placements(references: Sequence[PlacementReference], mandatory: Sequence[GroupKey] = ()) -> PlacementReference:
    """Return one reference for several that have one strategy: placement after placement, by name, there by index.

    A cluster that several placements select is where it comes first; in a mandatory group, if those of all placements
    come before the rest. If one of them cannot be read, none can: which clusters come first would be a guess.
    """
    ordered = sorted(references, key=lambda each: each.name)
    placements = [each.placement for each in ordered if each.placement is not None]
    name, strategy = "+".join(each.name for each in ordered), ordered[0].strategy
    errors = [
        f"{each.name}: {each.placement.error if each.placement is not None else 'there is no such placement'}"
        for each in ordered
        if each.placement is None or each.placement.error
    ]
    view = PlacementView(
        DecisionGroups({} if errors else _one_group_each(ordered, mandatory)),
        sum(each.selected for each in placements),
        all(each.settled for each in placements) and not errors,
        sum(each.group_size for each in placements),
        frozenset(replace(key, placement=each.name) for each in ordered for key in _incomplete_groups(each)),
        "; ".join(errors),
        frozenset().union(*(each.named for each in placements)),
        all(each.selects_none for each in placements),
        "; ".join(filter(None, (each.unsatisfied for each in placements))),
    )
    return PlacementReference(
        name,
        strategy,
        view,
        any(each.uncertain for each in ordered),
        "; ".join(filter(None, (each.ignored for each in ordered))),
        "; ".join(filter(None, (each.note for each in ordered))),
        ordered[0].path,
    )


def _one_group_each(
    references: Iterable[PlacementReference], mandatory: Sequence[GroupKey]
) -> dict[GroupKey, frozenset[str]]:
    """Return the groups of placements, in the order that these have, each cluster in the first that has it."""
    every = DecisionGroups(
        {
            replace(key, placement=each.name): clusters
            for each in references
            for key, clusters in (each.placement.groups.groups.items() if each.placement is not None else ())
        }
    )
    found, listed = dict(every.groups), set[str]()
    for key in (*sorted(every.expand(mandatory)), *sorted(every.besides(mandatory))):
        found[key] = every.groups[key] - listed
        listed |= found[key]
    return found


def _incomplete_groups(reference: PlacementReference) -> frozenset[GroupKey]:
    return reference.placement.incomplete_groups if reference.placement is not None else frozenset()


def _unsatisfied(placement: Placement) -> str:
    """Return why a placement has not selected all that it should, in its own words."""
    for each in placement.status.conditions:
        if each.type == SATISFIED and each.status == "False":
            return each.message or each.reason
    return ""


def _is_settled(
    placement: Placement, decisions: tuple[PlacementDecision, ...], groups: DecisionGroups, *, owned: bool
) -> bool:
    """Whether the decisions are what the placement says that they are: none missing, none left over, all complete."""
    status = placement.status
    listed = {each.metadata.name: len(each.status.decisions) if each.status else 0 for each in decisions}
    named = [name for group in status.decision_groups for name in group.decisions]
    if not named and not owned:  # whoever writes such decisions may say nothing of them elsewhere
        return bool(decisions) and status.number_of_selected_clusters in (0, len(groups.clusters))
    # Without any group nobody has decided yet: an empty decision is a group, too.
    if not named or sorted(named) != sorted(listed) or len(groups.clusters) != status.number_of_selected_clusters:
        return False
    return all(sum(listed[name] for name in each.decisions) == each.cluster_count for each in status.decision_groups)


def _incomplete(placement: Placement, groups: DecisionGroups) -> frozenset[GroupKey]:
    """Return the groups of which clusters are in no decision, or in one of another group, at the moment."""
    there: dict[int, GroupKey] = {}
    sizes: dict[int, int] = {}
    for key, clusters in groups.groups.items():
        there[key.index] = key
        sizes[key.index] = sizes.get(key.index, 0) + len(clusters)
    return frozenset(
        there.get(each.decision_group_index, GroupKey(each.decision_group_index, each.decision_group_name))
        for each in placement.status.decision_groups
        if sizes.get(each.decision_group_index, 0) < each.cluster_count
    )
