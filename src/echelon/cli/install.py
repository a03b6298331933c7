"""`echelon install`: what runs Echelon in a cluster, as plain manifests; Helm charts have the same source."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from echelon.cli.program import Group

if TYPE_CHECKING:
    from echelon.install.installation import Installation

_INSTALLATIONS = ("hub", "agent")


def _installation(which: str) -> "Installation":
    if which == "hub":
        from echelon.install.hub import HUB

        return HUB
    from echelon.install.agent import MEMBER

    return MEMBER


def _configured(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the argument and the options that say what is installed, and how."""
    for option in (
        click.option(
            "--set", "given", multiple=True, metavar="PATH=VALUE", help="A setting, as YAML; may be repeated."
        ),
        click.option(
            "--values",
            "files",
            multiple=True,
            type=click.Path(path_type=Path, dir_okay=False, exists=True),
            help="A file with settings, as Helm takes it; may be repeated.",
        ),
        click.argument("which", type=click.Choice(_INSTALLATIONS)),
    ):
        command = option(command)
    return command


@click.group(cls=Group)
def install() -> None:
    """Print what runs Echelon in a cluster: the controllers of a hub, or the agent of a member."""


@install.command()
@_configured
@click.option(
    "-n", "--namespace", default="", help="Namespace to install into; echelon-system or echelon-agent if empty."
)
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", help="Format to print.")
def manifests(*, which: str, files: tuple[Path, ...], given: tuple[str, ...], namespace: str, output: str) -> None:
    """Print manifests for `kubectl apply --server-side -f -`.

    They are what `helm template` makes of the chart with the same settings, and have the namespace as well.
    """
    from echelon.cli.output import print_documents
    from echelon.install.settings import BadSettings

    try:
        made = _installation(which).manifests(_read(files, given), namespace)
    except BadSettings as error:
        raise click.ClickException(f"{error}\n  All settings: echelon install values {which}") from error
    print_documents(made, output)


@install.command()
@click.argument("which", type=click.Choice(_INSTALLATIONS))
def values(*, which: str) -> None:
    """Print all settings with their defaults, and what each means."""
    click.echo(_installation(which).chart()["values.yaml"], nl=False)


def _read(files: tuple[Path, ...], given: tuple[str, ...]) -> dict[str, Any]:
    import yaml

    from echelon.install.settings import assigned, merged

    found: dict[str, Any] = {}
    for file in files:
        try:
            read = yaml.safe_load(file.read_text()) or {}
        except yaml.YAMLError as error:
            raise click.ClickException(f"{file} is no YAML: {error}") from error
        if not isinstance(read, dict):
            raise click.ClickException(f"{file} is no map of settings")
        found = merged(found, read)
    return merged(found, assigned(given))
