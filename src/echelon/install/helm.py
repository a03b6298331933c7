"""Writes manifests with holes as the templates of a Helm chart.

Everything that comes from a setting is written as JSON, which is YAML too: no setting can break out of its place,
however it is spelled. Braces that stand in a manifest itself, as in the text of an alert, are no template of Helm's.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from echelon.install.template import AllOf, AnyOf, Condition, Each, Joined, Namespace, Node, Not, Value, When

_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*")
_WORDS = frozenset(("true", "false", "null", "yes", "no", "on", "off", "y", "n"))


def templates(documents: Sequence[Node]) -> str:
    """Return documents as the text of a template."""
    return "".join(f"{line}\n" for document in documents for line in _document(document))


def _document(node: Node) -> Iterator[str]:
    if isinstance(node, When):
        yield f"{{{{- if {_go(node.condition)} }}}}"
        yield from _document(node.then)
        yield "{{- end }}"
    else:
        yield "---"
        yield from _block(node)


def _go(condition: Condition) -> str:
    """Return a condition as Go's templates have it."""
    match condition:
        case AnyOf(conditions):
            return f"(or {' '.join(map(_go, conditions))})"
        case AllOf(conditions):
            return f"(and {' '.join(map(_go, conditions))})"
        case Not(inner):
            return f"(not {_go(inner)})"
        case _:
            return f".Values.{condition}"


def _block(node: Node) -> Iterator[str]:
    """Return a map or a list, a line at a time, not indented."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _conditional(value, lambda found, key=key: _entry(key, found))
    else:
        for item in node:
            if isinstance(item, Each):
                yield f"{{{{- range .Values.{item.path} }}}}"
                yield "- {{ . | toJson }}"
                yield "{{- end }}"
            else:
                yield from _conditional(item, _item)


def _conditional(node: Node, write: Any) -> Iterator[str]:
    if not isinstance(node, When):
        yield from write(node)
        return
    yield f"{{{{- if {_go(node.condition)} }}}}"
    yield from _conditional(node.then, write)
    if node.has_otherwise:
        yield "{{- else }}"
        yield from _conditional(node.otherwise, write)
    yield "{{- end }}"


def _entry(key: str, node: Node) -> Iterator[str]:
    if _is_block(node):
        yield f"{_scalar(key)}:"
        yield from _indented(_block(node))
    elif isinstance(node, str) and (lines := _literal(node)) is not None:
        yield f"{_scalar(key)}: {lines[0]}"
        yield from _indented(iter(lines[1:]))
    else:
        yield f"{_scalar(key)}: {_inline(node)}"


def _item(node: Node) -> Iterator[str]:
    if not _is_block(node):
        yield f"- {_inline(node)}"
        return
    first, *rest = _block(node)
    if first.startswith("{{-"):
        raise ValueError(f"an item of a list cannot begin with a condition: {first}")
    yield f"- {first}"
    yield from _indented(iter(rest))


def _is_block(node: Node) -> bool:
    return isinstance(node, Mapping | list | tuple) and bool(node)


def _indented(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield f"  {line}" if line and not line.startswith("{{-") else line


def _inline(node: Node) -> str:
    """Return what stands in one line."""
    match node:
        case Value(path):
            return f"{{{{ .Values.{path} | toJson }}}}"
        case Namespace():
            return "{{ .Release.Namespace }}"
        case Joined():
            return f'"{_inside(node)}"'
        case _:
            return _scalar(node)


def _inside(part: Node) -> str:
    """Return a part of a text between double quotes."""
    match part:
        case Joined(parts):
            return "".join(map(_inside, parts))
        case Value(path):
            return f'{{{{ .Values.{path} | toJson | trimPrefix "\\"" | trimSuffix "\\"" }}}}'
        case Namespace():
            return "{{ .Release.Namespace }}"
        case When():
            otherwise = "{{ else }}" + _inside(part.otherwise) if part.has_otherwise else ""
            return f"{{{{ if {_go(part.condition)} }}}}{_inside(part.then)}{otherwise}{{{{ end }}}}"
        case _:
            return _escaped(json.dumps(part, ensure_ascii=False)[1:-1])


def _scalar(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return _escaped(json.dumps(value, ensure_ascii=False))


def _literal(text: str) -> list[str] | None:
    """Return a text of several lines as a block that people can read; None if it does not fit into one."""
    lines = text.split("\n")
    if len(lines) == 1 or lines[0][:1] in ("", " ") or any(line != line.rstrip() or "\t" in line for line in lines):
        return None
    if text.endswith("\n\n"):
        return None
    head, body = ("|", lines[:-1]) if text.endswith("\n") else ("|-", lines)
    return [head, *map(_escaped, body)]


def _escaped(text: str) -> str:
    """Return a text in which braces are nothing but braces to Helm."""
    return text.replace("{{", '{{ "{{" }}')
