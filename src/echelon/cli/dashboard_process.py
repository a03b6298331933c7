"""Runs the dashboard beside another program, as a process of its own.

Drawing a large fleet takes time that controllers and hubs do not have. The child ends when we do, however we end: its
standard input is a pipe of ours. What it must not show to others who look at processes goes through that pipe, too.
"""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import click

_PATIENCE_SECONDS = 60.0

_log = logging.getLogger(__name__)


@asynccontextmanager
async def dashboard_beside(options: Sequence[str], token: str = "") -> AsyncIterator[str]:
    """Run the dashboard for as long as it is needed. Return its address; with a token, one that signs in, once."""
    command = [sys.executable, "-m", "echelon", "dashboard", "--attached", *options]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None and process.stdout is not None  # noqa: PT018, S101 - both were asked for
    try:
        process.stdin.write(f"{token}\n".encode())
        async with asyncio.timeout(_PATIENCE_SECONDS):
            url = (await process.stdout.readline()).decode().strip()
        if not url:
            raise click.ClickException("the dashboard did not start; what it said is above")
        watching = asyncio.create_task(_say_if_ended(process), name="dashboard")
        try:
            yield url
        finally:
            watching.cancel()
    finally:
        process.stdin.close()
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _say_if_ended(process: asyncio.subprocess.Process) -> None:
    """Tell of a dashboard that ends although nobody asked it to. Whatever we do else goes on without it."""
    code = await process.wait()
    _log.error("the dashboard has ended by itself, with code %s; start it anew with: echelon dashboard", code)
