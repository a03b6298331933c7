"""Durations: as Go writes them on the wire, and as people like to read them.

Soaks and deadlines are compared with wall clock times, which have microseconds here. Go has nanoseconds. What is left
of them is rounded up: a soak may be longer than asked for, never shorter.
"""

import re
from datetime import timedelta

_UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # the micro sign
    "\u03bcs": 1_000,  # the Greek letter, which looks the same
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_AMOUNT = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_LONGEST = (1 << 63) - 1  # nanoseconds, 292 years
_SECOND = timedelta(seconds=1)


class NotADuration(ValueError):
    """Go would not read this as a duration."""

    def __init__(self, text: str) -> None:
        super().__init__(f'"{text}" is no duration such as 90s, 10m or 1h30m')
        self.text = text


def parse(text: str) -> timedelta:
    """Read a duration in Go's notation."""
    sign, amounts = (-1, text[1:]) if text[:1] == "-" else (1, text.removeprefix("+"))
    if amounts == "0":
        return timedelta()
    nanoseconds, at = 0, 0
    while at < len(amounts):
        found = _AMOUNT.match(amounts, at)
        if found is None or not (found[1] or found[2]):
            raise NotADuration(text)
        whole, fraction, unit = found[1] or "0", found[2] or "", _UNITS[found[3]]
        if len(whole) + len(fraction) > 64:  # no such number fits, and int() refuses to read very long ones
            raise NotADuration(text)
        nanoseconds += int(whole) * unit + int(fraction or "0") * unit // 10 ** len(fraction)
        at = found.end()
    if not amounts or nanoseconds > _LONGEST:
        raise NotADuration(text)
    return timedelta(microseconds=-(-sign * nanoseconds // 1_000))


def elapsed(duration: timedelta) -> str:
    """How long something has lasted, for people: 3m20s, 1h5m, 2d3h. A second that has begun does not count."""
    return _for_people(max(duration // _SECOND, 0))


def remaining(duration: timedelta) -> str:
    """How long something still takes, for people. A second that has begun counts."""
    return _for_people(max(-(-duration // _SECOND), 0))


def _for_people(seconds: int) -> str:
    """Two units are as much as one wants to know."""
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}d{hour}h" if hour else f"{days}d"
    if hours:
        return f"{hours}h{minute}m" if minute else f"{hours}h"
    if minutes:
        return f"{minutes}m{second}s" if second else f"{minutes}m"
    return f"{second}s"
