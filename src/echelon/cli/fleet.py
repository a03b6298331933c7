"""`echelon fleet`: write down what a fleet is like, to plan and to simulate where there is no hub."""

from pathlib import Path

import click

from echelon.cli.connection import Connection, connected
from echelon.cli.terminal import echo


@click.group()
def fleet() -> None:
    """Write down what a fleet is like."""


@fleet.command()
@connected
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    default="-",
    help="File to write: YAML, or JSON if its name ends so, which is read much faster.",
)
def capture(*, connection: Connection, output: Path) -> None:
    """Write clusters, sets, placements, works, policies and what is known of their health into one file.

    echelon plan --fleet FILE plans for it without a hub. What Secrets hold is not in it. What you may not read is left
    out, and the file says so.
    """
    from echelon.api.cluster import MANAGED_CLUSTER
    from echelon.cli.fleet_capturing import captured_now
    from echelon.cli.output import print_document, to_text
    from echelon.fleet.capture import to_document

    found = captured_now(connection)
    document = to_document(found)
    if str(output) == "-":
        print_document(document, "yaml")
    else:
        output.write_text(to_text(document, "json" if output.suffix == ".json" else "yaml"), encoding="utf-8")
        echo(f"{output}: {len(found.of(MANAGED_CLUSTER))} clusters, {len(found.objects)} objects", err=True)
    for resource, why in sorted(found.unseen.items()):
        echo(f"{resource} are left out: {why}", err=True)
