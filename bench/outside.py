"""`python -m bench.outside SCRIPT`: a program that knows nothing of Echelon measures it, on a server made for it.

Such a script plays the users and the agents of a fleet, and works with any controller on any API server. It gets the
address and a token of an administrator (`--server`, `--token`), its own options, and behind `--` the command that
starts the controller. Here the server is a real kube-apiserver with etcd, or a hub; the controller is `echelon run`.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import uvloop
from tests.environment import ControlPlane
from tests.environment.control_plane import ControlPlaneError
from tests.environment.programs import ABSENCE, programs

from bench.client import Refused, connect
from bench.servers import NoServer, Server, from_kubeconfig, hub_process
from echelon.api import registry

_TOKEN = "bench"  # noqa: S105 - of a server that lives as long as the measurement
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_ESTABLISH_SECONDS = 60.0
# What a script has in flight is its own business; the server shall not be the one that says no.
_GENEROUS = ("--max-requests-inflight=4000", "--max-mutating-requests-inflight=2000")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("script", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
@click.option("--on", type=click.Choice(["kube-apiserver", "hub"]), default="kube-apiserver", show_default=True)
@click.option("--controllers", help="As of `echelon run`: which of the controllers to run.")
@click.option(
    "--python", default=sys.executable, help="The interpreter for the script, if it needs packages of its own."
)
def main(*, script: Path, options: tuple[str, ...], on: str, controllers: str | None, python: str) -> None:
    """Run a black-box benchmark. Its own OPTIONS follow after `--`."""
    try:
        with _kube_apiserver() if on == "kube-apiserver" else _hub() as (server, kubeconfig):
            uvloop.run(_apply_crds(server))
            controller = [sys.executable, "-m", "echelon", "run", "--kubeconfig", str(kubeconfig), "--no-leader-elect"]
            # The script decides where works go, and it is the only one who does.
            controller += ["--trust-decisions", *(["--controllers", controllers] if controllers else [])]
            command = [python, str(script), "--server", server.url, "--token", server.token, *options]
            ended = subprocess.run([*command, "--", *controller], check=False)  # noqa: S603 - what the user named
    except (NoServer, Refused, ControlPlaneError) as error:
        raise click.ClickException(str(error)) from error
    sys.exit(ended.returncode)


@contextmanager
def _kube_apiserver() -> Iterator[tuple[Server, Path]]:
    found = programs()
    if found is None:
        raise NoServer(ABSENCE)
    with tempfile.TemporaryDirectory(prefix="echelon-bench-") as made:
        tokens = Path(made) / "tokens.csv"
        tokens.write_text(f'{_TOKEN},bench,bench,"system:masters"\n')
        with ControlPlane(
            found, Path(made) / "plane", api_options=[f"--token-auth-file={tokens}", *_GENEROUS]
        ) as plane:
            authority = (plane.access.keys / "ca.crt").read_text()
            yield Server(plane.access.url, _TOKEN, authority), plane.access.kubeconfig


@contextmanager
def _hub() -> Iterator[tuple[Server, Path]]:
    with hub_process() as process:
        process.start()
        yield from_kubeconfig(process.kubeconfig), process.kubeconfig


async def _apply_crds(server: Server) -> None:
    async with connect(server) as client:
        definitions = registry.crds()
        for definition in definitions:
            await client.send("POST", _CRDS, definition)
        deadline = time.monotonic() + _ESTABLISH_SECONDS
        for definition in definitions:
            spec = definition["spec"]
            path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
            while not await client.exists(path):
                if time.monotonic() > deadline:
                    raise NoServer(f"the server does not serve {spec['names']['plural']} although their CRD is there")


if __name__ == "__main__":
    main()
