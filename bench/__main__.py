"""`python -m bench`: start a hub, load a fleet into it, measure, and say how that compares."""

from pathlib import Path
from statistics import median

import click
import uvloop

from bench import placement, policies, report, rollout, runtime, waves
from bench.client import Client, Refused, connect
from bench.figures import MIB
from bench.phases import WATCHED_UPDATES, WATCHERS, Bench, Spent
from bench.pipeline import Stage, create_stages
from bench.processes import usage
from bench.progress import Progress
from bench.servers import HubProcess, NoServer, Server, from_kubeconfig, hub_process

Figures = dict[str, float]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument(
    "what",
    type=click.Choice(["hub", "pipeline", "runtime", "rollout", "placement", "waves", "policies"]),
    required=False,
)
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

    And what the runtime costs a controller, a decision a rollout, a label the placements, and how long changes take to
    reach a whole fleet. WHAT limits it to one of these. The hub is a child process with a data directory of its own.
    """
    progress = Progress()
    figures: Figures = {}
    spent: dict[str, Spent] = {}
    stages: list[Stage] = []
    measures: list[runtime.Measure] = []
    decisions: list[rollout.Decided] = []
    growths: list[placement.Growth] = []
    laps: list[waves.Lap] = []
    memory = 0.0
    enforced: list[policies.Lap] = []
    try:
        if what in (None, "pipeline") and kubeconfig is None:
            progress.begin("timing the stages of a create")
            stages = create_stages()
        if what in (None, "runtime") and kubeconfig is None:
            with hub_process(["--sync", "normal"]) as process:
                measures = uvloop.run(runtime.measure(process, progress))
            measures.append(runtime.virtual_time(progress))
        if what in (None, "rollout") and kubeconfig is None:
            decisions = rollout.measure(progress)
        if what in (None, "placement") and kubeconfig is None:
            growths = placement.measure(progress)
        if what in (None, "waves") and kubeconfig is None:
            laps, memory = uvloop.run(waves.measure(progress, min(clusters, waves.CLUSTERS)))
        if what in (None, "policies") and kubeconfig is None:
            enforced = uvloop.run(policies.measure(progress, min(clusters, policies.CLUSTERS)))
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
        found = {one.title: one.value for one in measures}
        decided = {one.title: one.milliseconds for one in decisions}
        ratios = {one.title: one.ratio for one in growths}
        waved = {one.title: one.seconds for one in laps}
        in_turn = {one.title: one.value for one in enforced}
        parts = {"runtime": found, "rollout": decided, "placement": ratios, "waves": waved, "policies": in_turn}
        click.echo(report.as_json(clusters, figures, spent, stages, parts))
        return
    tables = [report.as_table(clusters, figures, spent, compare=kubeconfig is None)] if figures else []
    tables += [report.pipeline_table(stages)] if stages else []
    tables += [runtime.table(measures)] if measures else []
    tables += [rollout.table(decisions)] if decisions else []
    tables += [placement.table(growths)] if growths else []
    tables += [waves.table(laps, memory)] if laps else []
    tables += [policies.table(enforced)] if enforced else []
    click.echo("\n\n".join(tables))


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
