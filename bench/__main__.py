"""`python -m bench`: start a hub, load a fleet into it, measure, and say how that compares."""

from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import click
import uvloop

from bench import (
    align,
    gangs,
    makespan,
    placement,
    plan,
    pods,
    policies,
    report,
    rollout,
    runtime,
    simulate,
    startup,
    waves,
)
from bench.client import Client, Refused, connect
from bench.figures import MIB
from bench.phases import WATCHED_UPDATES, WATCHERS, Bench, Spent
from bench.pipeline import Stage, create_stages
from bench.processes import usage
from bench.progress import Progress
from bench.servers import HubProcess, NoServer, Server, from_kubeconfig, hub_process

Figures = dict[str, float]
WHAT = (
    "hub",
    "pipeline",
    "runtime",
    "rollout",
    "placement",
    "plan",
    "simulate",
    "align",
    "makespan",
    "pods",
    "gangs",
    "waves",
    "policies",
    "startup",
)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("what", type=click.Choice(WHAT), required=False)
@click.option("--clusters", default=10_000, show_default=True, type=click.IntRange(min=10), help="Size of the fleet.")
@click.option("--sync", type=click.Choice(["normal", "full"]), default="full", show_default=True, help="As of the hub.")
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Measure the server of its current context instead; clusters that are made there are deleted in the end.",
)
@click.option(
    "--pid", "pids", type=int, multiple=True, help="A process of that server, for CPU and memory; repeatable."
)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(
    *, what: str | None, clusters: int, sync: str, kubeconfig: Path | None, pids: tuple[int, ...], output: str
) -> None:
    """Measure the hub as its clients see it, and a create from inside, stage by stage.

    And what the runtime costs a controller, a decision a rollout, a label the placements, a round a federated workload,
    many pods their cluster, gangs of pods their set, how long changes take to reach a whole fleet, and the command line
    to start. WHAT limits it to one of these. The hub is a child process with a data directory of its own.
    """
    progress = Progress()
    figures: Figures = {}
    spent: dict[str, Spent] = {}
    ours = _Ours()
    try:
        if kubeconfig is None:
            ours.measure(what, clusters, progress)
        if what in (None, "hub"):
            if kubeconfig is None:
                with hub_process(["--sync", sync]) as process:
                    figures, spent = uvloop.run(_hub(process, clusters, progress))
            else:
                figures, spent = uvloop.run(_other(from_kubeconfig(kubeconfig, pids), clusters, progress))
    except* (NoServer, Refused) as failures:
        raise click.ClickException(_first(failures)) from failures
    finally:
        progress.end()
    if output == "json":
        click.echo(report.as_json(clusters, figures, spent, ours.stages, ours.parts()))
        return
    tables = [report.as_table(clusters, figures, spent, compare=kubeconfig is None)] if figures else []
    click.echo("\n\n".join([*tables, *ours.tables()]))


