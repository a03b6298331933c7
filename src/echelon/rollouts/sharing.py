"""A rollout as a picture or a page of its own, for a chat or a change ticket: one file that asks nobody for anything.

Names and messages are text of others. Whatever would be markup is escaped, whatever no XML may have and whatever turns
text around is written out, and the page forbids scripts should any of that fail.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from html import escape

from echelon.rollouts.picture import (
    DONE,
    FAILED,
    MOVING,
    OUTDATED,
    SKIPPED,
    SOAKING,
    TIMED_OUT,
    WAITING,
    ClusterLine,
    GroupLine,
    Line,
    Picture,
)

_COLOURS = {
    DONE: "#6f9f86",
    SOAKING: "#9dbbe3",
    MOVING: "#3f74c4",
    FAILED: "#bf3b3b",
    TIMED_OUT: "#a8632a",
    WAITING: "#cdd3dc",
    SKIPPED: "#e3e6eb",
    OUTDATED: "#b9a679",
}
_QUIET = (DONE, WAITING, SKIPPED)
_WIDTH, _ROW, _LEFT = 760, 22, 190
_MOST_GROUPS, _MOST_NAMED, _LONGEST = 40, 15, 100
# No XML may have these, or a reader obeys them, or nobody sees them.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_STYLE = (
    "body{font:14px/20px system-ui,sans-serif;color:#1d2430;max-width:800px;margin:24px auto;padding:0 16px}"
    "h1{font-size:20px}h2{font-size:15px;margin:20px 0 4px}ul{list-style:none;padding-left:16px;margin:4px 0}"
    "h1,h2,p,li{overflow-wrap:anywhere}.sub{color:#5c6679}svg{max-width:100%;height:auto}"
    # The picture stays as it is, on white: a chat shows it alone.
    "@media(prefers-color-scheme:dark){body{color:#e4e8ef;background:#10131a}.sub{color:#8d98aa}}"
    "@media print{body{margin:0;color:#1d2430;background:#fff}}"
)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def svg(picture: Picture, at: datetime) -> str:
    """Return a rollout as one picture: how far it is, wave by wave, and what is not well."""
    lines = [*_drawn(picture, at)]
    height = lines[-1][0] + 20
    body = "\n".join(text for _, text in lines)
    title = _text(f"{picture.namespace}/{picture.name}: {picture.state}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}" '
        f'role="img" font-family="system-ui, sans-serif" font-size="13">\n<title>{title}</title>\n'
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>\n{body}\n</svg>\n'
    )


def html(picture: Picture, at: datetime) -> str:
    """Return a rollout as a page: the picture, and every cluster that is not simply done or waiting."""
    title = _text(f"{picture.namespace}/{picture.name}: {picture.state}")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n<style>{_STYLE}</style></head><body>\n'
        f"<h1>{title}</h1>\n{svg(picture, at)}{''.join(_sections(picture))}</body></html>\n"
    )


def _drawn(picture: Picture, at: datetime) -> Iterator[tuple[int, str]]:
    """Walk the elements of the picture, each with where it ends."""
    head = f"{picture.namespace}/{picture.name}"
    yield 28, _words(16, 28, head, size=17, weight=600)
    revision = f", revision {picture.number}" if picture.number else ""
    told = f"{picture.kind}{revision}, {picture.state}, {at:%Y-%m-%d %H:%M:%SZ}"
    yield 48, _words(16, 48, told, colour="#69748a")
    y = 48
    if picture.message:
        y += 20
        yield y, _words(16, y, picture.message, colour="#8a4d17")
    y += 14
    yield y + 14, _bar(16, y, _WIDTH - 32, 14, picture.counts)
    y += 30
    yield y, _words(16, y, _counted(picture.counts, picture.noun), colour="#4a5565")
    for group in picture.groups[:_MOST_GROUPS]:
        y += _ROW + 2
        yield y, _words(16, y, group.title, weight=600 if group.active else 400, room=_LEFT - 24)
        yield y, _bar(_LEFT, y - 10, 300, 10, group.counts)
        yield y, _words(_LEFT + 312, y, _counted(group.counts), colour="#69748a", room=_WIDTH - _LEFT - 330)
    if len(picture.groups) > _MOST_GROUPS:
        y += _ROW
        yield y, _words(16, y, f"{len(picture.groups) - _MOST_GROUPS} more groups", colour="#69748a")
    loud = [line for group in picture.groups for line in group.clusters if line.state in (FAILED, TIMED_OUT)]
    for line in loud[:_MOST_NAMED]:
        y += _ROW
        said = f"✕ {line.name}: {line.state}{f', {line.message}' if line.message else ''}"
        yield y, _words(16, y, said, colour="#a82e2e")
    if len(loud) > _MOST_NAMED:
        y += _ROW
        yield y, _words(16, y, f"{len(loud) - _MOST_NAMED} more that failed", colour="#a82e2e")


def _bar(x: int, y: int, width: int, height: int, counts: Mapping[str, int]) -> str:
    """Return how many are in which state, side by side."""
    total, at = sum(counts.values()), float(x)
    parts = [f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="#eceef2"/>']
    for state, colour in _COLOURS.items():
        if counts.get(state):
            wide = width * counts[state] / total
            parts.append(
                f'<rect x="{at:.1f}" y="{y}" width="{max(1.0, wide - 0.5):.1f}" height="{height}" fill="{colour}"/>'
            )
            at += wide
    return "".join(parts)


def _words(
    x: int, y: int, text: str, *, colour: str = "#1d2430", size: int = 13, weight: int = 400, room: int = _WIDTH - 32
) -> str:
    most = min(_LONGEST, int(room / (size * 0.55)))
    shown = text if len(text) <= most else f"{text[: most - 1]}…"
    return f'<text x="{x}" y="{y}" fill="{colour}" font-size="{size}" font-weight="{weight}">{_text(shown)}</text>'


def _sections(picture: Picture) -> Iterator[str]:
    for text in filter(None, (picture.message, picture.note, picture.budget and f"Budget: {picture.budget}")):
        yield f"<p>{_text(text)}</p>\n"
    for group in picture.groups:
        yield from _group(group)
    if picture.parts:
        yield f"<h2>Parts</h2>\n<ul>{''.join(map(_part, picture.parts))}</ul>\n"


def _group(group: GroupLine) -> Iterator[str]:
    yield f'<h2>{_text(group.title)} <span class="sub">{_text(group.placement)}, {_counted(group.counts)}</span></h2>\n'
    if group.message:
        yield f"<p>{_text(group.message)}</p>\n"
    loud = [line for line in group.clusters if line.state not in _QUIET]
    yield f"<ul>{''.join(map(_cluster, loud))}</ul>\n" if loud else ""


def _cluster(line: ClusterLine) -> str:
    objects = "".join(
        f"<li>{_text(each.title)}: {_text(each.state)} {_text(each.message)}</li>"
        for each in line.objects
        # What the cluster's own message says already is not said twice.
        if each.state != DONE and not (each.title in line.message and each.message in line.message)
    )
    below = f"<ul>{objects}</ul>" if objects else ""
    return f"<li><b>{_text(line.name)}</b> {_text(line.state)} {_text(line.age)} {_text(line.message)}{below}</li>\n"


def _part(line: Line) -> str:
    below = f"<ul>{''.join(map(_part, line.parts))}</ul>" if line.parts else ""
    return f"<li><b>{_text(line.title)}</b> {_text(line.state)} {_text(line.text)} {_text(line.message)}{below}</li>\n"


def _counted(counts: Mapping[str, int], noun: str = "") -> str:
    told = ", ".join(f"{counts[state]} {state}" for state in _COLOURS if counts.get(state)) or "nothing yet"
    return f"{sum(counts.values())} {noun}: {told}" if noun else told


def _text(text: str) -> str:
    """Return text of others as text."""
    return escape(_UNSAFE.sub(_written_out, text))


def _written_out(found: re.Match[str]) -> str:
    return " " if found[0] in "\t\n" else f"\\u{ord(found[0]):04x}"
