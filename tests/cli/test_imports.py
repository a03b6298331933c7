"""What `echelon run` does not need is not imported: imports are most of the time of a small start."""

import subprocess
import sys

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
