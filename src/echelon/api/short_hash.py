"""Short hashes that are fit for names and labels.

No vowels and nothing that looks alike, so that a name spells no word; a letter first, so that it is never a number.
"""

import hashlib

LETTERS = "bcdfghjklmnpqrstvwxz"
ALPHABET = LETTERS + "2456789"
_LENGTH = 10


def short_hash(data: bytes) -> str:
    """Return the hash of some bytes in ten letters. It names stored revisions: it must never change."""
    number = int.from_bytes(hashlib.sha256(data).digest(), "big")
    number, first = divmod(number, len(LETTERS))
    found = [LETTERS[first]]
    for _ in range(_LENGTH - 1):
        number, index = divmod(number, len(ALPHABET))
        found.append(ALPHABET[index])
    return "".join(found)
