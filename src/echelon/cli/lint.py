"""`echelon lint`: what is wrong with placements, work sets and policies, before they are applied."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from echelon.cli.terminal import echo

if TYPE_CHECKING:
    from echelon.engine.lint import Finding

_SUFFIXES = (".yaml", ".yml", ".json")


@click.command()
@click.option(
    "-f", "--filename", "sources", multiple=True, required=True, help="File or directory, - for input; repeatable."
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Format to print.")
def lint(sources: tuple[str, ...], output: str) -> None:
    """Look at placements, work sets, policies and bindings that are still files.

    Finds older spellings of fields, strategies that cannot be carried out or have no effect, mandatory groups that the
    placement in the same files does not have, templates that are never enforced, and what is hardly meant. The exit
    code is 1 if there is an error; warnings are no errors.
    """
    from msgspec import to_builtins

    from echelon.cli.output import print_document
    from echelon.engine.lint import ERROR
    from echelon.engine.lint import lint as look_at

    found = look_at(document for source in sources for document in _documents(source))
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
