"""Every command of every page works as it is printed, one page after the other on one simulated fleet.

What needs something else says so, and is still read: the commands and options that it names must exist.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pytest

from echelon.cli import main
from echelon.fleet.member.fleet_spec import CLAUSES
from tests.docs.pages import ROOT, After, Command, File, pages, parts

PATIENCE_SECONDS = 240.0
NAMES = [str(page.relative_to(ROOT)) for page in pages()]
FIRST_PAGE = "README.md"  # what a newcomer types; make test-all runs all pages
_WORD = re.compile(r"\$\(|[|;&()]|\|\||&&")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, kubectl: str) -> Iterator[Path]:
    """A directory as people have it, and a fleet of six clusters; the hints that it printed are in `hints`."""
    directory = tmp_path_factory.mktemp("docs")
    for each in ("examples", "docs", "charts", "container"):
        (directory / each).symlink_to(ROOT / each)
    programs = directory / ".venv" / "bin"
    programs.mkdir(parents=True)
    for each in ("echelon", "kubectl-echelon"):
        (programs / each).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m echelon "$@"\n')
        (programs / each).chmod(0o755)
    (programs / "kubectl").symlink_to(kubectl)
    hints = directory / "hints"
    command = [
        sys.executable,
        "-m",
        "echelon",
        "up",
        "--clusters",
        "6",
        "--fleet",
        "no troubles; image *:bad* fails on all",
    ]
    with hints.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=directory)
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while "logs -n" not in hints.read_text():
            assert process.poll() is None, hints.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield directory
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
    assert "Traceback" not in hints.read_text(), hints.read_text()


def environment(place: Path) -> dict[str, str]:
    path = f"{place / '.venv' / 'bin'}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "KUBECONFIG": str(place / "echelon.kubeconfig"), "NO_COLOR": "1"}


def run_page(place: Path, page: str) -> None:
    """Run a page, if nobody has."""
    ran = place / "ran"
    if page not in (ran.read_text().splitlines() if ran.exists() else ()):
        run(place, list(parts(ROOT / page)))
        with ran.open("a") as file:
            file.write(f"{page}\n")


def run(place: Path, asked: Sequence[Command | File | After]) -> None:
    """Type everything into one shell; the first command that ends otherwise than it should is named."""
    script = ["trap 'kill $(jobs -p) 2>/dev/null' EXIT", "cd " + shlex.quote(str(place))]
    for each in asked:
        if isinstance(each, After):
            run_page(place, each.page)
        elif isinstance(each, File):
            (place / each.name).write_text(each.text)
        elif not each.needs:
            said = shlex.quote(f"line {each.line}: {each.text}")
            script += [f"printf '$ %s\\n' {said}", each.text]
            script += [
                f"code=$?; [ $code = {each.exits} ] || {{ echo exit code $code, expected {each.exits}; exit 9; }}"
            ]
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", "\n".join(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(place),
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.long
@pytest.mark.xdist_group("docs")
@pytest.mark.parametrize(
    "page", [each if each == FIRST_PAGE else pytest.param(each, marks=pytest.mark.full) for each in NAMES]
)
def test_the_commands_of_a_page_work(page: str, place: Path) -> None:
    run_page(place, page)


@pytest.mark.long
@pytest.mark.xdist_group("docs")
def test_the_hints_of_up_work_as_printed(place: Path) -> None:
    printed = (place / "hints").read_text().partition("Look around:\n")[2].splitlines()
    hints = [Command(line.strip(), number) for number, line in enumerate(printed) if line.startswith("  ")]
    assert [each.text.split()[0] for each in hints[:3]] == ["export", "kubectl", "kubectl"]
    run(place, hints)


@pytest.mark.parametrize("page", NAMES)
def test_commands_and_options_that_a_page_names_exist(page: str) -> None:
    wrong = [
        f"{page}:{each.line}: {problem}"
        for each in parts(ROOT / page)
        if isinstance(each, Command)
        for problem in problems(each.text)
    ]
    assert wrong == []


def problems(text: str) -> Iterator[str]:
    """Return what is wrong with the commands of ours in a line."""
    checked = subprocess.run(["bash", "-n", "-c", text], capture_output=True, text=True, check=False)
    if checked.returncode:
        yield checked.stderr.strip()
        return
    words = list(shlex.shlex(text.replace("\\\n", " "), posix=True, punctuation_chars="|;&()<>"))
    for place, word in enumerate(words):
        first = place == 0 or not words[place - 1].strip("|;&(")
        if first and word.split("/")[-1] == "echelon":
            end = next((n for n in range(place, len(words)) if not words[n].strip("|;&()<>")), len(words))
            yield from _unknown(words[place + 1 : end])


def _unknown(arguments: list[str]) -> Iterator[str]:
    command: click.Command = main
    context = click.Context(main)
    while isinstance(command, click.Group):
        name = arguments.pop(0) if arguments else "--help"
        found = command.get_command(context, name)
        if found is None:
            if not name.startswith("-"):
                yield f"there is no command {name!r}"
            return
        command = found
    known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)} | {"-h", "--help"}
    for word in arguments:
        if word == "--":
            return
        if word.startswith("-") and word.partition("=")[0] not in known:
            yield f"{command.name} has no option {word}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echelon rollout wacth x", "there is no command 'wacth'"),
        ("a=$(echelon rollout list --al)", "list has no option --al"),
        ("kubectl get x | .venv/bin/echelon lint --flie -", "lint has no option --flie"),
        ("echo 'x", "unexpected EOF"),
    ],
)
def test_a_mistake_in_a_page_is_found(text: str, said: str) -> None:
    assert any(said in each for each in problems(text))


def test_what_is_not_run_says_what_it_needs() -> None:
    commands = [each for page in pages() for each in parts(page) if isinstance(each, Command)]
    assert all(len(each.needs.split()) > 1 for each in commands if each.needs)
    assert sum(not each.needs for each in commands) > len(commands) / 2, "most of them are run"


INLINE = re.compile(r"`(echelon [a-z][^`]*)`")


@pytest.mark.parametrize("page", NAMES)
def test_commands_in_the_text_of_a_page_exist(page: str) -> None:
    named = [" ".join(found.split()) for found in INLINE.findall((ROOT / page).read_text())]
    whole = [each for each in named if "…" not in each and "..." not in each and "|" not in each and "[" not in each]
    wrong = [f"{page}: `{each}`: {problem}" for each in whole for problem in problems(each)]
    assert wrong == []


def test_the_page_about_simulated_fleets_has_every_clause() -> None:
    text = (ROOT / "docs" / "simulated-fleets.md").read_text()
    rows = [line for line in text.partition("| clause |")[2].splitlines() if line.startswith("| `")]
    expected = sorted(CLAUSES, key=lambda each: each.is_trouble)
    assert rows == [f"| `{each.form}` | {each.meaning} |" for each in expected]
