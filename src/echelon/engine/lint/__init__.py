"""What is wrong, or hardly meant, in placements, work sets, policies and bindings that are still files.

A server drops fields that it does not know, a mistyped group stops a rollout only when it begins, and a zero means
everybody. Whoever writes such a file should hear of it before anything moves. Files are read as people write them, so
nothing here may fail on a shape that nobody expects: what cannot be understood is left to the server.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from echelon.engine.lint.bindings import lint_binding
from echelon.engine.lint.documents import (
    BINDING,
    ERROR,
    PLACEMENT,
    POLICY,
    WARNING,
    WORK_SET,
    Document,
    Documents,
    Finding,
    documents_in,
)
from echelon.engine.lint.placements import lint_placement
from echelon.engine.lint.policies import lint_policy
from echelon.engine.lint.spellings import older_words
from echelon.engine.lint.work_sets import lint_work_set

__all__ = ["ERROR", "WARNING", "Finding", "lint", "lint_documents", "read"]


def lint(documents: Iterable[tuple[str, Any]]) -> tuple[Finding, ...]:
    """Look at documents, each with the name of its file; those that belong together are to be looked at together."""
    return lint_documents(read(documents))


def read(documents: Iterable[tuple[str, Any]], beside: Iterable[Any] = ()) -> Documents:
    """Read documents of files, and what there is beside them."""
    return Documents(
        tuple(one for file, document in documents for one in documents_in(file, document)),
        tuple(one for document in beside for one in documents_in("", document)),
    )


def lint_documents(known: Documents) -> tuple[Finding, ...]:
    """Look at documents that have been read."""
    return tuple(found for one in known.documents for found in _lint(one, known))


def _lint(one: Document, known: Documents) -> Iterator[Finding]:
    yield from older_words(one)
    if one.kind == PLACEMENT:
        yield from lint_placement(one)
    elif one.kind == WORK_SET:
        yield from lint_work_set(one, known)
    elif one.kind == POLICY:
        yield from lint_policy(one, known)
    elif one.kind == BINDING:
        yield from lint_binding(one, known)
