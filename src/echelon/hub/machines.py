"""What only the machines of a cluster can tell. A hub has none: whoever simulates some answers for them here."""

from dataclasses import dataclass
from typing import Protocol

from echelon.api.base import JSONObject


@dataclass(frozen=True)
class LogLine:
    """Something that a container has said, and when; `at` is a time of the wire."""

    at: str
    text: str


class Machines(Protocol):
    """The machines of one logical cluster."""

    async def report(self, namespace: str) -> None:
        """Write down what has happened, because somebody is about to read events; an empty namespace is all."""

    def log(self, pod: JSONObject, container: str, *, previous: bool) -> list[LogLine] | None:
        """Return what a container has said since its last start, or the one before; None if there was none."""

    def why_not(self, action: str) -> str:
        """Say why nobody can reach into a container."""
