"""What `echelon rollout history` and `diff` do: look back."""

import asyncio
import difflib
from collections.abc import Sequence
from typing import Any

import yaml

from echelon.api.base import JSONObject
from echelon.cli.columns import print_columns
from echelon.cli.connection import Connection
from echelon.cli.output import is_document, print_document
from echelon.cli.terminal import echo, style
from echelon.engine.rollout.actions import Action, read_actions
from echelon.engine.rollout.stored_revision import StoredRevision
from echelon.rollouts.kinds import RolloutKind, find
from echelon.rollouts.reading import Found
from echelon.rollouts.steering import pick


def show(connection: Connection, name: str, namespace: str, output: str) -> None:
    """Print the stored revisions of a rollout."""
    kind, found = asyncio.run(_found(connection, name, namespace))
    rows = history_of(kind, found)
    if is_document(output):
        print_document(rows, output)
    elif not rows:
        echo(f"{found.title} has no stored revisions yet.", err=True)
    else:
        for row in rows:
            row["actions"] = _told(row["actions"], everything=output == "wide")
        print_columns(list(rows[0]), [list(row.values()) for row in rows])


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


def _action(done: Action) -> JSONObject:
    return {"verb": done.verb, "by": done.by or None, "at": done.at or None, "detail": done.detail or None}


def _told(actions: Sequence[JSONObject], *, everything: bool) -> str | None:
    """Return what people did in a few words: the last of it, or all."""
    shown = actions if everything else actions[-1:]
    words = [
        " ".join(filter(None, (each["verb"], each["detail"], "by", each["by"] or "<unknown>", each["at"])))
        for each in shown
    ]
    more = f" (and {len(actions) - len(shown)} more)" if len(shown) < len(actions) else ""
    return f"{'; '.join(words)}{more}" if words else None


async def _found(connection: Connection, name: str, namespace: str) -> tuple[RolloutKind, Found]:
    async with connection.open() as client:
        return await find(client, name, namespace)


def _yaml(revision: StoredRevision) -> list[str]:
    fields = revision.content or {}
    shown = next(iter(fields.values())) if len(fields) == 1 else fields  # the name of the only field says nothing
    text: Any = yaml.safe_dump(shown, sort_keys=True, width=120)
    lines: list[str] = text.splitlines()
    return lines
