"""Timestamps and durations of CEL, exact to the nanosecond."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

_SECOND = 1_000_000_000
_FIRST, _LAST = -62135596800 * _SECOND, 253402300800 * _SECOND - 1
_MOST = 2**63 - 1  # nanoseconds of a duration
_STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", re.ASCII)
_PART = re.compile(r"(\d{1,19})(?:\.(\d{0,18}))?(h|ms|m|s|us|µs|ns)|\.(\d{1,18})(h|ms|m|s|us|µs|ns)", re.ASCII)
_UNITS = {"h": 3600 * _SECOND, "m": 60 * _SECOND, "s": _SECOND, "ms": 10**6, "us": 1000, "µs": 1000, "ns": 1}
_LONGEST = 100  # characters of a duration


class TimeError(ValueError):
    """A text or a result that is no time."""


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A moment, in nanoseconds since 1970."""

    nanoseconds: int

    def __post_init__(self) -> None:
        if not _FIRST <= self.nanoseconds <= _LAST:
            raise TimeError("timestamp overflow")

    def __str__(self) -> str:
        seconds, rest = divmod(self.nanoseconds, _SECOND)
        text = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
        return f"{text.rjust(19, '0')}{_fraction(rest)}Z"

    def at(self, zone: str) -> datetime:
        """Return the moment as the clocks of a zone show it."""
        where = _zone(zone)
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=self.nanoseconds // 1000)).astimezone(where)


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A length of time, in nanoseconds."""

    nanoseconds: int

    def __post_init__(self) -> None:
        if not -_MOST <= self.nanoseconds <= _MOST:
            raise TimeError("duration overflow")

    def __str__(self) -> str:
        seconds, rest = divmod(abs(self.nanoseconds), _SECOND)
        return f"{'-' if self.nanoseconds < 0 else ''}{seconds}{_fraction(rest)}s"


def timestamp(text: str) -> Timestamp:
    """Read a timestamp of RFC 3339."""
    found = _STAMP.fullmatch(text)
    try:
        if found is None:
            raise ValueError
        zone = "+00:00" if found[3] == "Z" else found[3]
        moment = datetime.fromisoformat(found[1] + zone)
    except ValueError:
        raise TimeError(f"invalid timestamp {text[:_LONGEST]!r}") from None
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    seconds = since.days * 86400 + since.seconds
    return Timestamp(seconds * _SECOND + int((found[2] or "0").ljust(9, "0")))


def duration(text: str) -> Duration:
    """Read a duration in the words of Go."""
    bare = text[1:] if text[:1] in ("+", "-") else text
    if bare == "0":
        return Duration(0)
    total, at = 0, 0
    while at < len(bare) <= _LONGEST and (found := _PART.match(bare, at)):
        whole, part, unit = found[1] or "0", found[2] or found[4] or "", found[3] or found[5]
        total += int(whole) * _UNITS[unit] + int(part or "0") * _UNITS[unit] // 10 ** len(part)
        at = found.end()
    if not bare or at < len(bare):
        raise TimeError(f"invalid duration {text[:_LONGEST]!r}")
    return Duration(-total if text[0] == "-" else total)


def _fraction(nanoseconds: int) -> str:
    return f".{nanoseconds:09d}".rstrip("0") if nanoseconds else ""


@lru_cache(maxsize=64)
def _zone(name: str) -> tzinfo:
    if found := re.fullmatch(r"([+-]?)(\d\d):(\d\d)", name):
        ahead = timedelta(hours=int(found[2]), minutes=int(found[3]))
        if ahead < timedelta(days=1):
            return timezone(-ahead if found[1] == "-" else ahead)
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise TimeError(f"unknown time zone {name[:_LONGEST]}") from None
