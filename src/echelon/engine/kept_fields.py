"""What a server keeps of an object, told from the CustomResourceDefinition that it serves it by.

Where a definition is somebody else's, the server drops without a word what the schema does not have. Whoever writes
such a field, and counts on it, has to know that before.
"""

from collections.abc import Iterator

from echelon.api.base import JSONObject

_PRESERVED = "x-kubernetes-preserve-unknown-fields"


def keeps(definition: JSONObject, version: str, path: str, wanted: JSONObject) -> bool:
    """Whether everything that a schema has at a path (`status.status[].compliant`) survives a write and a read.

    What is written goes through the schema of the version that it is written in, and through that of the one that is
    stored.
    """
    spec = definition.get("spec") or {}
    if spec.get("preserveUnknownFields"):
        return True
    passed = [each for each in spec.get("versions") or () if each.get("name") == version or each.get("storage")]
    if all(each.get("name") != version for each in passed):
        return False
    return all(_has(schema_in(each), list(_steps(path)), wanted) for each in passed)


def schema_in(version: JSONObject) -> JSONObject:
    """Return the schema of one version of a definition."""
    return (version.get("schema") or {}).get("openAPIV3Schema") or {}


def schema_at(schema: JSONObject, path: str) -> JSONObject:
    """Return the part of a schema at a path that it has; raises KeyError otherwise."""
    for step in _steps(path):
        schema = schema["items"] if step == "[]" else schema["properties"][step]
    return schema


def _steps(path: str) -> Iterator[str]:
    for name in path.split("."):
        yield name.removesuffix("[]")
        if name.endswith("[]"):
            yield "[]"


def _has(schema: JSONObject, steps: list[str], wanted: JSONObject) -> bool:
    if not steps:
        return _covers(schema, wanted)
    step, *rest = steps
    found = _below(schema, step)
    return _drops_nothing(schema) if found is None else _has(found, rest, wanted)


def _below(schema: JSONObject, step: str) -> JSONObject | None:
    """Return the schema of a property or of the items of a list, if there is one: it is asked before all else."""
    if step == "[]":
        return schema.get("items")
    declared: JSONObject | None = (schema.get("properties") or {}).get(step)
    if declared is None and isinstance(any_other := schema.get("additionalProperties"), dict):
        return any_other
    return declared


def _drops_nothing(schema: JSONObject) -> bool:
    return bool(schema.get(_PRESERVED)) or schema.get("additionalProperties") is True


def _covers(schema: JSONObject, wanted: JSONObject) -> bool:
    """Whether everything of which one schema knows is kept by another."""
    if wanted.get(_PRESERVED) and not _drops_nothing(schema):
        return False
    parts = dict(wanted.get("properties") or {})
    if isinstance(items := wanted.get("items"), dict):
        parts["[]"] = items
    if isinstance(values := wanted.get("additionalProperties"), dict):
        parts["any other"] = values  # no property has such a name, so it can only be kept by what keeps any
    return all(_has(schema, [name], part) for name, part in parts.items())
