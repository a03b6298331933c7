"""What designs say about the source: modules, classes with their members, and the two walks as lists of functions."""

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

from tests.docs.pages import ROOT

SOURCE = ROOT / "src" / "echelon"
PAGES = sorted((ROOT / "docs" / "designs").glob("*.md"))
_QUOTED = re.compile(r"`([^`\n]+)`(?: \(`([^`]+\.py)`\))?")
_NAMED = re.compile(r"(?:(\w+)\.)?(\w+)(?:\(.*\).*)?")


def quoted(text: str) -> Iterator[tuple[str, str]]:
    """Yield what is quoted in a text, and the module that is named behind it."""
    for found in _QUOTED.finditer(re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        yield found[1], found[2] or ""


@cache
def _files() -> list[Path]:
    return [each for where in ("src", "tests", "tools", "bench") for each in (ROOT / where).rglob("*.py")]


def modules(named: str) -> list[Path]:
    """Return the modules that a path means: `kube/act.py`, `act.py` alone, or `cli/rollout*.py`."""
    return [each for each in _files() if fnmatch(each.as_posix(), f"*/{named}")]


@cache
def names(module: Path) -> dict[str, set[str]]:
    """Return the functions and classes of a module, and the members of each."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.setdefault(node.name, set())
        elif isinstance(node, ast.ClassDef):
            found.setdefault(node.name, set()).update(_members(node))
    return found


def _members(node: ast.ClassDef) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            yield each.name
        elif isinstance(each, ast.AnnAssign | ast.Assign):
            for target in each.targets if isinstance(each, ast.Assign) else [each.target]:
                if isinstance(target, ast.Name):
                    yield target.id
                elif isinstance(target, ast.Attribute):
                    yield target.attr


@cache
def everything() -> dict[str, set[str]]:
    """Return all functions and classes, and the members of all classes of a name."""
    found: dict[str, set[str]] = {}
    for module in SOURCE.rglob("*.py"):
        for name, members in names(module).items():
            found.setdefault(name, set()).update(members)
    return found


def is_there(said: str, module: str = "") -> bool:
    """Whether a function, or a member of a class, is there, in a module if one is named."""
    named = _NAMED.fullmatch(said)
    if named is None:
        return False
    owner, name = named[1], named[2]
    known = [names(each) for each in modules(module)] if module else [everything()]
    return any(name in each.get(owner, ()) if owner else name in each for each in known)


def walk(page: str, title: str) -> list[tuple[str, str]]:
    """Return the functions of a walk in their order, each with its module where the page names it.

    In a table they are what stands first in the second cell; in a list whatever is quoted before the colon.
    """
    text = section(page, title)
    if rows := re.findall(r"^\|[^|`]*\| (`[^`]+`) \|", text, re.MULTILINE):
        return [each for row in rows for each in quoted(row)]
    steps = re.findall(r"^\d+\. (.*?):", text, re.MULTILINE | re.DOTALL)
    return [each for step in steps for each in quoted(step)]


def section(page: str, title: str) -> str:
    """Return a section of a design."""
    text = (ROOT / "docs" / "designs" / page).read_text()
    found = re.search(rf"^## {re.escape(title)}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"{page} has no section {title}"
    return found[1]
