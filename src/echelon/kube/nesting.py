"""Answers that are nested deeper than they can be read.

An API server stores ten thousand levels where a schema lets anything through, and a decoder that follows them has a
tenth of that. Whoever writes such an object must not keep everybody from reading the list that it is in: so what is too
deep is cut out of the text, and the object is known as one that cannot be read.
"""

import re
import secrets
from typing import Final

DEEPEST: Final = 500
# Strings are passed over; what a string has taken it does not give back, so no byte is looked at twice.
_TOKENS = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[\[{\]}]', re.DOTALL)


class NestedTooDeep(ValueError):
    """An object of more levels than can be read."""

    def __init__(self) -> None:
        super().__init__(f"it is nested deeper than {DEEPEST} levels")


def shortened(text: bytes, deepest: int = DEEPEST) -> tuple[bytes, bytes]:
    """Return a JSON text with a word in the place of whatever is too deep, and that word, which nobody could guess."""
    word = secrets.token_hex(16).encode()
    kept, depth, begin, cut = list[bytes](), 0, 0, 0
    for found in _TOKENS.finditer(text):
        token = found[0]
        if token in b"[{":
            depth += 1
            if depth == deepest + 1:
                kept.append(text[begin : found.start()])
                cut = found.start()
        elif token in b"]}":
            if depth == deepest + 1:
                kept.append(b'"%s"' % word)
                begin, cut = found.end(), 0
            depth -= 1
    if not cut:
        kept.append(text[begin:])
    return b"".join(kept), word
