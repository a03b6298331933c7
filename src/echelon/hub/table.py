"""Tables: what `kubectl get` asks for, so that the server decides which columns a kind has."""

from collections.abc import Callable, Sequence
from datetime import datetime

from echelon.api import jsonpath
from echelon.api.base import JSON, JSONObject
from echelon.api.kinds import Column, Kind

_NAME = {
    "name": "Name",
    "type": "string",
    "format": "name",
    "description": "Name of the object, unique in its namespace.",
    "priority": 0,
}

Cell = Callable[[JSONObject, datetime], JSON]


class Printer:
    """Turns objects of a kind into rows."""

    def __init__(self, kind: Kind[object]) -> None:
        self.definitions: list[JSONObject] = [_NAME, *(_definition(column) for column in kind.columns)]
        self._cells: list[Cell] = [_cell(column) for column in kind.columns]

    def table(
        self, objects: Sequence[JSONObject], meta: JSONObject, now: datetime, *, include: str, headers: bool = True
    ) -> JSONObject:
        """Return a Table of some objects; a watch sends the headers only once."""
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": meta,
            "columnDefinitions": self.definitions if headers else None,
            "rows": [self._row(obj, now, include) for obj in objects],
        }

    def _row(self, obj: JSONObject, now: datetime, include: str) -> JSONObject:
        row: JSONObject = {"cells": [obj["metadata"]["name"], *(cell(obj, now) for cell in self._cells)]}
        if include != "None":
            row["object"] = obj if include == "Object" else partial(obj)
        return row


def partial(obj: JSONObject) -> JSONObject:
    """Return only the metadata of an object, as PartialObjectMetadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def _definition(column: Column) -> JSONObject:
    return {
        "name": column.name,
        "type": "string" if column.type == "date" else column.type,
        "format": column.format,
        "description": column.description or f"The {column.name} of the object.",
        "priority": column.priority,
    }


def _cell(column: Column) -> Cell:
    if column.cell is not None:
        compute = column.cell
        return lambda obj, _now: compute(obj)
    path = jsonpath.compile(column.path)

    def cell(obj: JSONObject, now: datetime) -> JSON:
        found = [value for value in path.find(obj) if value is not None]
        if column.type == "date":
            return age(found[0], now) if found else "<unknown>"
        if not found:
            return None
        return " ".join(_text(value) for value in found) if column.type == "string" else found[0]

    return cell


def _text(value: JSON) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def age(timestamp: JSON, now: datetime) -> str:
    """Return how long ago something was, as kubectl shows ages."""
    try:
        then = datetime.fromisoformat(timestamp)
    except (TypeError, ValueError):
        return "<invalid>"
    return duration((now - then).total_seconds())


def duration(seconds: float) -> str:
    """Return a length of time in the two units that matter."""
    if seconds < 0:
        return "<invalid>" if seconds < -2 else "0s"
    whole = int(seconds)
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    steps: tuple[tuple[bool, str, int, str], ...] = (
        (whole < 120, f"{whole}s", 0, ""),
        (minutes < 10, f"{minutes}m", whole % 60, "s"),
        (minutes < 180, f"{minutes}m", 0, ""),
        (hours < 8, f"{hours}h", minutes % 60, "m"),
        (hours < 48, f"{hours}h", 0, ""),
        (days < 8, f"{days}d", hours % 24, "h"),
        (days < 730, f"{days}d", 0, ""),
        (days < 2920, f"{days // 365}y", days % 365, "d"),
        (True, f"{days // 365}y", 0, ""),
    )
    _, text, rest, unit = next(step for step in steps if step[0])
    return f"{text}{rest}{unit}" if rest else text
