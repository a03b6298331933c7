"""Good and bad objects: the samples that people wrote, and what becomes of them when something is broken on purpose.

Mutations are found by walking a full sample along its schema, so every rule that a schema can state is broken
somewhere. There are thousands; a fixed seed picks some of every sort for every kind, the same ones every time.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import yaml

from echelon.api import registry
from echelon.api.registry import AnyKind

Document = dict[str, Any]
Step = str | int

SAMPLES = Path(__file__).parents[1] / "api" / "samples"
PER_KIND = 24
_OTHER_TYPE: dict[str, Any] = {
    "string": 7,
    "integer": "seven",
    "number": "seven",
    "boolean": "yes",
    "array": {"a": 1},
    "object": "text",
}


@dataclass(frozen=True)
class Mutation:
    """One thing that is wrong, where, and the object that has it."""

    sort: str
    path: tuple[Step, ...]
    document: Document

    @property
    def name(self) -> str:
        return f"{self.sort} {'.'.join(map(str, self.path))}"


def load(sample: Path) -> Document:
    document: Document = yaml.safe_load(sample.read_text())
    return document


def kind_of(document: Document) -> AnyKind:
    group, _, version = document["apiVersion"].rpartition("/")
    kind = registry.by_gvk(group, version, document["kind"])
    assert kind is not None, f"{document['kind']} is not known"
    return kind


def samples(prefix: str = "") -> list[Path]:
    return sorted(path for path in SAMPLES.glob("*/*.yaml") if path.stem.startswith(prefix))


@cache
def full_sample(kind: AnyKind) -> Path:
    """The sample with the most text: it has every field."""
    candidates = [path for path in samples("good-") if kind_of(load(path)) == kind]
    return max(candidates, key=lambda path: len(path.read_text()))


def kinds() -> list[AnyKind]:
    """The custom kinds that have a sample to break."""
    sampled = {kind_of(load(path)) for path in samples("good-")}
    return [kind for kind in registry.registry().custom_kinds() if kind in sampled]


def mutations(kind: AnyKind) -> list[Mutation]:
    """Some of everything that can be wrong with an object of this kind."""
    document = load(full_sample(kind))
    schema = _schema(kind)
    parts = [name for name in ("spec", "status") if name in document]
    found = [broken for part in parts for broken in _broken(document, schema["properties"].get(part, {}), (part,))]
    by_sort: dict[str, list[Mutation]] = {}
    for mutation in found:
        by_sort.setdefault(mutation.sort, []).append(mutation)
    random = Random(kind.resource)  # noqa: S311 - the same choice every time
    for choices in by_sort.values():
        random.shuffle(choices)
    rounds = [choices[number : number + 1] for number in range(PER_KIND) for choices in by_sort.values()]
    return [mutation for chosen in rounds for mutation in chosen][:PER_KIND]


def _schema(kind: AnyKind) -> Document:
    crd = next(each for each in registry.crds() if each["metadata"]["name"] == kind.resource)
    version = next(each for each in crd["spec"]["versions"] if each["name"] == kind.version)
    schema: Document = version["schema"]["openAPIV3Schema"]
    return schema


def _broken(document: Document, schema: Document, path: tuple[Step, ...]) -> Iterator[Mutation]:
    value = _at(document, path)
    for sort, wrong in _wrong_values(value, schema):
        yield Mutation(sort, path, _replaced(document, path, wrong))
    if isinstance(value, dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        yield Mutation("unknown field", path, _replaced(document, path, {**value, "unheardOf": 1}))
        for name in schema.get("required", ()):
            rest = {key: each for key, each in value.items() if key != name}
            yield Mutation("missing", (*path, name), _replaced(document, path, rest))
        for name in value:
            inner = schema.get("properties", {}).get(name) or schema.get("additionalProperties")
            if isinstance(inner, dict):
                yield from _broken(document, inner, (*path, name))
    if isinstance(value, list) and value:
        if schema.get("x-kubernetes-list-type") in ("map", "set"):
            yield Mutation("duplicate", path, _replaced(document, path, [*value, copy.deepcopy(value[0])]))
        yield from _broken(document, schema.get("items", {}), (*path, 0))


def _wrong_values(value: Any, schema: Document) -> Iterator[tuple[str, Any]]:
    said = schema.get("type", "")
    if schema.get("x-kubernetes-int-or-string"):
        yield "wrong type", [1]
    elif said:
        yield "wrong type", _OTHER_TYPE[said]
        yield "null", None
    if "enum" in schema:
        yield "out of enum", "Nonesuch"
    if said == "string":
        yield from _wrong_texts(schema)
    elif said == "integer":
        yield "negative", -1
        yield "not whole", 1.5
        if "maximum" in schema:
            yield "too large", schema["maximum"] + 1
    elif said == "array":
        if "maxItems" in schema and schema["maxItems"] < 200 and value:
            yield "too many", [copy.deepcopy(value[0]) for _ in range(schema["maxItems"] + 1)]
        if "minItems" in schema:
            yield "too few", []


def _wrong_texts(schema: Document) -> Iterator[tuple[str, str]]:
    if "maxLength" in schema and schema["maxLength"] < 2000:
        yield "too long", "x" * (schema["maxLength"] + 1)
    if "minLength" in schema:
        yield "too short", ""
    if "pattern" in schema:
        yield "pattern", "!?"
    if "format" in schema:
        yield "format", "no such format"


def _at(document: Document, path: tuple[Step, ...]) -> Any:
    value: Any = document
    for step in path:
        value = value[step]
    return value


def _replaced(document: Document, path: tuple[Step, ...], value: Any) -> Document:
    changed = copy.deepcopy(document)
    _at(changed, path[:-1])[path[-1]] = value
    return changed
