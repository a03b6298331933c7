"""How a simulation looks: on a terminal, and for programs."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from echelon.api.base import JSONObject
from echelon.cli.terminal import style
from echelon.engine.forecast.limits import SpeedLimit
from echelon.engine.rollout.durations import elapsed
from echelon.fleet.rehearsal.chronicle import RolloutName
from echelon.fleet.rehearsal.lives import Fate, Life, Trial
from echelon.rollouts.kinds import ROLLOUT_KINDS

_SHOWN = 5


@dataclass(frozen=True)
class Simulation:
    """All lives of a change."""

    lives: tuple[Life, ...]
    trial: Trial
    failures: tuple[str, ...] = ()
    limits: Mapping[RolloutName, Sequence[SpeedLimit]] = field(default_factory=dict)
    clusters: int = 0

    @property
    def broken(self) -> list[Life]:
        """The lives that broke a budget, or could not be lived."""
        return [each for each in self.lives if each.violations or each.error]

    def fates(self, rollout: RolloutName) -> list[tuple[int, Fate]]:
        """Return what became of a rollout, by seed."""
        return [(life.seed, each) for life in self.lives for each in life.fates if each.rollout == rollout]


def spread(values: Sequence[float]) -> tuple[float, float, float, float]:
    """Return the least, the median, nine of ten, and the most."""
    ordered = sorted(values) or [0.0]
    last = len(ordered) - 1
    return ordered[0], ordered[last // 2], ordered[-(-last * 9 // 10)], ordered[-1]


def rollout_title(rollout: RolloutName) -> str:
    """Return what people call a rollout, as a plan does."""
    singular = next((each.kind.singular for each in ROLLOUT_KINDS if each.kind.resource == rollout.resource), "")
    return f"{singular or rollout.resource.partition('.')[0]} {rollout.namespace}/{rollout.name}"


def lines_of(found: Simulation) -> Iterator[str]:
    """Walk the lines that tell a simulation."""
    wrong = "; ".join(found.failures) or "nothing goes wrong"
    yield style(f"{len(found.lives)} lives of {found.clusters} clusters: {wrong}", bold=True)
    for rollout in found.trial.rollouts:
        yield ""
        yield style(rollout_title(rollout), bold=True)
        fates = [fate for _, fate in found.fates(rollout)]
        for ending, count in Counter(each.ending for each in fates).most_common():
            these = [each for each in fates if each.ending == ending]
            yield f"    {count:>4} {ending}"
            yield f"         after     {_times([each.seconds for each in these])}"
            yield f"         clusters  {_counts([each.clusters for each in these])}"
            yield f"         pods      {_counts([each.pods for each in these])}"
            if any(each.failed for each in these):
                yield f"         failed    {_counts([each.failed for each in these])}"
        slow = [each for each in found.limits.get(rollout, ()) if each.saved > timedelta()]
        if slow:
            told = ", ".join(f"{each.setting} ({elapsed(each.saved)})" for each in slow[:3])
            yield f"    what makes it slow: {told}"
    yield ""
    if not found.broken:
        yield style("no budget was broken", fg="green")
    for life in found.broken[:_SHOWN]:
        for text in [*life.violations[:2], *filter(None, [life.error])]:
            yield style(f"seed {life.seed}: {text}", fg="red")
    if found.broken:
        yield f"see one again: --first-seed {found.broken[0].seed} --seeds 1"


def _times(values: Sequence[float]) -> str:
    least, half, most_of, most = (elapsed(timedelta(seconds=round(each))) for each in spread(values))
    return f"least {least}, half {half}, nine of ten {most_of}, most {most}"


def _counts(values: Sequence[float]) -> str:
    least, half, most_of, most = spread(values)
    return f"least {least:g}, half {half:g}, nine of ten {most_of:g}, most {most:g}"


def document_of(found: Simulation) -> JSONObject:
    """Return a simulation for programs."""
    return {
        "apiVersion": "echelon.dev/v1alpha1",
        "kind": "Simulation",
        "clusters": found.clusters,
        "failures": list(found.failures),
        "broken": [
            {"seed": each.seed, "violations": list(each.violations), "error": each.error} for each in found.broken
        ],
        "rollouts": [_rollout(found, each) for each in found.trial.rollouts],
    }


def _rollout(found: Simulation, rollout: RolloutName) -> JSONObject:
    fates = found.fates(rollout)
    names = ("least", "half", "nineOfTen", "most")
    return {
        "resource": rollout.resource,
        "namespace": rollout.namespace,
        "name": rollout.name,
        "endings": dict(Counter(each.ending for _, each in fates)),
        "seconds": dict(zip(names, spread([each.seconds for _, each in fates]), strict=True)),
        "clustersReached": dict(zip(names, spread([each.clusters for _, each in fates]), strict=True)),
        "podsReached": dict(zip(names, spread([each.pods for _, each in fates]), strict=True)),
        "speedLimits": [
            {"setting": each.setting, "savedSeconds": each.saved.total_seconds()}
            for each in found.limits.get(rollout, ())
        ],
        "lives": [
            {
                "seed": seed,
                "ending": each.ending,
                "seconds": each.seconds,
                "clusters": each.clusters,
                "pods": each.pods,
                "failed": each.failed,
            }
            for seed, each in fates
        ],
    }
