"""How a plan looks on a terminal of eighty columns."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta

import yaml

from echelon.api.base import JSONObject
from echelon.api.grove import POD_CLIQUE_SET
from echelon.cli.change_admission import Changed
from echelon.cli.plan_making import ChangePlan
from echelon.cli.plan_rollouts import ContentChange, RolloutPlan
from echelon.cli.terminal import style
from echelon.engine.forecast.difference import difference
from echelon.engine.forecast.membership import MembershipChange
from echelon.engine.forecast.model import Ending, Pods, Wave
from echelon.engine.forecast.obstacles import Obstacle
from echelon.engine.forecast.placements import PlacementForecast
from echelon.engine.placement.decisions import GroupKey
from echelon.engine.rollout.durations import elapsed

WIDTH = 80
_MOST_WAVES = 12
_MOST_LINES = 40
_NAMES = 6


def lines_of(plan: ChangePlan, *, everything: bool = False) -> Iterator[str]:
    """Walk the lines that tell a plan; with `everything` no list and no difference is cut short."""
    yield style(_summary(plan), bold=True)
    for note in plan.notes:
        yield from _wrapped(note, "  ! ")
    for refused in plan.refused:
        yield ""
        yield style(f"x {refused.document.title} is refused", fg="red", bold=True)
        yield from _wrapped(str(refused.refusal), "    ")
    for placement in plan.placements:
        if placement.membership or _is_asked(placement, plan.changed):
            yield ""
            yield from _placement(placement, everything=everything)
    for rollout in plan.rollouts:
        yield ""
        yield from _rollout(rollout, everything=everything)
    shown = {(each.kind.resource, each.namespace, each.name) for each in plan.rollouts}
    rest = [each for each in plan.changed if each.differs and (each.kind.resource, *each.key) not in shown]
    rest = [each for each in rest if not any(_is_asked(found, [each]) for found in plan.placements)]
    if rest:
        yield ""
        yield "also written"
        for each in rest:
            yield f"  {'+' if each.is_new else '~'} {each.document.title}"
    for unknown in plan.unknown:
        yield from _wrapped(f"{unknown.title} is of a kind that is not known here, and is left to the hub", "  ? ")


def _summary(plan: ChangePlan) -> str:
    moved = [each.forecast for each in plan.rollouts if each.differs]
    getting = {cluster for each in moved for cluster in each.starting}
    losing = {cluster for each in moved for cluster in (*each.removed, *each.held)}
    parts = [_count(sum(each.differs for each in plan.changed), "object changes", "objects change")]
    parts.append(_count(len(moved), "rollout moves", "rollouts move"))
    if getting:
        parts.append(_count(len(getting), "cluster gets something", "clusters get something"))
    if losing:
        parts.append(_count(len(losing), "cluster loses something", "clusters lose something"))
    if plan.refused:
        parts.append(f"{len(plan.refused)} refused")
    return "; ".join(parts) if plan.differs or plan.refused else "nothing changes"


def _is_asked(found: PlacementForecast, changed: Iterable[Changed]) -> bool:
    meta = found.placement.metadata
    return any(
        (each.kind.kind, *each.key) == ("Placement", meta.namespace, meta.name) for each in changed if each.differs
    )


def _placement(found: PlacementForecast, *, everything: bool) -> Iterator[str]:
    meta, change = found.placement.metadata, found.membership
    sign = "~" if found.before.groups else "+"
    groups = len(found.after.groups)
    yield style(f"{sign} placement {meta.namespace}/{meta.name}", bold=True) + (
        f": {_count(len(found.after.clusters), 'cluster')} in {_count(groups, 'group')}"
    )
    if not change:
        yield "    the same clusters in the same groups"
    yield from membership(change, everything=everything)
    for each in found.placement.status.conditions:
        if (each.type, each.status) in (("PlacementSatisfied", "False"), ("PlacementMisconfigured", "True")):
            yield from _wrapped(each.message or each.reason, "    ! ")


def membership(change: MembershipChange, *, everything: bool = False) -> Iterator[str]:
    """Walk the lines that tell who comes, goes and moves."""
    for group in sorted(set(change.coming.values())):
        names = [name for name, where in change.coming.items() if where == group]
        yield from _members(f"    + {len(names):>4} come to {title(group)}: ", names, everything=everything)
    for move in dict.fromkeys((each.before, each.after) for each in change.moving):
        names = [each.cluster for each in change.moving if (each.before, each.after) == move]
        head = f"    ~ {len(names):>4} move from {title(move[0])} to {title(move[1])}: "
        yield from _members(head, names, everything=everything)
    for group in sorted(set(change.going.values())):
        names = [name for name, where in change.going.items() if where == group]
        head = f"    - {len(names):>4} leave {title(group)}: "
        yield from (style(line, fg="red") for line in _members(head, names, everything=everything))


def _rollout(plan: RolloutPlan, *, everything: bool) -> Iterator[str]:
    foreseen, before = plan.forecast, plan.before
    sign = "+" if before is None else "~" if plan.differs else "="
    revision = f" {before.revision} -> {foreseen.revision}" if before is not None else f" {foreseen.revision}"
    if before is not None and before.revision == foreseen.revision:
        revision = f" {foreseen.revision}, as it is"
    yield style(f"{sign} {plan.title}", bold=True)
    if not plan.caused and foreseen.changes:
        yield "    not because of this change: it is on its way already"
    yield f"    revision{revision}"
    if plan.note:
        yield from _wrapped(plan.note, "    ! ")
    # Who comes is in a wave below.
    change = replace(plan.membership, coming={}) if foreseen.starting else plan.membership
    yield from membership(change, everything=everything)
    if foreseen.inspected:
        yield f"    first {_count(len(foreseen.inspected), 'cluster')} only look at it, before anybody is enforced"
    yield from waves(foreseen.waves, everything=everything)
    if foreseen.removed:
        head = f"    - {len(foreseen.removed):>4} lose their {plan.after.noun}: "
        yield from (style(line, fg="red") for line in _members(head, foreseen.removed, everything=everything))
    if foreseen.held:
        head = f"    - {len(foreseen.held):>4} lose their {plan.after.noun} when somebody approves of it: "
        yield from (style(line, fg="red") for line in _members(head, foreseen.held, everything=everything))
    if foreseen.pods is not None:
        yield from _pods(foreseen.pods, everything=everything)
    if foreseen.outdated:
        yield from _members(
            f"    {len(foreseen.outdated)} pods stay outdated: ", foreseen.outdated, everything=everything
        )
    yield from _wrapped(_duration(plan), "    ")
    yield from _obstacles(plan.obstacles)
    for content in plan.contents:
        yield from _content(content, foreseen.revision, everything=everything)


def _pods(pods: Pods, *, everything: bool) -> Iterator[str]:
    """Walk the lines that tell of the pods of a federated workload."""
    budgets, clusters = pods.budgets, pods.clusters
    kept = (
        f"{budgets.least_available} to {budgets.most_pods}" if budgets.surge else f"at least {budgets.least_available}"
    )
    updated, there = sum(each.updated for each in clusters), sum(each.pods for each in clusters)
    text = f"{kept} of {budgets.total} pods are there all the time; in the end {updated} of {there} have the template"
    yield from _wrapped(text, "    ")
    waiting = [each for each in clusters if each.wait]
    for each in waiting if everything else waiting[:_NAMES]:
        yield from _wrapped(f"{each.cluster}: {each.updated} of {each.pods}, {each.message}", "      ")
    if not everything and len(waiting) > _NAMES:
        yield f"      and {len(waiting) - _NAMES} more clusters that wait"


def _turns(found: Sequence[Wave], *, everything: bool) -> Iterator[str]:
    """Walk the lines that tell which replicas of a PodCliqueSet have their turn."""
    shown = found if everything or len(found) <= _MOST_WAVES else found[: _MOST_WAVES - 2]
    for number, wave in enumerate(shown, start=1):
        which = "replica" if len(wave.replicas) == 1 else "replicas"
        names = ", ".join(map(str, wave.replicas[:_NAMES])) + (" and more" if len(wave.replicas) > _NAMES else "")
        counts = f"{_count(len(wave.gone), 'pod goes', 'pods go')}, {_count(wave.made, 'comes', 'come')}"
        head = f"    wave {number:<3} {_after(wave.after):>9}  {which} {names}: {counts}"
        yield from _members(f"{head}: ", wave.gone, everything=True) if everything and wave.gone else [head]
    if left := found[len(shown) :]:
        yield f"    ... {_count(len(left), 'more wave')}, the last one {_after(left[-1].after)}"


def waves(found: Sequence[Wave], *, everything: bool = False) -> Iterator[str]:
    """Walk the lines that tell the waves."""
    yield from _turns([each for each in found if each.replicas], everything=everything)
    starting = [(number, wave) for number, wave in enumerate(found, start=1) if wave.starts]
    shown = starting if everything or len(starting) <= _MOST_WAVES else starting[: _MOST_WAVES - 2]
    for number, wave in shown:
        for group in wave.approvals:
            yield style(f"    here somebody has to approve {group}", fg="yellow")
        groups = [title(key, placement if len(wave.groups) > 1 else "") for placement, key in wave.groups]
        where = ", ".join(groups[:2]) + (f" and {len(groups) - 2} more" if len(groups) > 2 else "")
        head = f"    wave {number:<3} {_after(wave.after):>9}  {where}, {_count(len(wave.starts), 'cluster')}: "
        yield from _members(head, wave.clusters, everything=everything)
    if left := starting[len(shown) :]:
        clusters = sum(len(wave.starts) for _, wave in left)
        last = left[-1][1].after
        yield f"    ... {_count(len(left), 'more wave')}, {_count(clusters, 'cluster')}, the last one {_after(last)}"


def _duration(plan: RolloutPlan) -> str:
    foreseen = plan.forecast
    if foreseen.ending is Ending.CUT_SHORT:
        return f"{_count(len(foreseen.waiting), 'more cluster')} follow in the same way; that is not worked out here"
    if foreseen.ending is Ending.EMPTY:
        return "no cluster is to have it"
    if not foreseen.waves:
        nobody = "no pod goes or comes" if plan.kind == POD_CLIQUE_SET else "no cluster gets anything"
        return nobody + (f": {foreseen.message}" if foreseen.message else "")
    if not foreseen.starting and not any(wave.replicas for wave in foreseen.waves):
        return "nobody gets anything, and what is removed is removed at once"
    most = f"at most {elapsed(plan.longest)}" if plan.longest is not None else "with no limit"
    least = f"at least {elapsed(foreseen.ends)}" if foreseen.ends else "as long as its clusters need"
    people = ", and the time that people take to approve" if any(wave.approvals for wave in foreseen.waves) else ""
    told = f"takes {least}, {most}{people}"
    if foreseen.ending in (Ending.COMPLETE, Ending.FINISHED):
        return told
    return f"{told}; then it is {foreseen.ending}: {foreseen.message or 'clusters are waited for'}"


def _obstacles(found: Sequence[Obstacle]) -> Iterator[str]:
    now = [each for each in found if each.stops_now]
    later = [each for each in found if not each.stops_now]
    if now:
        yield style("    stops it now", fg="red")
        for each in now:
            yield from _wrapped(each.message, "      ! ")
    if later:
        yield "    could stop it"
        for each in later:
            yield from _wrapped(each.message, "      - ")


def _content(content: ContentChange, revision: str, *, everything: bool) -> Iterator[str]:
    had = f"{content.revision} -> {revision}" if content.revision else f"new: {revision}"
    yield f"    {_count(len(content.clusters), 'cluster')}, {had}" if content.clusters else f"    {had}"
    if not content.known:
        yield "      (what they have now is in no stored revision)"
        return
    lines = difference(content.before, content.after, as_yaml)
    if content.before is None:
        lines = [line for line in lines if not line.startswith("@@")]
    shown = lines if everything or len(lines) <= _MOST_LINES else lines[: _MOST_LINES - 1]
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for line in shown:
        yield "      " + (style(line, fg=colours[line[0]]) if line[:1] in colours else line)
    if len(shown) < len(lines):
        yield f"      ... {len(lines) - len(shown)} more lines; -o wide has all of them"


def as_yaml(content: JSONObject) -> str:
    """Return a content as people write it."""
    text: str = yaml.safe_dump(content, sort_keys=True, width=WIDTH, allow_unicode=True)
    return text


def title(group: GroupKey, placement: str = "") -> str:
    """Return what people call a group."""
    name = f"{group.name} ({group.index})" if group.name else f"group {group.index}"
    where = group.placement or placement
    return f"{where}/{name}" if where else name


def _members(head: str, names: Sequence[str], *, everything: bool) -> Iterator[str]:
    shown = list(names) if everything else list(names[:_NAMES])
    more = f" and {len(names) - len(shown)} more" if len(shown) < len(names) else ""
    text = f"{head}{' '.join(shown)}{more}"
    yield from textwrap.wrap(
        text, WIDTH, initial_indent="", subsequent_indent=" " * 10, break_on_hyphens=False, drop_whitespace=True
    )


def _wrapped(text: str, indent: str) -> Iterator[str]:
    yield from textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=" " * len(indent), break_on_hyphens=False
    )


def _after(time: timedelta) -> str:
    return f"after {elapsed(time)}" if time else "at once"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one}" if number == 1 else f"{number} {many or one + 's'}"
