"""Build the real Kubernetes programs that tests run against.

A conformance test is worth what it is compared with, so ours are compared with the programs themselves and not
with an imitation. Where tests run there may be no container runtime and no release download, but Go modules can be
had nearly everywhere; so the programs are built from the modules pinned beside this file. `go.sum` then says
which sources were compiled, and a change of version is reviewed like any other change.

Modules are split where one program would move the dependencies of another away from those it was released with:
etcd shares the Kubernetes module, because Kubernetes already requires and tests that very version; kwok and helm
follow other releases of the client libraries and have modules of their own.

A cold build takes a quarter of an hour on two cores, so finished programs are kept in a directory named after
everything that could change them: another pin or another Go gives another directory, and branches do not
overwrite each other's programs. `ECHELON_KUBERNETES_DIR` names a directory instead, for an image that carries the
programs; what is found there is used as it is.

Progress goes to standard error and the directory to standard output: `bin=$(python tools/kubernetes/build.py)`.
"""

import argparse
import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = ("build", "-mod=readonly", "-trimpath", "-buildvcs=false")
STRIP = ("-s", "-w")  # no symbol tables: nobody debugs these programs, and they cost space and time to link
KUBERNETES_VERSION = (
    "k8s.io/component-base/version.gitVersion=v{major}.{minor}.{patch}",
    "k8s.io/component-base/version.gitMajor={major}",
    "k8s.io/component-base/version.gitMinor={minor}",
    "k8s.io/component-base/version.gitTreeState=clean",
    "k8s.io/client-go/pkg/version.gitVersion=v{major}.{minor}.{patch}",  # the user agent of its clients
)
HELM_VERSION = ("helm.sh/helm/v4/internal/version.version=v{major}.{minor}.{patch}",)


class BuildError(Exception):
    """A program cannot be built; the message says what to do."""


@dataclass(frozen=True)
class Program:
    """One executable: the folder that pins it, and what a plain `go build` would not know about it.

    `variables` are set by the linker, because release scripts set them too; without them the program reports
    a made-up version. Their version is that of `module` in the folder's `go.mod`, so a pin is written once.
    """

    name: str
    folder: str
    module: str
    package: str
    variables: tuple[str, ...] = ()


