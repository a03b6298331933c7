"""What a command does not need is not imported: imports are most of the time of a small start.

How long they take depends on the machine; how many there are does not.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import click
import pytest

from echelon.cli import main
from echelon.hub.access.pki import new_authority

pytestmark = pytest.mark.full

_START = """
import sys
import echelon.cli.run_process
from echelon.controllers.running import NAMES, custom_kinds_of
custom_kinds_of(NAMES)  # imports the controllers
print(*sys.modules)
"""
_UNNEEDED = {
    "aiohttp.web": "a web server is for those who ask for probes",
    "cel_expr_python": "few placements have expressions",
    "cryptography": "keys are the business of agents and of the hub",
    "jsonschema_rs": "schemas are the business of the hub",
    "echelon.api.pods": "pods are the business of members",
    "echelon.fleet": "simulated members are for tests",
    "echelon.hub": "the hub may be any server",
}


def test_controllers_start_without_what_they_do_not_need() -> None:
    ended = subprocess.run([sys.executable, "-c", _START], check=True, capture_output=True, text=True)
    imported = set(ended.stdout.split())
    assert "echelon.controllers.work_set.sources" in imported
    assert {name: why for name, why in _UNNEEDED.items() if name in imported} == {}


_HELP = """
import sys
from echelon.cli import main
try:
    main(sys.argv[1:])
finally:
    print("imported:", *sys.modules, file=sys.stderr)
"""
_MOST_FOR_HELP = 55  # modules beyond those of Python and click; the grammar of simulated fleets has a dozen


@cache
def bare() -> set[str]:
    """Return what Python and click import by themselves."""
    command = [sys.executable, "-c", "import sys, click; print(*sys.modules)"]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


def every_command() -> list[str]:
    """Return what can be typed before `--help`."""

    def below(command: click.Command, path: tuple[str, ...]) -> Iterator[str]:
        yield " ".join(path)
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                if (found := command.get_command(context, name)) is not None:
                    yield from below(found, (*path, name))

    return list(below(main, ()))


_HEAVY = (
    "aiohttp",
    "asyncio",
    "cryptography",
    "msgspec",
    "ssl",
    "yaml",
    "echelon.agent",
    "echelon.api",
    "echelon.controllers",
    "echelon.dashboard",
    "echelon.engine",
    "echelon.hub",
    "echelon.install",
    "echelon.kube",
)


@pytest.mark.parametrize("typed", every_command())
def test_help_needs_neither_a_client_nor_an_engine(typed: str) -> None:
    command = [sys.executable, "-c", _HELP, *typed.split(), "--help"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    imported = set(told.partition("imported:")[2].split())
    assert "echelon.cli" in imported
    assert imported.intersection(_HEAVY) == set()
    assert len(imported - bare()) < _MOST_FOR_HELP, sorted(imported - bare())


_UNTIL_ASKED = """
import sys
from echelon.cli import main
try:
    main(["rollout", "list", "--kubeconfig", sys.argv[1]])
finally:
    print("imported:", *sys.modules, file=sys.stderr)
"""
_ENGINE_FOR_REQUESTS = 20  # modules: names, which are needed to ask for something


def test_a_hub_is_asked_before_the_engine_is_needed(tmp_path: Path) -> None:
    with socket.socket() as nobody:  # bound and not listened on, so that the first request is the last
        nobody.bind(("127.0.0.1", 0))
        config = tmp_path / "kubeconfig"
        server = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        config.write_text(
            f"{{clusters: [{{name: hub, cluster: {{server: '{server}'}}}}], contexts: [{{name: hub, context:"
            " {cluster: hub}}], current-context: hub}"
        )
        command = [sys.executable, "-c", _UNTIL_ASKED, str(config)]
        ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ended.returncode == 7, ended.stderr
    imported = ended.stderr.partition("imported:")[2].split()
    assert "echelon.kube.http" in imported
    engine = [each for each in imported if each.startswith(("echelon.engine", "echelon.controllers", "echelon.agent"))]
    assert len(engine) < _ENGINE_FOR_REQUESTS, engine
    others = ("echelon.api.grove", "echelon.api.karmada", "echelon.api.pods", "cryptography")
    assert [each for each in imported if each in others] == []  # what is asked for later


_TRUST = """
import os, sys
from echelon.cli.hub_client import hub_client
from echelon.kube.config import ClusterConfig
before = dict(os.environ)
hub_client(ClusterConfig("https://hub", proxy_url=sys.argv[1]), 1.0)
from aiohttp import connector
from echelon.kube import tls
assert dict(os.environ) == before
print(*(len(each.get_ca_certs()) for each in (connector._SSL_CONTEXT_VERIFIED, tls.context())))
"""


@pytest.mark.parametrize(("proxy", "trusted"), [("", 0), ("https://proxy", 1)])
def test_a_hub_is_trusted_by_the_authorities_of_the_system_though_importing_its_client_reads_none(
    proxy: str, trusted: int, tmp_path: Path
) -> None:
    authority = tmp_path / "authority.crt"
    authority.write_bytes(new_authority(datetime.now(UTC)).certificate_pem)
    environment = {**os.environ, "SSL_CERT_FILE": str(authority), "SSL_CERT_DIR": str(tmp_path)}
    command = [sys.executable, "-c", _TRUST, proxy]
    ended = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    assert ended.stdout.split() == [str(trusted), "1"]
