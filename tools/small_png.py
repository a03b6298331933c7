"""Makes a picture of a page small: at most 256 colours, of which pages have few beside the edges of letters."""

import struct
import zlib
from collections import Counter
from collections.abc import Iterator

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_MOST = 256


def small(png: bytes) -> bytes:
    """Return a picture with its most frequent colours, and for each other one the nearest of them."""
    width, rows = _pixels(png)
    counted = Counter(pixel for row in rows for pixel in row)
    palette = [pixel for pixel, _ in counted.most_common(_MOST)]
    place = {pixel: index for index, pixel in enumerate(palette)}
    for pixel in counted:
        if pixel not in place:
            place[pixel] = min(range(len(palette)), key=lambda index: _distance(palette[index], pixel))
    data = b"".join(b"\0" + bytes(place[pixel] for pixel in row) for row in rows)
    header = struct.pack(">IIBBBBB", width, len(rows), 8, 3, 0, 0, 0)
    parts = ((b"IHDR", header), (b"PLTE", b"".join(palette)), (b"IDAT", zlib.compress(data, 9)), (b"IEND", b""))
    return _SIGNATURE + b"".join(_chunk(*each) for each in parts)


def _distance(one: bytes, other: bytes) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(_SIGNATURE)
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        at += length + 12


def _pixels(png: bytes) -> tuple[int, list[list[bytes]]]:
    """Return the width and the rows of a picture as browsers make them: eight bits a colour, not interlaced."""
    chunks = list(_chunks(png))
    width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[0][1])
    if depth != 8 or kind not in (2, 6) or interlaced:
        raise ValueError("only pictures with eight bits a colour are read")
    step = 3 if kind == 2 else 4
    data = zlib.decompress(b"".join(body for name, body in chunks if name == b"IDAT"))
    size, rows, above = width * step, [], bytes(width * step)
    for number in range(height):
        at = number * (size + 1)
        above = _unfiltered(data[at], bytearray(data[at + 1 : at + 1 + size]), above, step)
        rows.append([above[each : each + 3] for each in range(0, size, step)])
    return width, rows


def _unfiltered(kind: int, row: bytearray, above: bytes, step: int) -> bytes:
    for index in range(len(row)):
        left = row[index - step] if index >= step else 0
        if kind == 1:
            row[index] = (row[index] + left) & 255
        elif kind == 2:
            row[index] = (row[index] + above[index]) & 255
        elif kind == 3:
            row[index] = (row[index] + (left + above[index]) // 2) & 255
        elif kind == 4:
            corner = above[index - step] if index >= step else 0
            row[index] = (row[index] + _nearest(left, above[index], corner)) & 255
    return bytes(row)


def _nearest(left: int, up: int, corner: int) -> int:
    guess = left + up - corner
    return min((left, up, corner), key=lambda each: abs(guess - each))
