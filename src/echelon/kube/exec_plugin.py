"""Credentials from a program, as kubeconfigs name them under `exec`.

Clouds hand out tokens that live for minutes, and leave it to a program how to get one. It is somebody else's program:
it may be missing, hang, ask questions or print nonsense, and each of these must become one clear sentence. It gets a
terminal only when there is one and the kubeconfig allows it, its error output goes where ours goes, and what it
printed as its answer is never quoted, because that is the secret.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec

from echelon.api.base import JSONObject
from echelon.kube.errors import Unauthorized
from echelon.kube.tls import KeyPair

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")

_TIMEOUT_SECONDS = 60.0
_INTERACTIVE_TIMEOUT_SECONDS = 300.0  # a person reads, types, and looks for the second factor
_KILLED_SECONDS = 5.0


@dataclass(frozen=True)
class ExecPlugin:
    """What to run. `cluster` is what the program is told about the server, if it is to be told."""

    command: str
    api_version: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    install_hint: str = ""
    interactive_mode: str = "IfAvailable"
    cluster: JSONObject | None = field(default=None, repr=False)
    timeout_seconds: float = 0.0  # 0 means the default of the mode


@dataclass(frozen=True)
class Issued:
    """What a program handed out."""

    token: str = field(default="", repr=False)
    pair: KeyPair | None = None
    expires: datetime | None = None


class PluginFailed(Unauthorized):
    """The program that makes credentials did not."""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


async def issue(plugin: ExecPlugin) -> Issued:
    """Run the program and return what it hands out."""
    interactive = plugin.interactive_mode != "Never" and sys.stdin is not None and sys.stdin.isatty()
    if plugin.interactive_mode == "Always" and not interactive:
        raise PluginFailed(f"getting credentials: exec: {plugin.command} needs a terminal and there is none")
    return _read(plugin, await _run(plugin, interactive))


async def _run(plugin: ExecPlugin, interactive: bool) -> bytes:
    program = shutil.which(plugin.command)
    if program is None:
        raise _failed(plugin, f"executable {plugin.command} not found")
    info = {"interactive": interactive} | ({"cluster": plugin.cluster} if plugin.cluster is not None else {})
    told = {"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": info}
    environment = {**os.environ, **plugin.env, "KUBERNETES_EXEC_INFO": msgspec.json.encode(told).decode()}
    limit = plugin.timeout_seconds or (_INTERACTIVE_TIMEOUT_SECONDS if interactive else _TIMEOUT_SECONDS)
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            *plugin.args,
            env=environment,
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=not interactive,  # so that what it started ends with it
        )
    except OSError as error:
        raise _failed(plugin, f"executable {plugin.command} cannot be run: {error.strerror}") from None
    try:
        async with asyncio.timeout(limit):
            answer, _ = await process.communicate()
    except TimeoutError:
        raise _failed(plugin, f"executable {plugin.command} did not answer within {limit:g} s") from None
    finally:
        if process.returncode is None:
            await _kill(process, group=not interactive)
    if process.returncode:
        raise _failed(plugin, f"executable {plugin.command} failed with exit code {process.returncode}")
    return answer


async def _kill(process: asyncio.subprocess.Process, *, group: bool) -> None:
    with contextlib.suppress(ProcessLookupError):
        if group:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_KILLED_SECONDS):
            await process.wait()


def _read(plugin: ExecPlugin, answer: bytes) -> Issued:
    try:
        credential = msgspec.json.decode(answer, type=_ExecCredential)
    except msgspec.DecodeError:
        raise _failed(plugin, f"{plugin.command} did not print an ExecCredential") from None
    if credential.kind != "ExecCredential":
        raise _failed(plugin, f"{plugin.command} did not print an ExecCredential")
    if credential.api_version != plugin.api_version:
        why = f"is configured to use API version {plugin.api_version}, plugin returned another version"
        raise _failed(plugin, f"{plugin.command} {why}")
    status = credential.status
    if status is None:
        raise _failed(plugin, f"{plugin.command} did not return a status field")
    certificate, key = status.client_certificate_data, status.client_key_data
    if bool(certificate) != bool(key):
        raise _failed(plugin, f"{plugin.command} returned only certificate or key, not both")
    if not status.token and not certificate:
        raise _failed(plugin, f"{plugin.command} did not return a token or cert/key pair")
    expires = status.expiration_timestamp
    if expires is not None and expires.tzinfo is None:
        expires = expires.replace(tzinfo=UTC)
    pair = KeyPair(certificate.encode(), key.encode()) if certificate else None
    return Issued(status.token, pair, expires)


def _failed(plugin: ExecPlugin, why: str) -> PluginFailed:
    hint = f"\n{plugin.install_hint}" if plugin.install_hint else ""
    return PluginFailed(f"getting credentials: exec: {why}{hint}")
