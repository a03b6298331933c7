"""The lock file is written by `make lock`; these say when somebody forgot to."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCK = (ROOT / "requirements.txt").read_text()
LOCKED = {canonicalize_name(name): version for name, version in re.findall(r"^(\S+?)==([^\s;]+)", LOCK, re.MULTILINE)}


def _wanted() -> Iterator[Requirement]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lists = [
        settings["build-system"]["requires"],
        settings["project"]["dependencies"],
        *settings["project"]["optional-dependencies"].values(),
        *settings["dependency-groups"].values(),
    ]
    for entries in lists:
        yield from map(Requirement, entries)


def test_everything_that_the_project_asks_for_is_locked_in_a_version_that_will_do() -> None:
    unmet = [str(wanted) for wanted in _wanted() if not _met(wanted)]
    assert unmet == [], "run make lock"


def _met(wanted: Requirement) -> bool:
    version = LOCKED.get(canonicalize_name(wanted.name))
    return version is not None and wanted.specifier.contains(version, prereleases=True)


def test_every_locked_version_has_hashes() -> None:
    blocks = re.split(r"^(?=\S+==)", LOCK, flags=re.MULTILINE)[1:]
    assert len(blocks) == len(LOCKED)
    assert [block.split()[0] for block in blocks if "--hash=sha256:" not in block] == []


def test_the_lock_names_no_place_to_download_from() -> None:
    assert "://" not in LOCK