@dataclass
class _Ours:
    """What is measured in this process, or in a hub of its own."""

    stages: list[Stage] = field(default_factory=list)
    measures: list[runtime.Measure] = field(default_factory=list)
    decisions: list[rollout.Decided] = field(default_factory=list)
    growths: list[placement.Growth] = field(default_factory=list)
    plans: list[plan.Planned] = field(default_factory=list)
    simulated: list[simulate.Simulated] = field(default_factory=list)
    rounds: list[align.Aligned] = field(default_factory=list)
    makespans: list[makespan.Makespan] = field(default_factory=list)
    crowds: list[pods.Crowd] = field(default_factory=list)
    sets: list[gangs.Lap] = field(default_factory=list)
    laps: list[waves.Lap] = field(default_factory=list)
    memory: float = 0.0
    enforced: list[policies.Lap] = field(default_factory=list)
    starts: list[startup.Start] = field(default_factory=list)

    def measure(self, what: str | None, clusters: int, progress: Progress) -> None:
        if what in (None, "pipeline"):
            progress.begin("timing the stages of a create")
            self.stages = create_stages()
        if what in (None, "runtime"):
            with hub_process(["--sync", "normal"]) as process:
                self.measures = uvloop.run(runtime.measure(process, progress))
            self.measures.append(runtime.virtual_time(progress))
        if what in (None, "rollout"):
            self.decisions = rollout.measure(progress)
        if what in (None, "placement"):
            self.growths = placement.measure(progress)
        self._foresee(what, clusters, progress)
        if what in (None, "align"):
            self.rounds = align.measure(progress, min(clusters, align.CLUSTERS))
        if what in (None, "makespan"):
            self.makespans = makespan.measure(progress)
        if what in (None, "pods"):
            self.crowds = pods.measure(progress, min(clusters, pods.PODS))
        if what in (None, "gangs"):
            self.sets = gangs.measure(progress, min(clusters, gangs.PODS))
        if what in (None, "waves"):
            self.laps, self.memory = uvloop.run(waves.measure(progress, min(clusters, waves.CLUSTERS)))
        if what in (None, "policies"):
            self.enforced = uvloop.run(policies.measure(progress, min(clusters, policies.CLUSTERS)))
        if what in (None, "startup"):
            self.starts = startup.measure(progress, min(clusters, startup.ROUNDS))

    def _foresee(self, what: str | None, clusters: int, progress: Progress) -> None:
        if what in (None, "plan"):
            self.plans = plan.measure(progress, [size for size in plan.LIMITS if size <= clusters] or [clusters])
        if what in (None, "simulate"):
            self.simulated = [simulate.measure(progress, min(clusters, simulate.CLUSTERS))]

    def parts(self) -> dict[str, dict[str, float]]:
        return {
            "runtime": {one.title: one.value for one in self.measures},
            "rollout": {one.title: one.milliseconds for one in self.decisions},
            "placement": {one.title: one.ratio for one in self.growths},
            "plan": {one.title: one.seconds for one in self.plans},
            "simulate": {one.title: one.cpu for one in self.simulated},
            "align": {one.title: one.milliseconds for one in self.rounds},
            "makespan": {one.title: one.ratio for one in self.makespans},
            "pods": {one.title: one.microseconds for one in self.crowds},
            "gangs": gangs.figures(self.sets),
            "waves": {one.title: one.seconds for one in self.laps},
            "policies": {one.title: one.value for one in self.enforced},
            "startup": {one.title: one.ratio for one in self.starts if one.ratio is not None},
        }

    def tables(self) -> list[str]:
        tables = [report.pipeline_table(self.stages)] if self.stages else []
        tables += [runtime.table(self.measures)] if self.measures else []
        tables += [rollout.table(self.decisions)] if self.decisions else []
        tables += [placement.table(self.growths)] if self.growths else []
        tables += [plan.table(self.plans)] if self.plans else []
        tables += [simulate.table(self.simulated)] if self.simulated else []
        tables += [align.table(self.rounds)] if self.rounds else []
        tables += [makespan.table(self.makespans)] if self.makespans else []
        tables += [pods.table(self.crowds)] if self.crowds else []
        tables += [gangs.table(self.sets)] if self.sets else []
        tables += [waves.table(self.laps, self.memory)] if self.laps else []
        tables += [policies.table(self.enforced)] if self.enforced else []
        tables += [startup.table(self.starts)] if self.starts else []
        return tables


def _first(failure: BaseException) -> str:
    """Return the text of the first mistake: where many requests run at once, many fail at once."""
    return _first(failure.exceptions[0]) if isinstance(failure, BaseExceptionGroup) else str(failure)


async def _hub(process: HubProcess, clusters: int, progress: Progress) -> tuple[Figures, dict[str, Spent]]:
    progress.begin("starting a hub")
    server = process.start()
    async with connect(server) as client:
        figures, spent = await _measured(server, client, clusters, progress)
    process.stop()
    figures["stored"] = process.stored_bytes / 1e6
    progress.begin("starting the hub again")
    figures["restart"] = process.start().start_seconds
    return figures, spent


async def _other(server: Server, clusters: int, progress: Progress) -> tuple[Figures, dict[str, Spent]]:
    async with connect(server) as client:
        try:
            return await _measured(server, client, clusters, progress)
        finally:
            await Bench(client, server.pids, progress).delete(clusters)


async def _measured(
    server: Server, client: Client, clusters: int, progress: Progress
) -> tuple[Figures, dict[str, Spent]]:
    bench = Bench(client, server.pids, progress)
    await bench.prepare()
    creates = await bench.create(clusters)
    lists = await bench.list()
    loaded = usage(server.pids).memory
    get_p50, get_p99 = await bench.get(clusters)
    updates = await bench.update(clusters)
    fan_out = await bench.fan_out(clusters)
    events, spent = WATCHERS * WATCHED_UPDATES, bench.spent
    figures = {
        "list_last_byte": median(timing.last_byte for timing in lists) * 1e3,
        "list_first_byte": median(timing.first_byte for timing in lists) * 1e3,
        "list_size": lists[0].size / 1e6,
        "creates": creates,
        "create_cpu": spent["create"].server_cpu / clusters * 1e6,
        "get_p50": get_p50 * 1e3,
        "get_p99": get_p99 * 1e3,
        "updates": updates,
        "update_cpu": spent["update status"].server_cpu / clusters * 1e6,
        "fan_out": fan_out,
        "events": events / fan_out,
        "fan_out_cpu": spent["watch fan-out"].server_cpu / events * 1e6,
        "memory": loaded / MIB,
        "peak": usage(server.pids).peak / MIB,
    }
    unknown = set() if server.pids else {"create_cpu", "update_cpu", "fan_out_cpu", "memory", "peak"}
    return {name: value for name, value in figures.items() if name not in unknown}, spent


if __name__ == "__main__":
    main(prog_name="python -m bench")
