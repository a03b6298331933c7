"""Regular expressions of strangers, by an engine that takes linear time (RE2, as in Kubernetes).

Linear means: the length of the text times the size of the compiled pattern, and a pattern may be compiled to thousands
of instructions. Both are paid for before the engine runs, because nothing can stop it.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

try:
    import re2
except ImportError:  # the extra is not installed
    re2 = None

from echelon.engine.cel.metering import CHARACTERS, Meter
from echelon.engine.cel.values import ValueProblem

PATTERNS_AVAILABLE: Final = re2 is not None
_MEMORY = 1 << 20  # bytes that a compiled pattern may take
_STEPS = 200  # of the engine for 1: a nanosecond each, where it is slowest
_LONGEST = 4096  # characters of a pattern
_PER_PATTERN = 4  # as Kubernetes reckons: so many characters of a pattern for a part of it


def matches(meter: Meter, text: str, pattern: str) -> bool:
    """Tell whether a pattern matches anywhere in a text."""
    compiled, data = _ready(meter, text, pattern)
    _pay(meter, compiled, len(data))
    return compiled.search(data) is not None


def find(meter: Meter, text: str, pattern: str) -> str:
    """Return the first match; nothing if there is none."""
    return next(_found(meter, text, pattern), "")


def find_all(meter: Meter, text: str, pattern: str, limit: int = -1) -> list[str]:
    """Return all matches, or so many of them."""
    found: list[str] = []
    if limit == 0:
        return found
    for each in _found(meter, text, pattern):
        meter.pay(1 + len(each) // CHARACTERS)
        found.append(each)
        if len(found) == limit:
            break
    return found


def _found(meter: Meter, text: str, pattern: str) -> Iterator[str]:
    compiled, data = _ready(meter, text, pattern)
    at, last = 0, -1
    while at <= len(data):
        # Each search may read all that is left, to find something short at its beginning.
        _pay(meter, compiled, len(data) - at)
        match = compiled.search(data, at)
        if match is None:
            return
        begin, end = match.span()
        if end > begin or begin != last:  # nothing is found right behind something
            yield data[begin:end].decode("utf-8", "replace")
        last = end
        at = end if end > begin else _next(data, end)


def _next(data: bytes, at: int) -> int:
    at += 1
    while at < len(data) and 0x80 <= data[at] < 0xC0:
        at += 1
    return at


def _ready(meter: Meter, text: str, pattern: str) -> tuple[Any, bytes]:
    parts = -(-len(pattern) // _PER_PATTERN)
    meter.pay((len(text) // CHARACTERS + 1) * parts)
    compiled = _compiled(pattern)
    if isinstance(compiled, str):
        raise ValueProblem(compiled)
    return compiled, text.encode("utf-8", "surrogatepass")


def _pay(meter: Meter, compiled: Any, length: int) -> None:
    meter.pay(1 + length * compiled.programsize // _STEPS)


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    if len(pattern) > _LONGEST:
        return f"pattern of more than {_LONGEST} characters cannot be used"
    options = re2.Options()
    options.max_mem, options.log_errors, options.never_capture = _MEMORY, False, True
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeError) as error:
        detail = error.args[0] if error.args else ""
        return f"error parsing regexp: {detail.decode('utf-8', 'replace') if isinstance(detail, bytes) else detail}"
