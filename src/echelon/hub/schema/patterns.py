"""Patterns of a schema: written for RE2, run by an engine that reads ECMA syntax.

Kubernetes matches `pattern` with RE2, in linear time. The engine here is linear too, but its dialect differs: escapes
that are Unicode-wide in one and ASCII in the other, POSIX classes, `(?i)`, `\\Q..\\E`. Patterns are translated token by
token; what has no counterpart is refused when the schema is compiled, never silently matched in another way.
"""

import re
from collections.abc import Iterator

_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": "\\x00-\\x7F",
    "blank": "\\t ",
    "cntrl": "\\x00-\\x1F\\x7F",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\t\\n\\v\\f\\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_PERL = {"d": "0-9", "w": "0-9A-Za-z_", "s": "\\t\\n\\f\\r "}
_CONTROL = {"a": "\\x07", "f": "\\f", "t": "\\t", "n": "\\n", "r": "\\r", "v": "\\v"}
_SYNTAX = frozenset("^$\\.*+?()[]{}|/")

_TOKEN = re.compile(
    r"""
      \\Q(?P<quote>.*?)(?:\\E|\Z)
    | \\p(?:\{(?P<script>\^?\w+)\}|(?P<letter>\w))
    | \\P(?:\{(?P<not_script>\^?\w+)\}|(?P<not_letter>\w))
    | \\x(?:\{(?P<hex>[0-9A-Fa-f]+)\}|(?P<hex2>[0-9A-Fa-f]{2}))
    | \\(?P<octal>[0-7]{1,3})
    | \\(?P<escape>.)
    | \[:(?P<posix>\^?\w+):\]
    | \(\?(?P<flags>[imsU-]+)(?P<scope>[:)])
    | \(\?P?<(?P<group>\w+)>
    | (?P<look>\(\?(?:=|!|<=|<!|>))
    | (?P<repeat>\{\d+(?:,\d*)?\})
    | (?P<plain>.)
    """,
    re.VERBOSE | re.DOTALL,
)


class PatternError(ValueError):
    """The pattern is not valid, or uses something that cannot be matched here."""


def translated(pattern: str) -> str:
    """Return the ECMA pattern that matches what an RE2 pattern matches."""
    return "".join(_Translation(pattern).parts())


