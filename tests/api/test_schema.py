from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import pytest

from echelon.api.base import JSON, APIStruct, IntOrString, JSONObject, Rule, field
from echelon.api.meta import LabelSelector, ObjectMeta
from echelon.api.schema import schema_of

Percent = Annotated[IntOrString, field("A number or a share.", pattern="^[0-9]+%?$")]


class Effect(StrEnum):
    KEEP = "Keep"
    DROP = "Drop"


class Part(APIStruct, frozen=True, gc=False, kw_only=True):
    """A part of a widget.

    It has a name.
    """

    name: Annotated[str, field("Name of the part.", max_length=63)]
    weight: Annotated[int, field("How heavy it is.", default=1)] = 1


class Everything(APIStruct, frozen=True, gc=False, kw_only=True):
    text: Annotated[str, field("Some text.", pattern="^a", min_length=1, enum=("a", "ab"))] = ""
    required_text: Annotated[str, field("Needed.")]
    number: Annotated[int, field("A number.", minimum=0, maximum=9)] = 0
    long_number: Annotated[int, field("A long number.", format="int64")] = 0
    share: float = 0.0
    flag: bool = False
    maybe: Annotated[int | None, field("May be absent.")] = None
    null_too: Annotated[str | None, field("May be null.", nullable=True)] = None
    amount: Percent | None = None
    described_amount: Annotated[Percent, field("What is allowed to fail.")] = 0
    number_or_text: Annotated[int, field("Read as a number.", int_or_string=True)] = 0
    free: Annotated[JSON, field("Anything.")] = None
    manifest: Annotated[JSONObject, field("An object.", embedded=True)] = msgspec.field(default_factory=dict)
    raw: JSONObject = msgspec.field(default_factory=dict)
    names: Annotated[list[str], field("Names.", list_set=True)] = msgspec.field(default_factory=list)
    parts: Annotated[list[Part], field("Parts.", list_map_keys=("name",), patch_merge_key="name")] = msgspec.field(
        default_factory=list
    )
    by_name: dict[str, Part] = msgspec.field(default_factory=dict)
    quotas: dict[str, Percent] = msgspec.field(default_factory=dict)
    one: Part | None = None
    described: Annotated[Part | None, field("The spare part.")] = None
    effect: Effect = Effect.KEEP
    mode: Literal["Off", "On"] = "On"
    seen: datetime | None = None
    also_required: list[str]


def properties(type_: type = Everything) -> JSONObject:
    found = schema_of(type_)["properties"]
    assert isinstance(found, dict)
    return found


