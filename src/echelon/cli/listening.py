"""Addresses at which commands that stay listen."""

from collections.abc import Callable
from typing import Any, TypeAlias

import click

Address: TypeAlias = tuple[str, int]


def parse_listen(text: str, option: str = "--listen") -> tuple[str, int]:
    """Read HOST:PORT, with an IPv6 host in brackets."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise click.BadParameter(f"{text!r} is not HOST:PORT, for example 127.0.0.1:8443", param_hint=option)
    return host.removeprefix("[").removesuffix("]"), int(port)


def _address(_: click.Context, __: click.Parameter, value: str | None) -> Address | None:
    return parse_listen(value, "--metrics-listen") if value else None


probed: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--metrics-listen", metavar="HOST:PORT", callback=_address, help="Serve /metrics, /healthz and /readyz there."
)
