"""`echelon lint`: what is wrong with placements, work sets and policies, before they are applied."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from echelon.cli.connection import Connection, connected, namespace_option
from echelon.cli.terminal import echo

if TYPE_CHECKING:
    from echelon.engine.lint import Finding

_SUFFIXES = (".yaml", ".yml", ".json")


@click.command()
@connected
@namespace_option
@click.option("--hub", "on_hub", is_flag=True, help="Ask the hub, too: whom placements select, and what there is.")
@click.option(
    "-f", "--filename", "sources", multiple=True, required=True, help="File or directory, - for input; repeatable."
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Format to print.")
def lint(*, connection: Connection, namespace: str, on_hub: bool, sources: tuple[str, ...], output: str) -> None:
    """Look at placements, work sets, policies and bindings that are still files.

    Finds older spellings of fields, strategies that cannot be carried out or have no effect, mandatory groups that the
    placement in the same files does not have, templates that are never enforced, and what is hardly meant. The exit
    code is 1 if there is an error; warnings are no errors. With --hub also placements that select nobody there, empty
    groups, and references to placements that do not exist.
    """
    from msgspec import to_builtins

    from echelon.cli.output import print_document
    from echelon.engine.lint import ERROR, lint_documents, read

    documents = [document for source in sources for document in _documents(source)]
    if on_hub:
        from echelon.cli.lint_on_hub import look_on_hub

        found = look_on_hub(connection, namespace, documents)
    else:
        found = lint_documents(read(documents))
    if output == "json":
        print_document([to_builtins(each) for each in found], output)
    else:
        for each in found:
            echo(_line(each))
    if any(each.severity == ERROR for each in found):
        raise SystemExit(1)


def _line(each: "Finding") -> str:
    from echelon.engine.lint import WARNING

    warning = f"{WARNING}: " if each.severity == WARNING else ""
    return f"{each.file}: {each.kind}/{each.name}: {each.field}: {warning}{each.problem}"


def _documents(source: str) -> Iterator[tuple[str, Any]]:
    if source == "-":
        yield from _read("-", sys.stdin.read())
        return
    path = Path(source)
    if not path.exists():
        raise click.BadParameter(f"there is no {source}", param_hint="-f")
    files = sorted(each for each in path.rglob("*") if each.suffix in _SUFFIXES) if path.is_dir() else [path]
    for file in files:
        try:
            text = file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise click.ClickException(f"{file}: {error}") from error
        yield from _read(str(file), text)


def _read(name: str, text: str) -> Iterator[tuple[str, Any]]:
    from echelon.api.yaml_documents import UnreadableYaml, read_documents

    try:
        for document in read_documents(text):
            yield name, document
    except UnreadableYaml as error:
        raise click.ClickException(f"{name}: {error}") from error
