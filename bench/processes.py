"""What a server costs the machine: CPU seconds and memory, read from /proc, summed over all its processes."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """CPU seconds since the start, memory now and the most that there ever was, in bytes."""

    cpu: float = 0.0
    memory: int = 0
    peak: int = 0


def usage(pids: Iterable[int]) -> Usage:
    """Return what some processes have used together."""
    each = [_one(pid) for pid in pids]
    return Usage(sum(one.cpu for one in each), sum(one.memory for one in each), sum(one.peak for one in each))


def _one(pid: int) -> Usage:
    # The name of a program may have blanks and brackets in it; numbers start behind the last bracket.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return Usage((int(fields[11]) + int(fields[12])) / _TICKS, _bytes(lines["VmRSS"]), _bytes(lines["VmHWM"]))


def _bytes(text: str) -> int:
    return int(text.split(maxsplit=1)[0]) * 1024
