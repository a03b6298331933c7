"""What `echelon rollout history` and `diff` do: look back."""

import asyncio
import difflib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import yaml

from echelon.api.base import JSONObject
from echelon.api.printing import human_duration
from echelon.api.times import format_time, parse_time
from echelon.cli.columns import print_columns
from echelon.cli.connection import Connection
from echelon.cli.output import is_document, print_document
from echelon.cli.terminal import echo, style
from echelon.engine.rollout.actions import Action, read_actions
from echelon.engine.rollout.stored_revision import StoredRevision
from echelon.rollouts.kinds import RolloutKind, find
from echelon.rollouts.reading import Found
from echelon.rollouts.steering import pick

_WIDE = ("hash", "manifests")  # fields that a terminal of usual width has no room for


def show(connection: Connection, name: str, namespace: str, output: str) -> None:
    """Print the stored revisions of a rollout."""
    kind, found = asyncio.run(_found(connection, name, namespace))
    rows = history_of(kind, found)
    if is_document(output):
        print_document(rows, output)
    elif not rows:
        echo(f"{found.title} has no stored revisions yet.", err=True)
    else:
        now = datetime.now(UTC)
        shown = [_exactly(row) if output == "wide" else _at_a_glance(row, now) for row in rows]
        print_columns(list(shown[0]), [list(row.values()) for row in shown])


def history_of(kind: RolloutKind, found: Found) -> list[JSONObject]:
    """Return the stored revisions, oldest first, each with what people did while it was the wanted one."""
    actions = read_actions(found.subject.metadata.annotations)
    return [_revision(each, found.subject.revision, kind, actions) for each in found.subject.revisions]


def print_diff(connection: Connection, name: str, namespace: str, older: int | None, newer: int | None) -> bool:
    """Print what differs between two revisions; return whether something does."""
    _, found = asyncio.run(_found(connection, name, namespace))
    stored = found.subject.revisions
    after = pick(stored, newer, stored[-1] if stored else None, found.title)
    earlier = [each for each in stored if each.number < after.number]
    before = pick(stored, older, earlier[-1] if earlier else None, found.title)
    old, new = (f"revision {each.number} ({each.revision})" for each in (before, after))
    lines = list(difflib.unified_diff(_yaml(before), _yaml(after), old, new, lineterm=""))
    for line in lines:
        echo(style(line, fg={"+": "green", "-": "red", "@": "cyan"}.get(line[:1])))
    return bool(lines)


def _revision(each: StoredRevision, present: str, kind: RolloutKind, actions: Sequence[Action]) -> JSONObject:
    return {
        "revision": each.number,
        "hash": each.revision,
        "present": each.revision == present,
        "created": each.created or None,
        "completed": each.completed or None,
        **kind.describe(each),
        "cause": each.cause or None,
        "actions": [_action(done) for done in actions if done.revision == each.revision],
    }


def _exactly(row: JSONObject) -> JSONObject:
    """Return a line with everything that is known."""
    times = {name: _second(row[name]) for name in ("created", "completed")}
    actions = "; ".join(_words(each, _second(each["at"])) for each in row["actions"])
    return {**row, **times, "actions": actions or None}


def _at_a_glance(row: JSONObject, now: datetime) -> JSONObject:
    """Return a line that says how long ago things were, and of what people did the last."""
    actions = row["actions"]
    more = f" (and {len(actions) - 1} more)" if len(actions) > 1 else ""
    told = _words(actions[-1], f"{_age(actions[-1]['at'], now)} ago") + more if actions else None
    seen = {name: value for name, value in row.items() if name not in _WIDE}
    completed = row["completed"] and f"{_age(row['completed'], now)} ago"
    return {**seen, "created": f"{_age(row['created'], now)} ago", "completed": completed, "actions": told}


def _words(action: JSONObject, when: str | None) -> str:
    parts = (action["verb"], action["detail"], "by", action["by"] or "<unknown>", when if action["at"] else None)
    return " ".join(filter(None, parts))


def _age(at: str | None, now: datetime) -> str:
    then = parse_time(at)
    return human_duration(int((now - then).total_seconds())) if then is not None else "some time"


def _second(at: str | None) -> str | None:
    """Return a time without what is finer than people read."""
    then = parse_time(at)
    return format_time(then) if then is not None else at


def _action(done: Action) -> JSONObject:
    return {"verb": done.verb, "by": done.by or None, "at": done.at or None, "detail": done.detail or None}


async def _found(connection: Connection, name: str, namespace: str) -> tuple[RolloutKind, Found]:
    async with connection.open() as client:
        return await find(client, name, namespace)


def _yaml(revision: StoredRevision) -> list[str]:
    fields = revision.content or {}
    shown = next(iter(fields.values())) if len(fields) == 1 else fields  # the name of the only field says nothing
    text: Any = yaml.safe_dump(shown, sort_keys=True, width=120)
    lines: list[str] = text.splitlines()
    return lines
