"""What somebody may have meant who typed a name that nobody has."""

from collections.abc import Iterable


def did_you_mean(typed: str, known: Iterable[str]) -> str:
    """Return a question to put behind an error; nothing if no name is like what was typed."""
    from difflib import get_close_matches  # noqa: PLC0415 - for mistakes only, and help is quicker without

    close = get_close_matches(typed, dict.fromkeys(known), n=3)
    return f"; did you mean {' or '.join(close)}?" if close else ""
