"""`echelon plan`: what a change would do, before it does it."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from echelon.cli.change_options import files_option, fleet_option, recursive_option
from echelon.cli.connection import Connection, connected
from echelon.cli.controller_options import removals_told, settings_of
from echelon.cli.output import is_document, output_option
from echelon.cli.terminal import echo

if TYPE_CHECKING:
    from echelon.engine.rollout.thresholds import Threshold


@click.command()
@files_option
@recursive_option
@fleet_option
@connected
@click.option("-n", "--namespace", default="", help="Namespace of objects that name none; that of the context.")
@click.option("--failing", multiple=True, metavar="CLUSTER", help="Assume that this cluster fails; repeatable.")
@click.option("--silent", multiple=True, metavar="CLUSTER", help="Assume that this cluster never reports; repeatable.")
@click.option("--takes", type=float, default=0.0, metavar="SECONDS", help="Assume that a cluster takes so long.")
@removals_told
@output_option
def plan(
    *,
    sources: Sequence[str],
    recursive: bool,
    fleet: Path | None,
    connection: Connection,
    namespace: str,
    failing: Sequence[str],
    silent: Sequence[str],
    takes: float,
    trust_decisions: bool,
    max_removals: "Threshold",
    removal_grace: float,
    output: str,
) -> None:
    """Tell what a change would do, cluster by cluster and wave by wave, before anything is applied.

    It reads what you may read and writes nothing: objects are sent to the hub as dry runs, and what would come of them
    is worked out with the functions that the controllers decide with. Rollouts that are in no file, and would change
    because a placement does, are planned, too. Controllers that run with --trust-decisions, --max-removals or
    --removal-grace do otherwise than without, and so does a plan that is given the same.

    The exit code is 0 if nothing changes, 10 if something does, 1 if an object is refused, 2 for files that cannot be
    read, 5, 6 and 7 for what is not there, not allowed, not reachable.
    """
    if takes < 0:
        raise click.BadParameter(f"{takes} is negative", param_hint="--takes")

    from echelon.cli.output import print_document
    from echelon.cli.plan_asking import exit_code, failures_told, planned
    from echelon.cli.plan_document import document_of
    from echelon.cli.plan_views import lines_of
    from echelon.engine.forecast.model import Assumptions

    assumed = Assumptions(timedelta(seconds=takes), frozenset(failing), frozenset(silent))
    told = settings_of(trust_decisions=trust_decisions, max_removals=max_removals, removal_grace=removal_grace)
    with failures_told():
        found = planned(connection, fleet, sources, namespace, recursive=recursive, assumed=assumed, told=told)
    if is_document(output):
        print_document(document_of(found), output)
    else:
        for line in lines_of(found, everything=output == "wide"):
            echo(line)
    if code := exit_code(found):
        raise SystemExit(code)
