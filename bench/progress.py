"""One line that says what is being done and how far it is; nothing but plain lines where nobody watches."""

import sys
import time

_EVERY_SECONDS = 0.1


class Progress:
    """What is under way at the moment."""

    def __init__(self) -> None:
        self._shows = sys.stderr.isatty()
        self._task = ""
        self._total = 0
        self._done = 0
        self._shown = 0.0

    def begin(self, task: str, total: int = 0) -> None:
        """Start a task of so many steps."""
        self.end()
        self._task, self._total, self._done, self._shown = task, total, 0, 0.0
        if not self._shows:
            print(f"{task} ...", file=sys.stderr, flush=True)
        self.step(0)

    def step(self, count: int = 1) -> None:
        """Note that some steps are done. Showing it is rare enough not to disturb what is measured."""
        self._done += count
        now = time.monotonic()
        if self._shows and now - self._shown > _EVERY_SECONDS:
            self._shown = now
            share = f"  {self._done:,}/{self._total:,}" if self._total else ""
            print(f"\r\033[K{self._task}{share}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Clear the line."""
        if self._shows and self._task:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
        self._task = ""
