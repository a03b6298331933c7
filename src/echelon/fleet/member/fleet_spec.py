"""A fleet in one line: "50 clusters; regions eu/us/ap; canary label on 2; image *:bad* fails on 1".

Clauses are separated by semicolons. Of two that say how something is, the later one holds; troubles add up. Which
clusters a clause like "on 2" means is drawn from the seed, so one line and one seed are always the same fleet.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from math import inf
from random import Random

from echelon.fleet.member.profile import NodeShape, Profile
from echelon.fleet.member.trouble import (
    CrashLoop,
    DiskFull,
    Flapping,
    ImageError,
    NodeDown,
    Offline,
    Script,
    SlowApi,
    SlowStart,
    Trouble,
)

DEFAULT = "50 clusters; regions eu/us/ap; environments staging/production; versions v1.36.1/v1.35.4; canary label on 2"
CANARY_LABEL = "canary"


class BadFleetSpec(ValueError):
    """A line that describes no fleet; the message says which clause is not understood."""


@dataclass(frozen=True)
class _Plan:
    """What the clauses amount to. `None` for a number of clusters means all."""

    clusters: int = 3
    regions: tuple[str, ...] = ("eu",)
    environments: tuple[str, ...] = ("production",)
    versions: tuple[str, ...] = ("v1.36.1",)
    nodes: int = 1
    resources: tuple[tuple[str, str], ...] = ()
    canaries: int = 0
    troubles: tuple[tuple[int | None, Trouble], ...] = field(default_factory=tuple)


_ON = r"(?: on (?P<on>\d+|all))?"
_TIME = r"(?: from (?P<begin>[\d.]+)(?: to (?P<end>[\d.]+))?)?"


def _names(field_name: str) -> Callable[[_Plan, re.Match[str]], _Plan]:
    def change(plan: _Plan, found: re.Match[str]) -> _Plan:
        return replace(plan, **{field_name: tuple(found["names"].split("/"))})  # type: ignore[arg-type]

    return change


def _trouble(make: Callable[[re.Match[str], float, float], Trouble]) -> Callable[[_Plan, re.Match[str]], _Plan]:
    def change(plan: _Plan, found: re.Match[str]) -> _Plan:
        begin, end = float(found["begin"] or 0), float(found["end"] or inf)
        on = found["on"] or "1"
        count = None if on == "all" else int(on)
        return replace(plan, troubles=(*plan.troubles, (count, make(found, begin, end))))

    return change


_LIST = r"(?P<names>[\w.-]+(?:/[\w.-]+)*)"


@dataclass(frozen=True)
class Clause:
    """A part of the line: how it is written, and what it means."""

    form: str
    meaning: str
    pattern: str
    change: Callable[[_Plan, re.Match[str]], _Plan]

    @property
    def is_trouble(self) -> bool:
        """Whether it may say on which clusters, and from when to when."""
        return self.pattern.endswith(_TIME)


CLAUSES = (
    Clause(
        "N clusters", "so many of them", r"(?P<n>\d+) clusters?", lambda plan, m: replace(plan, clusters=int(m["n"]))
    ),
    Clause("regions A/B/C", "label region, and names: a-1, b-1, c-1, a-2", rf"regions? {_LIST}", _names("regions")),
    Clause("environments A/B", "label environment", rf"environments? {_LIST}", _names("environments")),
    Clause("versions A/B", "versions of Kubernetes", rf"versions? {_LIST}", _names("versions")),
    Clause(
        "nodes N",
        "so many nodes in each cluster",
        r"nodes (?P<n>\d+)",
        lambda plan, m: replace(plan, nodes=int(m["n"])),
    ),
    Clause(
        "resource NAME N",
        "so much of it on each node, such as nvidia.com/gpu",
        r"resource (?P<name>[\w.-]+/[\w.-]+) (?P<n>\d+)",
        lambda plan, m: replace(plan, resources=(*plan.resources, (m["name"], m["n"]))),
    ),
    Clause(
        "canary label on N",
        "label canary=true on the first N clusters",
        r"canary(?: label)? on (?P<n>\d+)",
        lambda plan, m: replace(plan, canaries=int(m["n"])),
    ),
    Clause(
        "image PATTERN fails",
        "such images cannot be pulled",
        rf"image (?P<image>\S+) fails{_ON}{_TIME}",
        _trouble(lambda m, b, e: ImageError(b, e, m["image"])),
    ),
    Clause(
        "image PATTERN crashes",
        "such containers end with an error, again and again",
        rf"image (?P<image>\S+) crashes{_ON}{_TIME}",
        _trouble(lambda m, b, e: CrashLoop(b, e, m["image"])),
    ),
    Clause(
        "slow starts",
        "pods take ten times as long",
        rf"slow starts{_ON}{_TIME}",
        _trouble(lambda _, b, e: SlowStart(b, e)),
    ),
    Clause(
        "slow api",
        "requests take two seconds",
        rf"slow api{_ON}{_TIME}",
        _trouble(lambda _, b, e: SlowApi(b, e)),
    ),
    Clause(
        "flapping",
        "pods are ready and not ready in turn",
        rf"flapping{_ON}{_TIME}",
        _trouble(lambda _, b, e: Flapping(b, e)),
    ),
    Clause(
        "offline",
        "nobody reaches the cluster",
        rf"offline{_ON}{_TIME}",
        _trouble(lambda _, b, e: Offline(b, e)),
    ),
    Clause(
        "node PATTERN down",
        "such nodes are not heard of",
        rf"nodes? (?P<node>\S+) down{_ON}{_TIME}",
        _trouble(lambda m, b, e: NodeDown(b, e, m["node"])),
    ),
    Clause(
        "full disks",
        "pods are evicted and no others come",
        rf"full disks?{_ON}{_TIME}",
        _trouble(lambda _, b, e: DiskFull(b, e)),
    ),
    Clause(
        "no troubles",
        "none of the troubles that are named before it",
        r"no troubles?",
        lambda plan, _: replace(plan, troubles=()),
    ),
)


def profiles(spec: str = DEFAULT, seed: int = 0) -> list[Profile]:
    """Return the members of a fleet; raises `BadFleetSpec`."""
    plan = _Plan()
    for clause in (part.strip() for part in spec.split(";")):
        if clause:
            plan = _read(plan, clause)
    random = Random(f"fleet {seed}")  # noqa: S311 - repeatable on purpose
    made = [_profile(plan, number, seed) for number in range(plan.clusters)]
    canaries = set(range(min(plan.canaries, plan.clusters)))
    made = [_labelled(each) if n in canaries else each for n, each in enumerate(made)]
    others = [n for n in range(plan.clusters) if n not in canaries] or list(canaries)
    for count, trouble in plan.troubles:
        chosen: Iterable[int] = range(plan.clusters)
        if count is not None:
            # Different troubles meet different clusters, as long as there are enough of them.
            free = [n for n in others if not made[n].script.troubles]
            chosen = random.sample(free if len(free) >= count else others, min(count, len(others)))
        for n in chosen:
            script = Script((*made[n].script.troubles, trouble))
            made[n] = replace(made[n], script=script)
    return made


def _read(plan: _Plan, clause: str) -> _Plan:
    for each in CLAUSES:
        if found := re.fullmatch(each.pattern, clause, re.IGNORECASE):
            return each.change(plan, found)
    raise BadFleetSpec(
        f'"{clause}" describes nothing of a fleet; try "50 clusters", "regions eu/us", "canary label on 2", '
        '"image *:bad* fails on 1", "slow starts on 2" or "offline on 1 from 60 to 300"'
    )


def _profile(plan: _Plan, number: int, seed: int) -> Profile:
    regions = plan.regions
    region = regions[number % len(regions)]
    width = len(str(-(-plan.clusters // len(regions))))
    turn = number // len(regions)
    return Profile(
        name=f"{region}-{turn + 1:0{width}d}",
        region=region,
        environment=plan.environments[turn % len(plan.environments)],
        version=plan.versions[turn % len(plan.versions)],
        nodes=(NodeShape(resources=dict(plan.resources)),) * plan.nodes,
        seed=seed,
    )


def _labelled(profile: Profile) -> Profile:
    return replace(profile, labels={**profile.labels, CANARY_LABEL: "true"})
