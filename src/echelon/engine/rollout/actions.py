"""Who steered a rollout, when and how: the last words of people, kept on the object that is rolled out.

What a verb writes says what is wanted, and not who wants it. So each verb leaves a line beside it. The lines are for
people who ask each other what happened; whoever may write the object may write them, too, and what is proof is the
server's audit log.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from echelon.api.times import format_time

ACTIONS = "echelon.dev/actions"
MOST = 20  # actions that are kept
_LONGEST = 200  # characters of each word


@dataclass(frozen=True)
class Action:
    """What somebody did."""

    verb: str
    by: str  # the user, as the server knows them; empty if it does not tell
    at: str
    revision: str = ""  # the hash of the one that was wanted then
    detail: str = ""  # the groups that were approved, the revision that was brought back


def read_actions(annotations: Mapping[str, str]) -> tuple[Action, ...]:
    """Read what people did, oldest first. What cannot be read is left out: nothing is decided by it."""
    try:
        noted = json.loads(annotations.get(ACTIONS) or "[]")
    except ValueError:
        return ()
    found = noted if isinstance(noted, list) else []
    return tuple(_read(each) for each in found[-MOST:] if isinstance(each, dict))


def note_action(
    annotations: Mapping[str, str], verb: str, by: str, now: datetime, *, revision: str = "", detail: str = ""
) -> dict[str, str | None]:
    """Return the annotation with one more action; the oldest are forgotten."""
    action = Action(verb, by[:_LONGEST], format_time(now), revision, detail[:_LONGEST])
    return {ACTIONS: _written((*read_actions(annotations), action)[-MOST:])}


def _read(noted: Mapping[str, object]) -> Action:
    words = {name: str(noted.get(name) or "")[:_LONGEST] for name in ("verb", "by", "at", "revision", "detail")}
    return Action(**words)


def _written(actions: Sequence[Action]) -> str:
    listed = [{name: word for name, word in asdict(each).items() if word} for each in actions]
    return json.dumps(listed, separators=(",", ":"), ensure_ascii=False)
