"""How a change is planned, for a hub or for a captured fleet, and what a gate is told of it."""

import asyncio
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import click

from echelon.cli.change_admission import HubAdmission, OfflineAdmission, new_namespaces
from echelon.cli.change_files import Document, read_files
from echelon.cli.connection import Connection
from echelon.cli.exit_codes import ExitCode
from echelon.cli.plan_making import ChangePlan, make_plan
from echelon.cli.process import bear_large_caches
from echelon.cli.terminal import clean
from echelon.controllers.settings import DEFAULTS, ControllerSettings
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
    told: ControllerSettings = DEFAULTS,
) -> ChangePlan:
    """Return the plan of files, for a hub or for a captured fleet, whose controllers were told this."""
    where = namespace or ("default" if fleet is not None else connection.load().namespace)
    documents = read_files(sources, where, recursive=recursive)
    assumed = assumed or Assumptions()
    bear_large_caches()
    found: list[ChangePlan] = []

    async def run() -> None:
        # Nothing is returned: asyncio would write the result out in full when it puts signals back, and throw it away.
        if fleet is None:
            found.append(await _with_hub(connection, documents, assumed, told))
        else:
            capture = captured_fleet(fleet)
            admission = OfflineAdmission()
            found.append(await make_plan(capture.snapshot(), admission, documents, capture.taken, assumed, told=told))

    asyncio.run(run())
    return found[0]


async def _with_hub(
    connection: Connection, documents: Sequence[Document], assumed: Assumptions, told: ControllerSettings
) -> ChangePlan:
    async with connection.open() as client:
        admission = HubAdmission(client, new_namespaces(documents))
        return await make_plan(client, admission, documents, datetime.now(UTC), assumed, told=told)


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
