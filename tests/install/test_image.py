"""What can be told of the image without building it: that it is pinned, whole, and runs as nobody."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONTAINERFILE = (ROOT / "container" / "Containerfile").read_text()
INSTRUCTIONS = re.findall(r"^([A-Z]+) (.*)", re.sub(r"\\\n", "", CONTAINERFILE), re.MULTILINE)


def _locked(path: str) -> dict[str, set[str]]:
    """Return the hashes of what a lock file names, by name and version."""
    blocks = re.split(r"^(?=\S+==)", (ROOT / path).read_text(), flags=re.MULTILINE)[1:]
    return {block.split()[0]: set(re.findall(r"--hash=(\S+)", block)) for block in blocks}


def test_all_stages_begin_with_a_base_that_is_named_by_its_digest() -> None:
    bases = [rest.split()[0] for word, rest in INSTRUCTIONS if word == "FROM"]
    assert set(bases) == {"${BASE}"}
    (default,) = [rest for word, rest in INSTRUCTIONS if word == "ARG"]
    assert re.fullmatch(r"BASE=\S+@sha256:[0-9a-f]{64}", default)


def test_the_image_has_the_versions_that_the_tests_ran_with_and_no_others() -> None:
    locked, image = _locked("requirements.txt"), _locked("container/requirements.txt")
    assert image, "run make lock"
    assert [name for name, hashes in image.items() if locked.get(name) != hashes] == [], "run make lock"


def test_nothing_is_installed_without_its_hash_being_compared() -> None:
    installing = [
        rest for word, rest in INSTRUCTIONS if word == "RUN" for rest in re.findall(r"pip install[^&]*", rest)
    ]
    assert len(installing) == 2
    assert all("--require-hashes" in each or "--no-index" in each for each in installing)


def test_the_program_runs_as_a_number_that_is_not_root() -> None:
    last_stage = INSTRUCTIONS[max(at for at, (word, _) in enumerate(INSTRUCTIONS) if word == "FROM") :]
    users = [rest for word, rest in last_stage if word == "USER"]
    assert len(users) == 1
    assert all(int(part) > 0 for part in users[0].split(":"))


def test_nothing_but_what_is_copied_is_sent_to_the_builder() -> None:
    ignored = (ROOT / ".containerignore").read_text().split()
    copied = [rest.split()[0] for word, rest in INSTRUCTIONS if word == "COPY" and "--from" not in rest]
    assert ignored == ["*", *(f"!{each}" for each in copied)]
