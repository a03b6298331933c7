"""Which tests a file has, for pages that name them."""

import ast
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent


@cache
def names_in(file: str) -> frozenset[str]:
    """Return the tests of a file below `tests/`; those of a class as `Class::test`."""
    tree = ast.parse((TESTS / file).read_text())
    found = [each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    for group in [each for each in tree.body if isinstance(each, ast.ClassDef)]:
        found += [f"{group.name}::{each.name}" for each in group.body if isinstance(each, ast.FunctionDef)]
    return frozenset(name for name in found if name.rpartition("::")[2].startswith("test_"))


def is_there(test: str) -> bool:
    """Whether a test exists, given as `file::test` or `file::Class::test`."""
    file, _, name = test.partition("::")
    return (TESTS / file).is_file() and name in names_in(file)
