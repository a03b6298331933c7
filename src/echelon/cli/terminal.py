"""Everything that is printed for people, and nothing that a terminal would obey but our own.

Names and messages come from agents, tenants and servers. A terminal takes some characters for commands, and shows text
after others backwards or not at all: a message could colour a failure green, or paint over the lines above it. So
whatever is printed goes through here, where such characters are shown as what they are. Our own styles and lines are
known by a mark that nobody else can know.
"""

import os
import re
from collections.abc import Iterable
from typing import Any

import click

# Commands of terminals; what turns text around; what is not visible at all.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_ESCAPE, _LINE = (f"\x00{os.urandom(8).hex()}{kind}" for kind in "el")
_STYLES = re.compile(re.escape(_ESCAPE) + r"\[[0-9;]*[A-Za-z]")


def clean(text: str) -> str:
    """Return a text of others with what a terminal would not show as it is written out."""
    return text if text.isprintable() else _UNSAFE.sub(_written_out, text)


def escaped(document: str) -> str:
    """Return a JSON document, whose strings are the only place for such characters, with them as escapes."""
    return _UNSAFE.sub(lambda found: found[0] if found[0] == "\n" else _json_escape(found[0]), document)


def is_clean(document: str) -> bool:
    """Whether a document of several lines has nothing in it that a terminal would obey."""
    return all(found[0] == "\n" for found in _UNSAFE.finditer(document))


def style(text: str, **how: Any) -> str:
    """Return a text in a colour or weight, unless NO_COLOR is set; it is for `echo` and nothing else."""
    if os.environ.get("NO_COLOR"):
        return _clean_parts(text)
    return click.style(_clean_parts(text), **how).replace("\x1b", _ESCAPE)


def control(sequence: str) -> str:
    """Return a command of our own to the terminal; it is for `echo` and nothing else."""
    return sequence.replace("\x1b", _ESCAPE)


def joined(lines: Iterable[str]) -> str:
    """Return several lines as one text; it is for `echo` and nothing else."""
    return _LINE.join(lines)


def plain(text: str) -> str:
    """Return what is seen of a text, without styles."""
    return "\n".join(clean(line) for line in _STYLES.sub("", text).split(_LINE))


def echo(text: str = "", *, nl: bool = True, err: bool = False) -> None:
    """Print a text. A line break in it is one of others, and is shown as such."""
    lines = "\n".join(_clean_parts(line) for line in text.split(_LINE))
    click.echo(lines.replace(_ESCAPE, "\x1b"), nl=nl, err=err)


def _clean_parts(text: str) -> str:
    return _ESCAPE.join(clean(part) for part in text.split(_ESCAPE))


def _written_out(found: re.Match[str]) -> str:
    code = ord(found[0])
    if found[0] in "\t\n":
        return {"\t": " ", "\n": "\\n"}[found[0]]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _json_escape(character: str) -> str:
    code = ord(character)
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\u{0xD800 + (code - 0x10000 >> 10):04x}\\u{0xDC00 + (code - 0x10000 & 0x3FF):04x}"
