"""What `echelon lint --hub` does: look at files with the clusters and placements of a hub beside them."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from echelon.api.placement import PLACEMENT
from echelon.cli.connection import Connection
from echelon.engine.lint import Finding, lint_documents, read
from echelon.engine.lint.on_hub import follow, lint_on_hub
from echelon.rollouts.placements import read_scheduler


def look_on_hub(connection: Connection, namespace: str, documents: Sequence[tuple[str, Any]]) -> tuple[Finding, ...]:
    """Return what is found in documents, by themselves and on a hub."""
    return asyncio.run(_look(connection, namespace or connection.load().namespace, documents))


async def _look(connection: Connection, namespace: str, documents: Sequence[tuple[str, Any]]) -> tuple[Finding, ...]:
    placed = [(file, _in_namespace(document, namespace)) for file, document in documents]
    async with connection.open() as client:
        scheduler = await read_scheduler(client)
        placements = [{**PLACEMENT.type_meta, **each} for each in (await client.list(PLACEMENT.untyped())).items]
    for _, document in placed:
        follow(scheduler, document)
    known = read(placed, placements)
    return (*lint_documents(known), *lint_on_hub(known, scheduler, datetime.now(UTC)))


def _in_namespace(document: Any, namespace: str) -> Any:
    """Return a document with the namespace that kubectl would give it."""
    if not isinstance(document, dict):
        return document
    if isinstance(items := document.get("items"), list):
        return {**document, "items": [_in_namespace(each, namespace) for each in items]}
    if not isinstance(document.get("metadata"), dict):
        return document
    return {**document, "metadata": {"namespace": namespace, **document["metadata"]}}
