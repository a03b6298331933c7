"""Output formats that commands share."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from echelon.cli.terminal import escaped, is_clean

if TYPE_CHECKING:
    from echelon.api.base import JSON, JSONObject

SHARED = ("svg", "html")  # files for a chat or a ticket


def _formats(*more: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "wide", "json", "yaml", *more]),
        default="table",
        show_default=True,
        help="Format to print.",
    )


output_option = _formats()
shared_output_option = _formats(*SHARED)

headers_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--no-headers", is_flag=True, help="Print tables without their titles."
)


def is_document(output: str) -> bool:
    """Whether a format is for programs."""
    return output in ("json", "yaml")


def print_document(document: "JSON", output: str) -> None:
    """Print a value as JSON or YAML."""
    click.echo(to_text(document, output), nl=False)


def to_text(document: "JSON", output: str) -> str:
    """Return a value as JSON or YAML in which nothing makes a terminal do anything."""
    if output == "json":
        import json

        return escaped(json.dumps(document, indent=2, ensure_ascii=False)) + "\n"
    text = _yaml(document, allow_unicode=True)
    return text if is_clean(text) else _yaml(document, allow_unicode=False)


def _yaml(document: "JSON", *, allow_unicode: bool) -> str:
    import yaml

    dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(document, Dumper=dumper, sort_keys=False, width=120, allow_unicode=allow_unicode)
    return text


def listed(objects: "Sequence[JSONObject]") -> "JSONObject":
    """Return objects as the list that kubectl prints and reads."""
    return {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": list(objects)}


def print_documents(documents: "Sequence[JSONObject]", output: str) -> None:
    """Print objects in a form that kubectl takes."""
    import json

    if output == "json":
        click.echo(json.dumps(listed(documents), indent=2))
        return
    for document in documents:
        click.echo("---")
        # Parts that documents share would become anchors, which nobody can read or cut apart; a copy shares nothing.
        click.echo(_yaml(json.loads(json.dumps(document)), allow_unicode=True), nl=False)
