"""Finding the Kubernetes programs. Nothing is built here: a build takes minutes, and a test that hangs is ended sooner.

They are in a directory that `KUBEBUILDER_ASSETS` names, as controller-runtime calls it, or where `make kubernetes` has
put them. A machine without them is no mistake; the tests that need Kubernetes decide what its absence means to them.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.kubernetes import build

ASSETS = "KUBEBUILDER_ASSETS"
NEEDED = ("etcd", "kube-apiserver")
ABSENCE = (
    "no real Kubernetes: `make kubernetes` builds it where there is Go (a quarter of an hour, once), "
    f"or {ASSETS} names a directory that has it"
)


class MissingProgramError(Exception):
    """A program that was named or built is not where it should be."""


@dataclass(frozen=True)
class Programs:
    """A directory with the programs."""

    directory: Path

    def path(self, name: str) -> Path:
        """Return the path of a program; raises if it is not there."""
        found = self.directory / name
        if not os.access(found, os.X_OK):
            raise MissingProgramError(f"{name} is not in {self.directory}")
        return found

    def has(self, names: Sequence[str]) -> bool:
        """Whether all of these are there."""
        return all(os.access(self.directory / name, os.X_OK) for name in names)


def programs() -> Programs | None:
    """Return the programs; None where there are none."""
    if named := os.environ.get(ASSETS):
        given = Programs(Path(named).expanduser().absolute())
        if not given.has(NEEDED):
            raise MissingProgramError(f"{ASSETS} is {named}, and {' or '.join(NEEDED)} is not there")
        return given
    built = build.built_directory()
    return Programs(built) if built is not None and Programs(built).has(NEEDED) else None
