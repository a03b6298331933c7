"""What the hub says of itself at `/version`.

Clients compare these numbers with their own to decide what they may ask for, so `major` and `minor` name the Kubernetes
release whose API semantics the hub follows. What it really is stands behind the plus sign.
"""

import platform

from echelon import __version__
from echelon.api.base import JSONObject

KUBERNETES = (1, 36)

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def version() -> JSONObject:
    """Answer `/version`."""
    major, minor = (str(number) for number in KUBERNETES)
    machine = platform.machine().lower()
    return {
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": str(KUBERNETES[1] - 1),
        "gitVersion": f"v{major}.{minor}.0+echelon-{__version__}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": platform.python_implementation().lower(),
        "platform": f"{platform.system().lower()}/{_MACHINES.get(machine, machine)}",
    }
