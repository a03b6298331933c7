"""What goes wrong in a member, as its script says: what, with which pods or nodes, and from when to when.

Times are seconds since the member was started. A trouble is a value, and what it means at a moment is a function of
that moment; so a script replays, and a member that is restarted in the middle finds itself in the same trouble.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import inf
from typing import TypeAlias


@dataclass(frozen=True)
class _Span:
    """A stretch of time."""

    begin: float = 0.0
    end: float = inf

    def holds(self, at: float) -> bool:
        """Tell whether it is going on."""
        return self.begin <= at < self.end


@dataclass(frozen=True)
class SlowStart(_Span):
    """Pods whose image matches take longer to start."""

    image: str = "*"
    factor: float = 10.0


@dataclass(frozen=True)
class CrashLoop(_Span):
    """Containers whose image matches end with an error soon after they started, again and again."""

    image: str = "*"
    after_seconds: float = 1.0


@dataclass(frozen=True)
class ImageError(_Span):
    """Images that match cannot be pulled, by pods whose name matches."""

    image: str = "*:bad*"
    pod: str = "*"


@dataclass(frozen=True)
class Flapping(_Span):
    """Pods whose image matches are ready and not ready in turn."""

    image: str = "*"
    ready_seconds: float = 30.0
    unready_seconds: float = 10.0


@dataclass(frozen=True)
class Offline(_Span):
    """Nobody outside reaches the cluster; inside, life goes on."""


@dataclass(frozen=True)
class SlowApi(_Span):
    """Requests take longer."""

    seconds: float = 2.0


@dataclass(frozen=True)
class DiskFull(_Span):
    """The disks of nodes whose name matches are full: their pods are evicted and no others come."""

    node: str = "*"


@dataclass(frozen=True)
class NodeDown(_Span):
    """Nodes whose name matches are not heard of; what is on them neither starts nor ends until they are back."""

    node: str = "*"


Trouble: TypeAlias = SlowStart | CrashLoop | ImageError | Flapping | Offline | SlowApi | DiskFull | NodeDown


@dataclass(frozen=True)
class Script:
    """All that goes wrong in a member."""

    troubles: tuple[Trouble, ...] = ()

    def start_factor(self, images: Iterable[str], at: float) -> float:
        """Return how many times longer pods take to start now."""
        given = tuple(images)
        slow = [t for t in self.troubles if isinstance(t, SlowStart) and t.holds(at) and _concerns(t.image, given)]
        return max((each.factor for each in slow), default=1.0)

    def bad_image(self, images: Iterable[str], at: float, pod: str) -> str:
        """Return the first image that a pod cannot pull now; empty when it can pull all."""
        errors = [t for t in self.troubles if isinstance(t, ImageError) and t.holds(at) and fnmatchcase(pod, t.pod)]
        return next((image for image in images if any(fnmatchcase(image, t.image) for t in errors)), "")

    def crash(self, images: Iterable[str], at: float) -> CrashLoop | None:
        """Return the crash loop that a pod is in now."""
        given = tuple(images)
        loops = (t for t in self.troubles if isinstance(t, CrashLoop) and t.holds(at) and _concerns(t.image, given))
        return next(loops, None)

    def flapping(self, images: Iterable[str], at: float) -> Flapping | None:
        """Return how a pod flaps now."""
        given = tuple(images)
        found = (t for t in self.troubles if isinstance(t, Flapping) and t.holds(at) and _concerns(t.image, given))
        return next(found, None)

    def disk_full(self, node: str, at: float) -> bool:
        """Tell whether the disk of a node is full now."""
        return any(isinstance(t, DiskFull) and t.holds(at) and fnmatchcase(node, t.node) for t in self.troubles)

    def node_down(self, node: str, at: float) -> bool | None:
        """Tell whether a node is down now; None if the script has nothing to say about it, ever."""
        about = [t for t in self.troubles if isinstance(t, NodeDown) and fnmatchcase(node, t.node)]
        return any(t.holds(at) for t in about) if about else None

    def offline(self, at: float) -> bool:
        """Tell whether the cluster is cut off now."""
        return any(isinstance(t, Offline) and t.holds(at) for t in self.troubles)

    def delay(self, at: float) -> float:
        """Return how long a request takes now."""
        return max((t.seconds for t in self.troubles if isinstance(t, SlowApi) and t.holds(at)), default=0.0)

    def moments(self, *kinds: type) -> list[float]:
        """Return when troubles of some kinds begin and end."""
        chosen = [t for t in self.troubles if isinstance(t, kinds)]
        return sorted({moment for t in chosen for moment in (t.begin, t.end) if moment < inf})


def _concerns(pattern: str, images: Iterable[str]) -> bool:
    return any(fnmatchcase(image, pattern) for image in images)
