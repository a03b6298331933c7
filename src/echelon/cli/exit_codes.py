"""What the exit code of a command means to the pipeline that runs it: one table, which docs/cli.md repeats."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

import click

from echelon.cli.terminal import clean


class ExitCode(IntEnum):
    """How a command ended."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    ABORTED = 3
    TIMED_OUT = 4
    NOT_FOUND = 5
    FORBIDDEN = 6
    UNREACHABLE = 7
    HELD = 8
    INTERRUPTED = 130
    BROKEN_PIPE = 141


MEANINGS = {
    ExitCode.DONE: "done",
    ExitCode.FAILED: "stopped, failed, misconfigured, or refused; of a diff: there are differences",
    ExitCode.USAGE: "the command was wrong; of a diff: any trouble that has no other code",
    ExitCode.ABORTED: "the rollout was aborted",
    ExitCode.TIMED_OUT: "not over within --timeout",
    ExitCode.NOT_FOUND: "there is no such object, revision, namespace or cluster",
    ExitCode.FORBIDDEN: "you may not, or the hub does not know you",
    ExitCode.UNREACHABLE: "the hub does not answer, or nobody knows where it is",
    ExitCode.HELD: "held until a person does something: awaiting approval, removal held, no clusters, disabled",
    ExitCode.INTERRUPTED: "Ctrl-C",
    ExitCode.BROKEN_PIPE: "whoever read the output has gone",
}


class Ended(click.ClickException):
    """A command that ends before it is done, with what to say of it and a code of the table."""

    def __init__(self, message: str, code: ExitCode) -> None:
        super().__init__("\n".join(map(clean, message.split("\n"))))
        self.exit_code = int(code)  # type: ignore[misc] # click has one for all errors of a class


def ended_by(error: Exception) -> Ended | None:
    """Return how a command ends because of something that a hub, or the way to it, refused; None for our mistakes."""
    # Only who fails needs to know these.
    from echelon.kube.credentials import CredentialsUnavailable
    from echelon.kube.errors import ApiError
    from echelon.kube.kubeconfig import ConfigError
    from echelon.rollouts.refusals import NotThere, Refused

    match error:
        case BrokenPipeError():  # of our own output, which is no trouble of the hub
            return None
        case NotThere():
            return Ended(error.message, ExitCode.NOT_FOUND)
        case Refused():
            return Ended(error.message, ExitCode.FAILED)
        case ApiError():
            return Ended(clean(str(error)) or type(error).__name__, _of_answer(error.status_code))
        case ConfigError() | CredentialsUnavailable() | OSError() | TimeoutError():
            return Ended(clean(str(error)) or type(error).__name__, ExitCode.UNREACHABLE)
    return None


def _of_answer(status: int) -> ExitCode:
    match status:
        case 401 | 403:
            return ExitCode.FORBIDDEN
        case 404:
            return ExitCode.NOT_FOUND
        case 429:
            return ExitCode.UNREACHABLE
    return ExitCode.UNREACHABLE if status >= 500 else ExitCode.FAILED


@contextmanager
def troubled() -> Iterator[None]:
    """Keep the code 1 for differences: trouble that has no code of its own ends a diff with 2."""
    try:
        yield
    except click.UsageError:
        raise
    except click.ClickException as error:
        if error.exit_code != ExitCode.FAILED:
            raise
        raise Ended(error.message, ExitCode.USAGE) from error
    except Exception as error:
        ended = ended_by(error)
        if ended is None:
            raise
        if ended.exit_code == ExitCode.FAILED:
            ended = Ended(ended.message, ExitCode.USAGE)
        raise ended from error
