"""What pages tell people to type.

A block of the kind `console` has commands after `$ `, with what they print below; a command goes on in the next line
after a backslash or a pipe. Comments before a block, which readers do not see, say more:

    <!-- needs: two clusters of yours -->   the block is not run; its commands must still exist, with their options
    <!-- file: site.yaml -->                the block is a file that commands after it use
    <!-- run: kubectl ... -->               a command that is run here, and not shown
    <!-- after: docs/first-rollout.md -->   another page that has to be run before

A command whose exit code is not 0 says so in a comment: `# exits 1`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md")
_PART = re.compile(
    r"^[ ]*<!-- (?P<word>needs|file|run|after): (?P<said>.*?) -->$|^[ ]*```(?P<kind>\w*)\n(?P<text>.*?)^[ ]*```$",
    re.DOTALL | re.MULTILINE,
)
_EXITS = re.compile(r"\s+# exits (\d+)$")


@dataclass(frozen=True)
class Command:
    """Something to type."""

    text: str
    line: int
    needs: str = ""  # what a test cannot have
    exits: int = 0


@dataclass(frozen=True)
class File:
    """Something to save."""

    name: str
    text: str


@dataclass(frozen=True)
class After:
    """A page to read first."""

    page: str


def pages() -> list[Path]:
    """Return every page with commands for people."""
    return [*(ROOT / each for each in PAGES), *sorted((ROOT / "docs").glob("*.md"))]


def parts(page: Path) -> Iterator[Command | File | After]:
    """Return what a page asks for, in its order."""
    text, needs, file = page.read_text(), "", ""
    for found in _PART.finditer(text):
        line = text[: found.start()].count("\n") + 1
        match found["word"]:
            case "needs":
                needs = found["said"]
                continue
            case "file":
                file = found["said"]
                continue
            case "run":
                yield Command(found["said"], line)
                continue
            case "after":
                yield After(found["said"])
                continue
        if found["kind"] == "console":
            yield from _commands(found["text"], line, needs)
        elif file:
            yield File(file, found["text"])
        needs = file = ""


def _commands(block: str, line: int, needs: str) -> Iterator[Command]:
    lines = block.splitlines()
    number = 0
    while number < len(lines):
        begin, text = number, lines[number].strip()
        number += 1
        if not text.startswith("$ "):
            continue
        while text.endswith(("\\", "|")):
            text += "\n" + lines[number]
            number += 1
        exits = _EXITS.search(text)
        yield Command(_EXITS.sub("", text[2:]), line + begin + 1, needs, int(exits[1]) if exits else 0)
