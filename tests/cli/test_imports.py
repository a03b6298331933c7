"""What a command does not need is not imported: imports are most of the time of a small start.

How long they take depends on the machine; how many there are does not.
"""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

_START = """
import sys
import echelon.cli.run
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
_MOST_FOR_HELP = 40  # modules beyond those of Python and click


@pytest.mark.parametrize("typed", ["", "rollout", "rollout watch", "rollout undo", "policy", "placement", "cluster"])
def test_help_needs_neither_a_client_nor_an_engine(typed: str) -> None:
    bare = [sys.executable, "-c", "import sys, click; print(*sys.modules)"]
    there = set(subprocess.run(bare, check=True, capture_output=True, text=True).stdout.split())
    command = [sys.executable, "-c", _HELP, *typed.split(), "--help"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    imported = set(told.partition("imported:")[2].split())
    assert "echelon.cli" in imported
    heavy = (
        "aiohttp",
        "asyncio",
        "cryptography",
        "msgspec",
        "ssl",
        "yaml",
        "echelon.api",
        "echelon.engine",
        "echelon.kube",
    )
    assert {each for each in imported if each in heavy} == set()
    assert len(imported - there) < _MOST_FOR_HELP, sorted(imported - there)


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
