"""`echelon plan`: what a change would do, before it does it."""

import asyncio
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from echelon.cli.change_admission import HubAdmission, OfflineAdmission, new_namespaces
from echelon.cli.change_files import Document, read_files
from echelon.cli.change_options import files_option, fleet_option, recursive_option
from echelon.cli.connection import Connection, connected
from echelon.cli.exit_codes import ExitCode
from echelon.cli.output import is_document, output_option, print_document
from echelon.cli.plan_document import document_of
from echelon.cli.plan_making import ChangePlan, make_plan
from echelon.cli.plan_views import lines_of
from echelon.cli.process import bear_large_caches
from echelon.cli.terminal import clean, echo
from echelon.engine.forecast.model import Assumptions
from echelon.fleet.capture import BadCapture, Capture, read_capture
from echelon.kube.credentials import CredentialsUnavailable
from echelon.kube.errors import ApiError, Forbidden, NotFound, Unauthorized
from echelon.kube.kubeconfig import ConfigError

CHANGES = 10  # beside the codes that all commands have: a gate tells changes from trouble
REFUSED, NOT_FOUND = int(ExitCode.FAILED), int(ExitCode.NOT_FOUND)
FORBIDDEN, UNREACHABLE = int(ExitCode.FORBIDDEN), int(ExitCode.UNREACHABLE)


class NotThere(click.ClickException):
    """Something that a plan needs is not on the hub."""

    exit_code = NOT_FOUND


class NotAllowed(click.ClickException):
    """Whoever asks may not."""

    exit_code = FORBIDDEN


class NotReachable(click.ClickException):
    """The hub does not answer, or nobody knows where it is."""

    exit_code = UNREACHABLE


@click.command()
@files_option
@recursive_option
@fleet_option
@connected
@click.option("-n", "--namespace", default="", help="Namespace of objects that name none; that of the context.")
@click.option("--failing", multiple=True, metavar="CLUSTER", help="Assume that this cluster fails; repeatable.")
@click.option("--silent", multiple=True, metavar="CLUSTER", help="Assume that this cluster never reports; repeatable.")
@click.option("--takes", type=float, default=0.0, metavar="SECONDS", help="Assume that a cluster takes so long.")
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
    output: str,
) -> None:
    """Tell what a change would do, cluster by cluster and wave by wave, before anything is applied.

    It reads what you may read and writes nothing: objects are sent to the hub as dry runs, and what would come of them
    is worked out with the functions that the controllers decide with. Rollouts that are in no file, and would change
    because a placement does, are planned, too. The exit code is 0 if nothing changes, 10 if something does, 1 if an
    object is refused, 2 for files that cannot be read, 5, 6 and 7 for what is not there, not allowed, not reachable.
    """
    if takes < 0:
        raise click.BadParameter(f"{takes} is negative", param_hint="--takes")
    assumed = Assumptions(timedelta(seconds=takes), frozenset(failing), frozenset(silent))
    with failures_told():
        found = planned(connection, fleet, sources, namespace, recursive=recursive, assumed=assumed)
    if is_document(output):
        print_document(document_of(found), output)
    else:
        for line in lines_of(found, everything=output == "wide"):
            echo(line)
    if code := exit_code(found):
        raise SystemExit(code)


def exit_code(found: ChangePlan) -> int:
    """Return what a gate is told."""
    if found.refused:
        return FORBIDDEN if all(isinstance(each.refusal, Forbidden) for each in found.refused) else REFUSED
    return CHANGES if found.differs else 0


def planned(
    connection: Connection,
    fleet: Path | None,
    sources: Sequence[str],
    namespace: str,
    *,
    recursive: bool = False,
    assumed: Assumptions | None = None,
) -> ChangePlan:
    """Return the plan of files, for a hub or for a captured fleet."""
    where = namespace or ("default" if fleet is not None else connection.load().namespace)
    documents = read_files(sources, where, recursive=recursive)
    assumed = assumed or Assumptions()
    bear_large_caches()
    found: list[ChangePlan] = []

    async def run() -> None:
        # Nothing is returned: asyncio would write the result out in full when it puts signals back, and throw it away.
        if fleet is None:
            found.append(await _with_hub(connection, documents, assumed))
        else:
            capture = captured_fleet(fleet)
            admission = OfflineAdmission()
            found.append(await make_plan(capture.snapshot(), admission, documents, capture.taken, assumed))

    asyncio.run(run())
    return found[0]


async def _with_hub(connection: Connection, documents: Sequence[Document], assumed: Assumptions) -> ChangePlan:
    async with connection.open() as client:
        admission = HubAdmission(client, new_namespaces(documents))
        return await make_plan(client, admission, documents, datetime.now(UTC), assumed)


def captured_fleet(path: Path) -> Capture:
    """Read a captured fleet."""
    try:
        return read_capture(path.read_bytes())
    except (BadCapture, OSError) as error:
        raise click.UsageError(f"{path}: {error}") from error


@contextmanager
def failures_told() -> Iterator[None]:
    """Tell what a hub or its configuration refuses, each with its own exit code."""
    try:
        yield
    except NotFound as error:
        raise NotThere(clean(str(error))) from error
    except (Forbidden, Unauthorized) as error:
        raise NotAllowed(clean(str(error))) from error
    except (ConfigError, CredentialsUnavailable, ssl.SSLError, OSError, TimeoutError) as error:
        raise NotReachable(clean(str(error)) or type(error).__name__) from error
    except ApiError as error:
        if error.code >= 500:
            raise NotReachable(clean(str(error))) from error
        raise