class _Translation:
    """Walks over the tokens; knows whether it is inside a character class and whether case matters."""

    def __init__(self, pattern: str) -> None:
        self._tokens = list(_TOKEN.finditer(pattern))
        self._fold = False
        self._dot_all = False

    def parts(self) -> Iterator[str]:
        position = 0
        while position < len(self._tokens):
            token = self._tokens[position]
            if token["plain"] == "[":
                position, text = self._character_class(position + 1)
                yield text
                continue
            yield self._outside(token)
            position += 1

    def _outside(self, token: re.Match[str]) -> str:
        kind, text = str(token.lastgroup), token[0]
        if kind == "scope":
            return self._flags(token["flags"], token["scope"])
        if kind == "group":
            return "("
        if kind == "repeat":
            return text
        if kind == "escape" and token["escape"] in "AzbB":
            return {"A": "^", "z": "$"}.get(token["escape"], text)
        if kind == "plain" and text in _SYNTAX - {"{", "}", "]", "/"}:
            return text if text != "." else "[\\s\\S]" if self._dot_all else "[^\\n]"
        if kind == "quote":
            return "".join(self._literal(char) for char in token["quote"])
        if kind == "plain" or kind.startswith(("hex", "octal")) or (kind == "escape" and _is_literal(token)):
            return self._literal(_char(token))
        negated, members = _members(token)
        return f"[{'^' if negated else ''}{members}]" if members is not None else _property(token)

    def _literal(self, char: str) -> str:
        if self._fold and char.isascii() and char.isalpha():
            return f"[{char.lower()}{char.upper()}]"
        return _escaped(char)

    def _flags(self, flags: str, scope: str) -> str:
        on, _, off = flags.partition("-")
        if off or set(on) - {"i", "s"} or (scope == ":" and on):
            raise PatternError(f"the flags (?{flags}{scope} are not supported")
        self._fold = self._fold or "i" in on
        self._dot_all = self._dot_all or "s" in on
        return "(?:" if scope == ":" else ""

    def _character_class(self, position: int) -> tuple[int, str]:
        """Translate up to the closing bracket; return the position after it."""
        parts: list[str] = []
        negated = position < len(self._tokens) and self._tokens[position][0] == "^"
        position += negated
        first = position
        while position < len(self._tokens):
            token = self._tokens[position]
            if token["plain"] == "]" and position > first:
                body = "".join(parts)
                return position + 1, f"[{'^' if negated else ''}{body}{_other_case(body) if self._fold else ''}]"
            parts.append(self._inside(token))
            position += 1
        raise PatternError("missing closing ]")

    def _inside(self, token: re.Match[str]) -> str:
        if token["plain"] == "-":
            return "-"
        kind = str(token.lastgroup)
        if kind in {"scope", "group", "look", "repeat"}:  # no meaning inside a class: a row of characters
            return "".join(_escaped(char) for char in token[0])
        if kind == "quote":
            return "".join(_escaped(char) for char in token["quote"])
        if kind == "plain" or kind.startswith(("hex", "octal")) or (kind == "escape" and _is_literal(token)):
            return _escaped(_char(token))
        negated, members = _members(token)
        if members is None:
            return _property(token)
        if not negated:
            return members
        if kind == "escape" and token["escape"] in "DW":
            return token[0]  # ASCII in both dialects
        raise PatternError(f"{token[0]} inside a character class is not supported")


def _char(token: re.Match[str]) -> str:
    if digits := token["hex"] or token["hex2"]:
        code = int(digits, 16)
        if code > 0x10FFFF:
            raise PatternError(f"{token[0]} is not a character")
        return chr(code)
    if token["octal"]:
        return chr(int(token["octal"], 8))
    return str(token["escape"] or token[0])


def _is_literal(token: re.Match[str]) -> bool:
    """Tell whether an escape stands for the character itself."""
    return not (token["escape"].isascii() and token["escape"].isalnum())


def _members(token: re.Match[str]) -> tuple[bool, str | None]:
    """Return the members of a class that has a name; None when it is one of Unicode's."""
    if name := token["posix"]:
        if (members := _POSIX.get(name.lstrip("^"))) is None:
            raise PatternError(f"invalid character class range: {token[0]}")
        return name.startswith("^"), members
    if escape := token["escape"]:
        if escape.lower() in _PERL:
            return escape.isupper(), _PERL[escape.lower()]
        if escape in _CONTROL:
            return False, _CONTROL[escape]
        raise PatternError(f"invalid escape sequence: {token[0]}")
    if token["look"]:
        raise PatternError(f"invalid or unsupported Perl syntax: {token[0]}")
    return False, None


def _property(token: re.Match[str]) -> str:
    name = token["script"] or token["letter"] or token["not_script"] or token["not_letter"]
    inverted = token[0][1] == "P"
    if name.startswith("^"):
        name, inverted = name[1:], not inverted
    if len(name) > 2:
        name = f"Script={name}"
    return f"\\{'P' if inverted else 'p'}{{{name}}}"


def _escaped(char: str) -> str:
    if char in _SYNTAX or char in "-&~^":
        return "\\" + char
    return char if char.isprintable() or ord(char) > 0xFF else f"\\x{ord(char):02X}"


def _other_case(body: str) -> str:
    """Return the letters and letter ranges of a class once more, in the other case."""
    plain = re.sub(r"\\[pP]\{[^}]*\}|\\x..|\\.", "", body)
    return "".join(re.findall(r"[A-Za-z](?:-[A-Za-z])?", plain)).swapcase()
