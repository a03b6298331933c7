"""The schemas say what the specification's tables say.

The tables in `spec_tables/` were written from the specification, not from the code: one line a field, with its type,
default and limits. They are complete in both directions, so that a field which nobody specified cannot slip in either.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from echelon.api import (
    cluster,
    configuration_policy,
    placement,
    placement_rule,
    policy,
    policy_binding,
    work,
    work_set,
)
from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.api.schema import schema_of

HERE = Path(__file__).parent
SHARED: dict[str, dict[str, JSONObject]] = yaml.safe_load((HERE / "spec_tables" / "shared.yaml").read_text())
MODULES = (cluster, placement, work, work_set, policy, policy_binding, placement_rule, configuration_policy)
KINDS: dict[str, Kind[Any]] = {kind.kind: kind for module in MODULES for kind in module.KINDS}
TABLES: dict[str, JSONObject] = {
    table["resource"]["kind"]: table
    for group in ("cluster", "work", "policy")
    for table in yaml.safe_load_all((HERE / "spec_tables" / f"{group}.yaml").read_text())
}

# What the tables call these, in the words of Kubernetes.
WORDS = {
    "intOrString": "x-kubernetes-int-or-string",
    "preserveUnknown": "x-kubernetes-preserve-unknown-fields",
    "embedded": "x-kubernetes-embedded-resource",
    "listMapKeys": "x-kubernetes-list-map-keys",
}


def fields_of(table: dict[str, JSONObject], prefix: str = "") -> Iterator[tuple[str, JSONObject]]:
    """Yield every field of a table, those of shared parts included, with its path."""
    for path, said in table.items():
        yield prefix + path, said
        if "ref" in said:
            yield from fields_of(SHARED[said["ref"]], f"{prefix}{path}.")


@cache
def specified(kind: str) -> dict[str, JSONObject]:
    return dict(fields_of(TABLES[kind]["fields"]))


def described(schema: JSONObject, prefix: str = "") -> Iterator[tuple[str, JSONObject, bool]]:
    """Yield path, schema and whether it is required, of every field of a schema, in the notation of the tables."""
    required = schema.get("required", [])
    for name, part in schema.get("properties", {}).items():
        yield from _described(part, f"{prefix}{name}", name in required)


def _described(part: JSONObject, path: str, required: bool) -> Iterator[tuple[str, JSONObject, bool]]:
    if part.get("type") == "array":
        yield f"{path}[]", part, required
        yield from described(part["items"], f"{path}[].")
        return
    yield path, part, required
    yield from described(part, f"{path}.")
    if isinstance(part.get("additionalProperties"), dict):
        yield from _described(part["additionalProperties"], f"{path}.*", False)


@cache
def served(kind: str) -> dict[str, tuple[JSONObject, bool]]:
    """Return the fields of a kind's schema by path, without those that every object has."""
    own = {path: (part, required) for path, part, required in described(schema_of(KINDS[kind].type))}
    return {path: said for path, said in own.items() if path not in ("apiVersion", "kind", "metadata")}


def differences(kind: str, path: str) -> Iterator[str]:
    """Tell where the schema of a field says something else than its table."""
    said = specified(kind)[path]
    schema, required = served(kind)[path]
    wanted = [(schema, word, said[word]) for word in said.keys() - {"ref", "required", "upstream", "items"}]
    wanted += [(schema["items"], word, value) for word, value in said.get("items", {}).items()]
    for part, word, value in wanted:
        found = part.get(WORDS.get(word, word))
        if found != value:
            yield f"{word} of {path} is {found!r} and should be {value!r}"
    # A default is filled in before anything is checked, so that the field is always there.
    if "required" in said and (required or "default" in schema) != said["required"]:
        yield f"{path} should be {'required' if said['required'] else 'optional'}"


@pytest.mark.parametrize("kind", TABLES)
def test_fields_have_the_types_defaults_and_limits_of_the_table(kind: str) -> None:
    assert [each for path in specified(kind) for each in differences(kind, path)] == []


@pytest.mark.parametrize("kind", TABLES)
def test_a_kind_has_the_fields_of_its_table_and_no_others(kind: str) -> None:
    assert served(kind).keys() == specified(kind).keys()


@pytest.mark.parametrize("kind", TABLES)
def test_nothing_is_refused_that_the_table_does_not_refuse(kind: str) -> None:
    words = ("pattern", "enum", "nullable", "minimum", "maximum", "minLength", "minItems")
    for path, (schema, _) in served(kind).items():
        said = specified(kind)[path]
        assert {word: schema[word] for word in words if word in schema} == {w: said[w] for w in words if w in said}, (
            path
        )


@pytest.mark.parametrize("kind", TABLES)
def test_every_field_is_described_in_a_sentence(kind: str) -> None:
    for path, (schema, _) in served(kind).items():
        text = schema.get("description", "")
        undeclared = ".objectDefinition." in path or path.endswith(".*")
        assert undeclared or re.fullmatch(r"\S.*\.", text, re.DOTALL), f"{kind}.{path}: {text!r}"


@pytest.mark.parametrize("name", TABLES)
def test_a_kind_is_served_as_its_table_says(name: str) -> None:
    kind, table = KINDS[name], TABLES[name]
    assert table["resource"] == {
        "group": kind.group,
        "version": kind.version,
        "kind": kind.kind,
        "plural": kind.plural,
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "shortNames": list(kind.short_names),
        "status": kind.status,
    }
    columns = [(column.name, {"type": column.type, "path": column.path}) for column in kind.columns]
    assert columns == list(table["columns"].items())
    assert not kind.builtin


def test_every_kind_has_a_table() -> None:
    assert KINDS.keys() == TABLES.keys()


TIGHTENED = sorted(
    {
        (said["pattern"], said["upstream"])
        for kind in TABLES
        for said in specified(kind).values()
        if said.get("upstream")
    }
)


@pytest.mark.parametrize(("ours", "theirs"), TIGHTENED)
@given(st.data())
def test_a_tighter_pattern_takes_nothing_that_the_looser_one_refuses(
    ours: str, theirs: str, data: st.DataObject
) -> None:
    text = data.draw(st.from_regex(re.compile(ours, re.ASCII), fullmatch=True))
    assert re.search(theirs, text)


@pytest.mark.parametrize("kind", TABLES)
def test_the_full_samples_of_a_kind_fill_every_field(kind: str) -> None:
    full = [yaml.safe_load(path.read_text()) for path in HERE.glob(f"samples/*/good-{kind.lower()}-full*.yaml")]
    filled = {path for document in full for path in _paths(document)}
    assert {path.removesuffix(".*") for path in specified(kind)} - filled == set()


def _paths(value: Any, at: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, part in value.items():
            path = f"{at}.{key}" if at else key
            yield path + "[]" if isinstance(part, list) else path
            yield from _paths(part, path)
    elif isinstance(value, list):
        for item in value:
            yield from _paths(item, f"{at}[]")
