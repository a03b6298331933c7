"""Text of agents and tenants on the terminal of an administrator."""

import ast
import json
import logging
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from echelon.cli import columns, logs, output, terminal
from echelon.cli.connection import errors_said
from echelon.cli.rollout_tree import with_message
from echelon.kube.errors import Forbidden

# Moves the cursor up and paints over it; a title of the window; colours; the eight-bit command; text turned around;
# text that nobody sees.
HOSTILE = [
    "\x1b[2A\x1b[2Kall is well",
    "\x1b]0;gotcha\x07",
    "\x1b[32mdone\x1b[0m",
    "\x9b2J",
    "a\u202egnp.exe",
    "\u2066x\u2069",
    "a\U000e0041\u200bb",
    "first\nsecond",
    "\rover",
    "back\x08\x08",
]
OBEYED = {*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), *map(chr, range(0x202A, 0x202F))}
CLI = Path(terminal.__file__).parent
# What may print as it is: the one place for people, documents for programs, definitions and settings of charts, which
# are ours, and commands of a line that is written over.
RAW = {"terminal.py", "output.py", "crds_choosing.py", "install.py", "up_process.py"}


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    out, err = capsys.readouterr()
    return out + err


@pytest.mark.parametrize("text", HOSTILE)
def test_a_terminal_obeys_nobody_in_a_line_a_table_or_an_error(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    terminal.echo(f"cluster a: {text}")
    terminal.echo(terminal.style(text, bold=True))
    columns.print_columns(["name", "message"], [["a", text], ["b", 1]])
    for line in with_message("head", text, "  ", 80):
        terminal.echo(line)
    shown = printed(capsys)
    assert not OBEYED & ({*shown} - {"\n"})
    assert shown.count("\n") == len(shown.splitlines()) == 6
    with pytest.raises(click.ClickException) as caught, errors_said():
        raise Forbidden(text)
    assert not OBEYED & {*caught.value.message}
    with pytest.raises(click.ClickException) as caught, errors_said():
        raise click.ClickException(f"there is no {text}")
    assert not OBEYED & ({*caught.value.message} - {"\n"})


@given(st.text())
def test_whatever_a_text_is_it_stays_readable_and_is_one_line(text: str) -> None:
    shown = terminal.clean(text)
    assert not OBEYED & {*shown}
    assert all(each in shown for each in text if each.isalnum())


@pytest.mark.parametrize("text", HOSTILE)
def test_documents_for_programs_mean_the_same(text: str) -> None:
    document = {"message": text, "name": "größe"}

    @click.command()
    @click.option("-o", "form")
    def show(form: str) -> None:
        output.print_document(dict(document), form)

    for form, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        shown = CliRunner().invoke(show, ["-o", form]).output
        assert read(shown) == document
        assert not OBEYED & ({*shown} - {"\n"})


@pytest.mark.parametrize("text", HOSTILE)
def test_logs_obey_nobody_either(text: str) -> None:
    record = logging.makeLogRecord({"msg": "from the cluster: %s", "args": (text,), "levelname": "INFO"})
    assert not OBEYED & {*logs.TextFormatter("%(levelname)s %(message)s").format(record)}
    line = logs.JSONFormatter().format(record)
    assert not OBEYED & {*line}
    assert json.loads(line)["message"].endswith(text)


def test_our_own_styles_and_lines_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    text = terminal.joined([terminal.style("done", fg="green"), "next"])
    assert terminal.plain(text) == "done\nnext"
    terminal.echo(text)
    assert printed(capsys) == "done\nnext\n"


def test_nothing_else_prints() -> None:
    for path in CLI.glob("*.py"):
        calls = {ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)}
        direct = calls & {"print", "click.echo", "click.secho", "click.style", "sys.stdout.write", "sys.stderr.write"}
        assert not direct or path.name in RAW, f"{path.name} prints past echelon.cli.terminal: {direct}"