PROGRAMS = (
    Program("etcd", "kubernetes", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3"),
    *(
        Program(name, "kubernetes", "k8s.io/kubernetes", f"k8s.io/kubernetes/cmd/{name}", KUBERNETES_VERSION)
        for name in ("kube-apiserver", "kubectl", "kube-controller-manager", "kube-scheduler")
    ),
    Program("kwok", "kwok", "sigs.k8s.io/kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    Program("helm", "helm", "helm.sh/helm/v4", "helm.sh/helm/v4/cmd/helm", HELM_VERSION),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Build what is missing and print the directory."""
    parser = argparse.ArgumentParser(description="Build the Kubernetes programs that tests run against.")
    parser.add_argument("names", nargs="*", metavar="program", help="build only these: " + ", ".join(_names()))
    parser.add_argument("--check", action="store_true", help="build nothing; exit 1 if a program is missing")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.names) - set(_names())):
        parser.error(f"no such program: {', '.join(unknown)} (choose from {', '.join(_names())})")
    chosen = [program for program in PROGRAMS if not options.names or program.name in options.names]
    try:
        directory = program_directory()
        for program in () if options.check else chosen:
            build(program, directory)
    except BuildError as error:
        _say(f"error: {error}")
        return 1
    missing = [program.name for program in chosen if not is_built(program, directory)]
    if missing:
        _say(f"missing: {', '.join(missing)}")
    print(directory)
    return 1 if missing else 0


def program_directory() -> Path:
    """Where the programs of these pins, this Go and this processor are kept."""
    return _named_directory() or _cache() / cache_key()


def built_directory() -> Path | None:
    """Where the programs are, if they are built. Go is not asked where nothing can be: it may load another Go first."""
    if named := _named_directory():
        return named
    if not _cache().is_dir() or not shutil.which("go"):
        return None
    directory = program_directory()
    return directory if all(is_built(program, directory) for program in PROGRAMS) else None


def _named_directory() -> Path | None:
    named = os.environ.get("ECHELON_KUBERNETES_DIR")
    return Path(named).expanduser().absolute() if named else None


def _cache() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser().absolute() / "echelon" / "kubernetes"


def cache_key() -> str:
    """Digest everything that decides what comes out of the compiler."""
    digest = hashlib.sha256(repr((BUILD, STRIP, PROGRAMS)).encode())
    for folder in sorted({program.folder for program in PROGRAMS}):
        for name in ("go.mod", "go.sum"):
            content = (HERE / folder / name).read_bytes()
            digest.update(f"\n{folder}/{name} {len(content)}\n".encode())
            digest.update(content)
    # Asked from inside a module, because its go line may select another toolchain than the default one.
    asked = [_go(), "env", "GOVERSION", "GOOS", "GOARCH"]
    answer = subprocess.run(asked, cwd=HERE / "kubernetes", capture_output=True, text=True, check=False)  # noqa: S603
    if answer.returncode:
        raise BuildError(f"`go env` failed: {answer.stderr.strip()}")
    digest.update(answer.stdout.encode())
    return digest.hexdigest()[:16]


def is_built(program: Program, directory: Path) -> bool:
    """Whether the program is there; a half-written one never bears this name."""
    return os.access(directory / program.name, os.X_OK)


def build(program: Program, directory: Path) -> None:
    """Put the program into the directory, unless it is there or another run is just putting it there."""
    if is_built(program, directory):
        _say(f"{program.name}: already built")
        return
    directory.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with _lock(directory / f".{program.name}.lock", program.name):
        if is_built(program, directory):
            _say(f"{program.name}: built by another run ({time.monotonic() - started:.0f} s)")
            return
        _say(f"{program.name}: building {pinned_version(program)}")
        unfinished = directory / f".{program.name}.unfinished"
        flags = " ".join([*STRIP, *(f"-X={variable}" for variable in link_variables(program))])
        command = [_go(), *BUILD, f"-ldflags={flags}", "-o", str(unfinished), program.package]
        environment = os.environ | {"CGO_ENABLED": "0"}
        try:
            result = subprocess.run(command, cwd=HERE / program.folder, env=environment, check=False)  # noqa: S603
            if result.returncode:
                raise BuildError(f"{program.name}: go build exited with {result.returncode}; its own words are above")
            unfinished.replace(directory / program.name)
        finally:
            unfinished.unlink(missing_ok=True)
    _say(f"{program.name}: built ({time.monotonic() - started:.0f} s)")


def link_variables(program: Program) -> list[str]:
    """The linker's settings with the pinned version written in."""
    major, minor, patch = pinned_version(program).removeprefix("v").split(".", 2)
    return [variable.format(major=major, minor=minor, patch=patch) for variable in program.variables]


def pinned_version(program: Program) -> str:
    """The version that the program's `go.mod` requires."""
    path = HERE / program.folder / "go.mod"
    found = re.search(rf"^(?:require)?\s+{re.escape(program.module)} (v\S+)$", path.read_text(), re.MULTILINE)
    if not found:
        raise BuildError(f"{path} does not require {program.module}; add it with `go get`")
    return found[1]


def _go() -> str:
    if not (go := shutil.which("go")):
        raise BuildError("`go` is not on the PATH; install the Go release that tools/kubernetes/*/go.mod names")
    return go


@contextlib.contextmanager
def _lock(path: Path, name: str) -> Iterator[None]:
    """Hold a lock that the kernel drops if we die, so that a killed build blocks nobody."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"{name}: waiting for another run that builds it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _names() -> list[str]:
    return [program.name for program in PROGRAMS]


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
