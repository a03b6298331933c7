"""Text that is kept in an annotation: plain where it is short, compressed where it is long.

All annotations of an object may have 256 KiB together, and whoever may write them may write anything.
"""

import base64
import zlib

_COMPRESSED = "zlib:"
_LONG = 16 * 1024
_LONGEST = 4 * 1024 * 1024  # when unpacked, whoever packed it


class NotPacked(ValueError):
    """A value that was not packed here."""


def pack(text: bytes) -> str:
    """Return the value of an annotation."""
    return text.decode() if len(text) <= _LONG else _COMPRESSED + base64.b64encode(zlib.compress(text, 9)).decode()


def unpack(value: str) -> bytes:
    """Return what was packed. Raises `NotPacked`."""
    if not value.startswith(_COMPRESSED):
        return value.encode()
    try:
        return zlib.decompressobj().decompress(base64.b64decode(value[len(_COMPRESSED) :]), _LONGEST)
    except (zlib.error, ValueError) as error:
        raise NotPacked(str(error)) from error
