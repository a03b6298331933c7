"""What Grove's own tests check of PodCliqueSets, what is known to go wrong there, and which tests of ours hold it.

The list is `checklist.tsv`: a section of differences (name, sentence), then sections of lines (number, what is checked,
differences, why it does not apply, tests as `file::test` below `tests/`). A line is held by tests, or says why it does
not apply; where it differs on purpose, the tests hold what is done instead.

`test_checklist` sees that every line has an answer, that every test exists, and that docs/pod-cliques-upstream.md says
the same; `python -m tests.engine.pod_clique.checklist` writes that page.
"""

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "pod-cliques-upstream.md"
DIFFERENT = "What remains different"

# How many lines each part has: one that is taken out is missed.
NUMBERED = {
    "PCS": range(1, 12),
    "PCLQ": range(1, 20),
    "PCSG": range(1, 10),
    "GANG": range(1, 11),
    "OD": range(1, 10),
    "RU": range(7, 22),
    "GT": range(1, 7),
    "GS": range(1, 13),
    "SO": range(1, 5),
    "E2E": range(1, 3),
    "NEW": range(1, 15),
    "INF": range(1, 13),
}
BUGS = "277 316 400 401 565 661 672 676 697 709 741 744 775 786 790 826 840"  # of upstream's issues

_OPENING = f"""\
# What Grove's own tests check of PodCliqueSets

Grove tests its controllers with unit tests and with end-to-end stories on a cluster. The lists below are what they
check, in our words, and which tests of ours hold the same; then what is known to go wrong there, from its code and from
its issues, each with a test that fails if it goes wrong here. Paths are below `tests/`. Stories are told on a simulated
cluster, whose scheduler places gangs all or nothing, and in `e2e/` on a real control plane with kwok nodes; there no
scheduler knows of gangs, so only gates and the waiter are seen.

`tests/engine/pod_clique/checklist.tsv` is the source of this page and names each test.

## {DIFFERENT}
"""


@dataclass(frozen=True)
class Line:
    """Something that is checked, and our answer."""

    id: str
    what: str
    differs: tuple[str, ...]
    not_here: str  # why it does not apply
    tests: tuple[str, ...]


@dataclass(frozen=True)
class Checklist:
    """The whole list."""

    differences: Mapping[str, str]  # what is done on purpose in another way, by a short name
    sections: Mapping[str, tuple[Line, ...]]

    @property
    def lines(self) -> tuple[Line, ...]:
        """All lines."""
        return tuple(each for lines in self.sections.values() for each in lines)


def _line(text: str) -> Line:
    number, what, differs, not_here, tests = text.split("\t")
    return Line(number, what, tuple(differs.split(", ")) if differs else (), not_here, tuple(tests.split()))


def read() -> Checklist:
    """Return the list as it is written."""
    sections: dict[str, list[str]] = {}
    for text in Path(__file__).with_suffix(".tsv").read_text().splitlines():
        if text.startswith("# "):
            sections[text.removeprefix("# ")] = []
        elif text:
            sections[next(reversed(sections))].append(text)
    differences = dict(each.split("\t") for each in sections.pop(DIFFERENT))
    return Checklist(differences, {title: tuple(map(_line, lines)) for title, lines in sections.items()})


def _item(text: str) -> str:
    return textwrap.fill(text, 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def render(found: Checklist) -> str:
    """Return the page."""
    parts = [_OPENING, *(_item(f"- **{name}**: {text}") for name, text in found.differences.items())]
    for title, lines in found.sections.items():
        parts += ["", f"## {title}", "", "| | what is checked | here | held by |", "|---|---|---|---|"]
        for each in lines:
            here = each.not_here or (f"differs: {', '.join(each.differs)}" if each.differs else "same")
            files = sorted({test.partition("::")[0] for test in each.tests})
            parts.append(f"| {each.id} | {each.what} | {here} | {', '.join(f'`{file}`' for file in files)} |")
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(render(read()))
