"""Finding the Kubernetes programs, or having them built.

Three kinds of machine run the tests: one that carries the programs already (`KUBEBUILDER_ASSETS`, as controller-runtime
calls it), one with a Go compiler, where they are built once, and one with neither. The last is no mistake; the tests
that need Kubernetes decide what its absence means to them.
"""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.kubernetes import build

ASSETS = "KUBEBUILDER_ASSETS"
NEEDED = ("etcd", "kube-apiserver")
ABSENCE = f"no real Kubernetes: there is no Go to build it with, and {ASSETS} does not name a directory that has it"


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
    """Return the programs, after building them where that is possible; None where it is not."""
    if named := os.environ.get(ASSETS):
        given = Programs(Path(named).expanduser().absolute())
        if not given.has(NEEDED):
            raise MissingProgramError(f"{ASSETS} is {named}, and {' or '.join(NEEDED)} is not there")
        return given
    if not shutil.which("go") and not os.environ.get("ECHELON_KUBERNETES_DIR"):
        return None
    cached = Programs(build.program_directory())
    if not all(build.is_built(program, cached.directory) for program in build.PROGRAMS):
        if not shutil.which("go"):
            return cached if cached.has(NEEDED) else None
        for program in build.PROGRAMS:
            build.build(program, cached.directory)
    return cached
