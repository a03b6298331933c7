"""The program itself: which commands there are, and how it ends whatever happens.

Each command lives in a module of its own, imported only when it runs, and what a command needs for its work is imported
when it does it, so that help and Tab are quick.
"""

import gc
import importlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import click

from echelon.cli.exit_codes import ExitCode
from echelon.rollouts.similar import did_you_mean

PLUGIN = "kubectl echelon"


class Group(click.Group):
    """Commands below one name. Who mistypes one is told which may be meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that was typed."""
        typed = args[0]
        if not ctx.resilient_parsing and not typed.startswith("-") and self.get_command(ctx, typed) is None:
            meant = did_you_mean(typed, self.list_commands(ctx))
            raise click.UsageError(f'{ctx.command_path} has no command "{typed}"{meant}', ctx)
        return super().resolve_command(ctx, args)


class Program(Group):
    """Knows the names and the one-line help of commands without importing them."""

    def __init__(self, *args: Any, help_of: Mapping[str, str], **given: Any) -> None:
        super().__init__(*args, **given)
        self._help_of = help_of

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        del ctx
        return sorted(self._help_of)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        del ctx
        if cmd_name not in self._help_of:
            return None
        command: click.Command = getattr(importlib.import_module(f"echelon.cli.{cmd_name}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._help_of[name]) for name in self.list_commands(ctx)])

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Read the command line; help and version are printed by this."""
        with _readers_may_leave():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with _readers_may_leave():
            return super().invoke(ctx)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the program, and end it with a code of the table."""
        # Nothing of what imports make is garbage, and looking for it takes a sixth of their time. Commands that stay
        # have it look more often.
        gc.set_threshold(250_000, 100, 100)
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        code: object
        try:
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except click.Abort as error:
            interrupted = isinstance(error.__cause__, KeyboardInterrupt)
            code = ExitCode.INTERRUPTED if interrupted else ExitCode.FAILED
        except click.ClickException as error:
            with _readers_may_leave():
                error.show()
            code = error.exit_code
        sys.exit(code if isinstance(code, int) else ExitCode.DONE)


@contextmanager
def _readers_may_leave() -> Iterator[None]:
    """End without a word when nobody reads on, as after `| head -1`; what is still to be written goes nowhere."""
    try:
        yield
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # a test's has no file
                os.dup2(nowhere, stream.fileno())
        raise SystemExit(ExitCode.BROKEN_PIPE) from None
