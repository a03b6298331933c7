"""What goes wrong in a rehearsal, in words such as "crash on 30% after 10m", and with which clusters, by a seed."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from random import Random

from echelon.fleet.member.trouble import CrashLoop, ImageError, Offline, Script, SlowStart, Trouble

KINDS = {
    "crash": "pods of images that are new end with an error, again and again",
    "image": "the images that are new cannot be pulled",
    "slow": "pods take ten times as long to start",
    "offline": "nobody reaches the cluster any more",
}
_WORDS = re.compile(r"(?P<kind>\w+) on (?P<share>\d+(?:\.\d+)?%|\d+)(?: after (?P<after>\d+)(?P<unit>s|m|h))?")
_SECONDS = {"s": 1, "m": 60, "h": 3600}


class BadHazard(ValueError):
    """Words that name no failure."""


@dataclass(frozen=True)
class Hazard:
    """A failure of some clusters."""

    kind: str
    share: float = 0.0  # of the clusters, from 0 to 1
    count: int | None = None  # or so many
    after: float = 0.0  # seconds since the change

    def struck(self, clusters: Sequence[str], random: Random) -> list[str]:
        """Draw the clusters that it strikes."""
        many = self.count if self.count is not None else ceil(self.share * len(clusters))
        return random.sample(list(clusters), min(many, len(clusters)))


def read_hazard(text: str) -> Hazard:
    """Read a failure. Raises BadHazard."""
    found = _WORDS.fullmatch(" ".join(text.split()))
    if found is None or found["kind"] not in KINDS:
        kinds = ", ".join(KINDS)
        raise BadHazard(f'"{text}" is no failure: write one of {kinds}, such as "crash on 30% after 10m"')
    after = float(found["after"] or 0) * _SECONDS[found["unit"] or "s"]
    share = found["share"]
    if not share.endswith("%"):
        return Hazard(found["kind"], count=int(share), after=after)
    if float(share[:-1]) > 100:
        raise BadHazard(f'"{text}": {share} is more than all clusters')
    return Hazard(found["kind"], float(share[:-1]) / 100, after=after)


def script_of(hazards: Iterable[Hazard], images: Iterable[str], now: float) -> Script:
    """Return what goes wrong in a cluster that these strike; `images` are those that are new, `now` is by its clock."""
    troubles: list[Trouble] = []
    for each in hazards:
        for image in images:
            if each.kind == "crash":
                troubles.append(CrashLoop(now + each.after, image=image))
            elif each.kind == "image":
                troubles.append(ImageError(now + each.after, image=image))
        if each.kind == "slow":
            troubles.append(SlowStart(now + each.after))
        elif each.kind == "offline":
            troubles.append(Offline(now + each.after))
    return Script(tuple(troubles))