PART = {
    "description": "A part of a widget.\n\nIt has a name.",
    "type": "object",
    "properties": {
        "name": {"description": "Name of the part.", "type": "string", "maxLength": 63},
        "weight": {"description": "How heavy it is.", "type": "integer", "format": "int32", "default": 1},
    },
    "required": ["name"],
}


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("text", {"description": "Some text.", "type": "string", "pattern": "^a", "enum": ["a", "ab"], "minLength": 1}),
        ("requiredText", {"description": "Needed.", "type": "string"}),
        (
            "number",
            {"description": "A number.", "type": "integer", "format": "int32", "minimum": 0, "maximum": 9},
        ),
        ("longNumber", {"description": "A long number.", "type": "integer", "format": "int64"}),
        ("share", {"type": "number"}),
        ("flag", {"type": "boolean"}),
        ("maybe", {"description": "May be absent.", "type": "integer", "format": "int32"}),
        ("nullToo", {"description": "May be null.", "type": "string", "nullable": True}),
        (
            "amount",
            {
                "description": "A number or a share.",
                "x-kubernetes-int-or-string": True,
                "pattern": "^[0-9]+%?$",
            },
        ),
        (
            "describedAmount",
            {
                "description": "What is allowed to fail.",
                "x-kubernetes-int-or-string": True,
                "pattern": "^[0-9]+%?$",
            },
        ),
        ("numberOrText", {"description": "Read as a number.", "x-kubernetes-int-or-string": True}),
        ("free", {"description": "Anything.", "x-kubernetes-preserve-unknown-fields": True}),
        (
            "manifest",
            {
                "description": "An object.",
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
                "x-kubernetes-embedded-resource": True,
            },
        ),
        ("raw", {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
        (
            "names",
            {"description": "Names.", "type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        ),
        ("byName", {"type": "object", "additionalProperties": PART}),
        ("one", PART),
        ("described", {**PART, "description": "The spare part."}),
        ("effect", {"type": "string", "enum": ["Keep", "Drop"]}),
        ("mode", {"type": "string", "enum": ["Off", "On"]}),
        ("seen", {"type": "string", "format": "date-time"}),
    ],
)
def test_each_type_has_its_schema(name: str, schema: JSONObject) -> None:
    assert properties()[name] == schema


def test_items_and_values_are_described_too() -> None:
    assert properties()["parts"]["items"] == PART
    assert properties()["parts"]["x-kubernetes-list-map-keys"] == ["name"]
    assert properties()["quotas"]["additionalProperties"]["x-kubernetes-int-or-string"] is True


def test_fields_without_a_default_are_required_in_the_order_of_declaration() -> None:
    assert schema_of(Everything)["required"] == ["requiredText", "alsoRequired"]


def test_a_default_of_the_class_is_not_a_default_of_the_schema() -> None:
    assert "default" not in properties()["flag"]
    assert "default" not in properties()["text"]
    assert properties(Part)["weight"]["default"] == 1


def test_a_schema_is_made_once() -> None:
    assert schema_of(Everything) is schema_of(Everything)


class Ruled(APIStruct, frozen=True, gc=False, kw_only=True):
    """Has rules."""

    low: int = 0
    schema_extra: ClassVar[JSONObject] = {
        "x-kubernetes-map-type": "atomic",
        "x-kubernetes-validations": [Rule("self.low >= 0", "low is negative", ".low")],
    }


class Holder(APIStruct, frozen=True, gc=False, kw_only=True):
    ruled: Annotated[Ruled, field("Ruled twice.", rules=(Rule("self.low < 9", "low is high"),))] = Ruled()


def test_rules_of_a_class_become_wire_rules() -> None:
    schema = schema_of(Ruled)
    assert schema["x-kubernetes-map-type"] == "atomic"
    assert schema["x-kubernetes-validations"] == [
        {"rule": "self.low >= 0", "message": "low is negative", "fieldPath": ".low"}
    ]
    assert "schemaExtra" not in schema["properties"]


def test_rules_of_a_field_add_to_those_of_its_class() -> None:
    rules = properties(Holder)["ruled"]["x-kubernetes-validations"]
    assert [rule["rule"] for rule in rules] == ["self.low >= 0", "self.low < 9"]
    assert len(schema_of(Ruled)["x-kubernetes-validations"]) == 1


def test_label_selectors_are_replaced_as_a_whole() -> None:
    assert schema_of(LabelSelector)["x-kubernetes-map-type"] == "atomic"


class Overridden(APIStruct, frozen=True, gc=False, kw_only=True):
    """Contains itself."""

    inner: "Overridden | None" = None

    @classmethod
    def schema_override(cls) -> JSONObject:
        """Say nothing of what is inside."""
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


class Endless(APIStruct, frozen=True, gc=False, kw_only=True):
    inner: "Endless | None" = None


def test_an_override_replaces_the_schema_of_a_class() -> None:
    assert schema_of(Overridden) == {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def test_a_class_that_contains_itself_needs_an_override() -> None:
    with pytest.raises(TypeError, match="Endless contains itself; give it a schema_override"):
        schema_of(Endless)


class Widget(APIStruct, frozen=True, gc=False, kw_only=True):
    """A widget."""

    metadata: Annotated[ObjectMeta, field("Metadata.")] = ObjectMeta()
    template: Annotated[Any, field("Template.")] = None


class Template(APIStruct, frozen=True, gc=False, kw_only=True):
    widget: Widget = Widget()


class Report(APIStruct, frozen=True, gc=False, kw_only=True):
    metadata: dict[str, str] = msgspec.field(default_factory=dict)


def test_metadata_of_a_whole_object_is_left_to_the_server() -> None:
    assert properties(Widget)["metadata"] == {"type": "object"}


def test_metadata_is_described_in_full_on_request_and_inside_of_other_objects() -> None:
    full = schema_of(Widget, metadata="full")["properties"]["metadata"]
    assert full["description"] == "Metadata."
    assert full["properties"]["labels"]["additionalProperties"] == {"type": "string"}
    assert properties(Template)["widget"]["properties"]["metadata"] == full
    assert properties(Widget)["metadata"] == {"type": "object"}


def test_another_field_of_that_name_is_no_object_metadata() -> None:
    assert properties(Report)["metadata"] == {"type": "object", "additionalProperties": {"type": "string"}}


class Mixed(msgspec.Struct):
    either: int | list[str] = 0


class Strange(msgspec.Struct):
    number: complex | None = None


def test_what_a_structural_schema_cannot_say_is_an_error_that_names_the_class() -> None:
    with pytest.raises(TypeError, match=r"one type a field, .* in Mixed"):
        schema_of(Mixed)
    with pytest.raises(TypeError, match=r"no word for .* in Strange"):
        schema_of(Strange)
    with pytest.raises(TypeError, match="is not a Struct"):
        schema_of(int)
