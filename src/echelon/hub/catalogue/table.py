"""Tables: what `kubectl get` asks for, so that the server decides which columns a kind has."""

from collections.abc import Callable, Sequence
from datetime import datetime

from echelon.api import jsonpath
from echelon.api.base import JSON, JSONObject
from echelon.api.formats import is_date_time
from echelon.api.kinds import Column, Kind
from echelon.api.printing import human_duration
from echelon.api.times import parse_time

_NAME = {
    "name": "Name",
    "type": "string",
    "format": "name",
    "description": "Name of the object, unique in its namespace.",
    "priority": 0,
}

Cell = Callable[[JSONObject, datetime, jsonpath.Walk], JSON]

# Columns are written by whoever makes a kind, and computed for whoever looks at its objects.
_VALUES_A_ROW = 10_000
_LONGEST_CELL = 4096
_TOO_LARGE = "<too large>"


class Printer:
    """Turns objects of a kind into rows."""

    def __init__(self, kind: Kind[object]) -> None:
        self.definitions: list[JSONObject] = [_definition(column) for column in kind.columns]
        self._cells: list[Cell] = [_cell(column) for column in kind.columns]
        if all(column.name != "Name" for column in kind.columns):  # events have theirs at the end
            self.definitions.insert(0, _NAME)
            self._cells.insert(0, lambda obj, _now, _walk: obj["metadata"]["name"])

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
        walk = jsonpath.Walk(_VALUES_A_ROW)
        row: JSONObject = {"cells": [cell(obj, now, walk) for cell in self._cells]}
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
        if column.type == "date":
            return lambda obj, now, _walk: age(compute(obj), now)
        return lambda obj, _now, _walk: compute(obj)
    path = jsonpath.compile(column.path)

    def cell(obj: JSONObject, now: datetime, walk: jsonpath.Walk) -> JSON:
        try:
            found = [value for value in path.find(obj, walk.go) if value is not None]
        except jsonpath.WalkTooLong:
            return _TOO_LARGE if column.type == "string" else None
        if column.type == "date":
            return age(found[0] if found else None, now)
        if not found:
            return None
        if column.type != "string":
            return found[0]
        text = " ".join(_text(value) for value in found)
        return text if len(text) <= _LONGEST_CELL else text[:_LONGEST_CELL] + "..."

    return cell


def _text(value: JSON) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def age(timestamp: JSON, now: datetime) -> str:
    """Return how long ago something was, as kubectl shows ages."""
    if not timestamp:
        return "<unknown>"
    # Without a time zone it is no moment.
    moment = parse_time(timestamp) if isinstance(timestamp, str) and is_date_time(timestamp) else None
    return human_duration(int((now - moment).total_seconds())) if moment else "<invalid>"
