import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.hub.schema.cel import CompileError, EvaluationError, RuleError, Rules, compile_expression, escape
from echelon.kube.errors import Cause

Schema = dict[str, Any]


def rule(text: str, **more: Any) -> Schema:
    return {"rule": text, **more}


def spec(*rules: Schema, kind: str = "object", **more: Any) -> Schema:
    return {"type": "object", "properties": {"spec": {"type": kind, "x-kubernetes-validations": list(rules), **more}}}


def broken(schema: Schema, value: Any, old: Any = None) -> list[str]:
    before = None if old is None else {"spec": old}
    return [str(cause) for cause in Rules.compile(schema).evaluate({"spec": value}, before)]


INT: Schema = {"type": "integer"}


class TestRules:
    def test_a_rule_sees_its_node_as_self(self) -> None:
        schema = spec(rule("self.a <= self.b", message="a is over b"), properties={"a": INT, "b": INT})
        assert broken(schema, {"a": 1, "b": 2}) == []
        assert broken(schema, {"a": 3, "b": 2}) == ["spec: Invalid value: a is over b"]

    def test_without_a_message_the_rule_is_shown(self) -> None:
        assert broken(spec(rule(" self < 5 "), kind="integer"), 7) == ["spec: Invalid value: 7: failed rule: self < 5"]

    def test_a_message_can_be_computed(self) -> None:
        computed = rule("self < 5", message="fixed", messageExpression="'got ' + string(self)")
        assert broken(spec(computed, kind="integer"), 7) == ["spec: Invalid value: 7: got 7"]
        failing = rule("self < 5", message="fixed", messageExpression="'got ' + string(self / 0)")
        assert broken(spec(failing, kind="integer"), 7) == ["spec: Invalid value: 7: fixed"]
        two_lines = rule("self < 5", message="fixed", messageExpression=r"'a\nb'")
        assert broken(spec(two_lines, kind="integer"), 7) == ["spec: Invalid value: 7: fixed"]

    @pytest.mark.parametrize(
        ("reason", "text"),
        [
            ("FieldValueForbidden", "spec: Forbidden: no"),
            ("FieldValueRequired", "spec: Required value: no"),
            ("FieldValueDuplicate", "spec: Duplicate value: 7"),
            ("FieldValueInvalid", "spec: Invalid value: 7: no"),
        ],
    )
    def test_reasons(self, reason: str, text: str) -> None:
        schema = spec(rule("self < 5", message="no", reason=reason), kind="integer")
        (cause,) = Rules.compile(schema).evaluate({"spec": 7})
        assert (str(cause), cause.reason) == (text, reason)

    def test_a_field_path_points_below_the_node(self) -> None:
        maps = {"type": "object", "additionalProperties": {"type": "object", "properties": {"b": INT}}}
        schema = spec(
            rule("false", message="m", fieldPath=".a"),
            rule("false", message="m", fieldPath=".labels['x.y'].b"),
            properties={"a": INT, "labels": maps},
        )
        assert broken(schema, {}) == ["spec.a: Invalid value: m", "spec.labels[x.y].b: Invalid value: m"]

    def test_items_and_map_values_have_their_own_paths(self) -> None:
        small = {"type": "integer", "x-kubernetes-validations": [rule("self < 5")]}
        schema = spec(
            properties={
                "list": {"type": "array", "items": small},
                "map": {"type": "object", "additionalProperties": small},
            }
        )
        assert broken(schema, {"list": [1, 9], "map": {"a": 1, "b": 8}}) == [
            "spec.list[1]: Invalid value: 9: failed rule: self < 5",
            "spec.map[b]: Invalid value: 8: failed rule: self < 5",
        ]

    def test_the_root_may_look_at_the_name(self) -> None:
        schema = {
            "type": "object",
            "x-kubernetes-validations": [
                rule("self.metadata.name != 'no' && self.kind == 'X'", message="not that name")
            ],
        }
        rules = Rules.compile(schema)
        assert rules.evaluate({"kind": "X", "metadata": {"name": "yes"}}) == []
        (cause,) = rules.evaluate({"kind": "X", "metadata": {"name": "no"}})
        assert str(cause) == "<nil>: Invalid value: not that name"

    def test_rules_inside_all_of_are_rules_of_the_node(self) -> None:
        schema = spec(kind="integer", allOf=[{"x-kubernetes-validations": [rule("self < 5")]}])
        assert broken(schema, 7) == ["spec: Invalid value: 7: failed rule: self < 5"]

    def test_an_evaluation_error_is_a_failure(self) -> None:
        schema = spec(rule("self.missing == 1"), rule("self.a / 0 == 1", message="m"), rule("self.a + 'x' == 'x'"))
        assert broken(schema, {"a": 1}) == [
            'spec: Invalid value: "object": no such key: missing evaluating rule: self.missing == 1',
            'spec: Invalid value: "object": division by zero evaluating rule: m',
            (
                "spec: Invalid value: \"object\": 'no such overload': call arguments did not match a supported "
                "operator, function or macro signature for rule: self.a + 'x' == 'x'"
            ),
        ]

    def test_absent_fields_can_be_asked_for(self) -> None:
        schema = spec(rule("!has(self.a) || self.a > 1"), rule("self.?a.orValue(5) > 1"), properties={"a": INT})
        assert broken(schema, {}) == []
        assert len(broken(schema, {"a": 1})) == 2

    def test_null_is_not_validated(self) -> None:
        assert broken(spec(rule("false"), kind="integer"), None) == []

    def test_values_have_the_type_that_the_schema_says(self) -> None:
        schema = spec(
            rule("self.n * 2.0 < 5.0", message="n"),
            rule("self.b == b'hi'", message="b"),
            rule("type(self.p) == int || self.p.endsWith('%')", message="p"),
            properties={
                "n": {"type": "number"},
                "b": {"type": "string", "format": "byte"},
                "p": {"x-kubernetes-int-or-string": True},
            },
        )
        assert broken(schema, {"n": 2, "b": "aGk=", "p": "5%"}) == []
        assert broken(schema, {"n": 3, "b": "aGkh", "p": "5"}) == [f"spec: Invalid value: {name}" for name in "nbp"]

    def test_names_that_cel_cannot_spell_are_escaped(self) -> None:
        names = ["my-name", "a.b", "x/y", "namespace", "a__b", "plain", "loop"]
        assert [escape(name) for name in names] == [
            "my__dash__name",
            "a__dot__b",
            "x__slash__y",
            "__namespace__",
            "a__underscores__b",
            "plain",
            "__loop__",
        ]
        assert [escape(name) for name in ("5a", "a b", "")] == [None, None, None]
        schema = spec(
            rule("self.my__dash__name == self.__namespace__"),
            properties={"my-name": {"type": "string"}, "namespace": {"type": "string"}},
        )
        assert broken(schema, {"my-name": "x", "namespace": "x"}) == []
        assert len(broken(schema, {"my-name": "x", "namespace": "y"})) == 1


class TestTransitions:
    immutable = spec(rule("self == oldSelf", message="immutable"), kind="string")

    def test_a_transition_rule_waits_for_an_update(self) -> None:
        assert broken(self.immutable, "a") == []
        assert broken(self.immutable, "a", "a") == []
        assert broken(self.immutable, "b", "a") == ['spec: Invalid value: "b": immutable']

    def test_a_text_that_only_mentions_the_old_value_is_no_transition_rule(self) -> None:
        assert broken(spec(rule("self != 'oldSelf'"), kind="string"), "oldSelf") != []

    def test_an_optional_old_value_is_seen_on_create_too(self) -> None:
        schema = spec(
            rule("oldSelf.hasValue() || self == 1", optionalOldSelf=True, message="start at 1"), kind="integer"
        )
        assert broken(schema, 2) == ["spec: Invalid value: 2: start at 1"]
        assert broken(schema, 1) == []
        assert broken(schema, 2, 1) == []

    def test_items_are_compared_with_the_item_that_has_their_key(self) -> None:
        grow = rule("self.v >= oldSelf.v", message="shrinks")
        item = {"type": "object", "properties": {"k": {"type": "string"}, "v": INT}, "x-kubernetes-validations": [grow]}
        keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
        old, new = (
            [{"k": "a", "v": 5}, {"k": "b", "v": 1}],
            [{"k": "b", "v": 2}, {"k": "a", "v": 4}, {"k": "c", "v": 0}],
        )
        assert broken(spec(kind="array", items=item, **keyed), new, old) == ["spec[1]: Invalid value: shrinks"]
        assert broken(spec(kind="array", items=item), new, old) == []

    def test_a_new_field_has_nothing_to_be_compared_with(self) -> None:
        schema = spec(
            properties={"a": {"type": "integer", "x-kubernetes-validations": [rule("self == oldSelf")]}}, kind="object"
        )
        assert broken(schema, {"a": 1}, {}) == []
        assert len(broken(schema, {"a": 1}, {"a": 2})) == 1


SMALL: Schema = {"type": "integer", "x-kubernetes-validations": [rule("self < 5")]}


class TestRatcheting:
    def test_what_did_not_change_may_stay_wrong(self) -> None:
        schema = spec(properties={"a": SMALL, "b": SMALL})
        assert broken(schema, {"a": 9, "b": 9}, {"a": 9, "b": 1}) == ["spec.b: Invalid value: 9: failed rule: self < 5"]

    def test_items_without_keys_are_unchanged_if_their_list_is(self) -> None:
        schema = spec(kind="array", items=SMALL)
        assert broken(schema, [9, 1], [9, 1]) == []
        assert len(broken(schema, [9, 1], [9, 2])) == 1

    def test_transition_rules_are_not_excused(self) -> None:
        assert broken(spec(rule("oldSelf < 5"), kind="integer"), 9, 9) != []

    def test_an_object_as_a_whole_is_excused_only_by_having_been_accepted(self) -> None:
        rules = Rules.compile({"type": "object", "x-kubernetes-validations": [rule("self.a < 5 && self.b.c < 5")]})
        wrong: Schema = {"a": 9, "b": {"c": 1}, "x": 1}
        assert len(rules.evaluate({**wrong, "x": 2}, wrong)) == 1
        assert rules.evaluate({**wrong, "x": 2}, wrong, accepted=True) == []
        good: Schema = {"a": 1, "b": {"c": 1}, "x": 1}
        assert len(rules.evaluate({**good, "a": 9}, good, accepted=True)) == 1
        assert len(rules.evaluate({**good, "b": {"c": 9}}, good, accepted=True)) == 1
        assert len(rules.evaluate({"a": 1, "x": 1}, good, accepted=True)) == 1

    def test_what_was_accepted_is_still_looked_at_by_rules_about_the_change(self) -> None:
        looks_back = rule("self.a >= oldSelf.a && self.x < 5")
        rules = Rules.compile({"type": "object", "x-kubernetes-validations": [looks_back]})
        assert len(rules.evaluate({"a": 1, "x": 9}, {"a": 1, "x": 1}, accepted=True)) == 1


class TestLimits:
    @pytest.mark.parametrize(
        ("text", "detail"),
        [
            ("self.", "Syntax error"),
            ("nope == 1", "undeclared reference to 'nope'"),
            ("self.unknownFunction()", "undeclared reference to 'unknownFunction'"),
            ("1 + 1", "cel expression must evaluate to a bool"),
            ("self == '" + "x" * 6000 + "'", "longer than 5120 bytes"),
            ("(" * 300 + "true" + ")" * 300, "recursion limit exceeded"),
            ("1 == 'a'", "found no matching overload"),
        ],
    )
    def test_a_rule_that_does_not_compile_is_named(self, text: str, detail: str) -> None:
        with pytest.raises(RuleError) as error:
            Rules.compile(spec(rule("true"), rule(text)))
        assert error.value.path == "properties[spec].x-kubernetes-validations[1]"
        assert error.value.rule == text
        assert detail in error.value.detail

    def test_a_message_that_is_no_string_does_not_compile(self) -> None:
        with pytest.raises(RuleError, match="messageExpression must evaluate to a string"):
            Rules.compile(spec(rule("true", messageExpression="1")))

    @pytest.mark.full
    def test_evaluation_ends_however_large_the_object_is(self) -> None:
        item = {"type": "array", "x-kubernetes-validations": [rule("self.all(a, self.all(b, a + b > 0))")]}
        found = broken(spec(kind="array", items=item), [[1] * 60] * 300)
        assert len(found) == 1
        assert "running out of cost budget" in found[0]

    def test_nested_loops_are_cut_off(self) -> None:
        schema = spec(rule("self.all(a, self.all(b, self.all(c, a + b + c >= 0)))", message="m"), kind="array")
        (found,) = broken(schema, list(range(200)))
        assert "cost limit exceeded" in found

    def test_rules_are_not_run_on_an_object_of_the_wrong_shape(self) -> None:
        rules = Rules.compile(spec(rule("self.a > 1", message="m")))
        wrong = Cause("spec.a", "Required value", "FieldValueRequired")
        (cause,) = rules.evaluate({"spec": {}}, after=[wrong])
        assert cause.field == "<nil>"
        assert "some validation rules were not checked" in cause.detail
        minor = Cause("spec.b", "Invalid value: 1: no")
        assert [c.field for c in rules.evaluate({"spec": {"a": 0}}, after=[minor])] == ["spec"]


LIBRARY: list[tuple[str, Any]] = [
    ("quantity('1Gi') == quantity('1024Mi')", True),
    ("quantity('500m').isLessThan(quantity('1'))", True),
    ("quantity('2k').compareTo(quantity('2000'))", 0),
    ("quantity('1').add(quantity('500m')).sub(1) == quantity('0.5')", True),
    ("quantity('3').asInteger() + 1", 4),
    ("quantity('1500m').isInteger()", False),
    ("quantity('-1').sign()", -1),
    ("quantity('1.5Gi') == quantity('1536Mi')", True),
    ("quantity('0.1n') == quantity('1n')", True),  # nothing is smaller, as in the placements' arithmetic
    ("isQuantity(' 1') || isQuantity('.') || isQuantity('') || isQuantity('1e1000')", False),
    ("isQuantity('5x') || isQuantity('1e3') == false", False),
    ("isURL('https://a.b/c?d=e') && !isURL('nope')", True),
    ("url('https://u@h.x:8080/p?a=1').getHostname() + url('https://h.x:8080/').getPort()", "h.x8080"),
    ("ip('10.0.0.1').family() == 4 && isIP('::1') && !isIP('10.0.0')", True),
    ("cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsCIDR('11.0.0.0/16')", True),
    ("cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('10.0.0.0/8').prefixLength() == 8", True),
    ("semver('1.2.3').isLessThan(semver('1.10.0')) && semver('1.0.0-rc.1').isLessThan(semver('1.0.0'))", True),
    ("isSemver('1.2') || semver('4.5.6').minor() != 5", False),
    ("'abc 123 def 45'.find('[0-9]+')", "123"),
    ("'abc 123 def 45'.findAll('[0-9]+')", ["123", "45"]),
    ("'a1b2c3'.findAll('[0-9]', 2)", ["1", "2"]),
    ("('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!').find('(a+)+$')", ""),
    ("'äöü'.findAll('') == ['', '', '', ''] && 'aXbb'.findAll('b*') == ['', '', 'bb']", True),
    ("[1, 2, 2].isSorted() && !['b', 'a'].isSorted()", True),
    ("[1, 2, 3].sum() + [4, 9].max() - [4, 9].min()", 11),
    ("[1.5, 2.5].sum()", 4.0),
    ("['a', 'b', 'a'].indexOf('b') + ['a', 'b', 'a'].lastIndexOf('a') + 'abc'.indexOf('c')", 5),
    ("sets.contains([1, 2], [2]) && sets.equivalent([1, 1], [1]) && !sets.intersects([1], [2])", True),
    ("'A,b'.lowerAscii().split(',').join('-').replace('b', 'c').upperAscii()", "A-C"),
    ("'%s is %d'.format(['a', 5])", "a is 5"),
    ("duration('1h') > duration('59m') && timestamp('2026-01-01T00:00:00Z').getFullYear() == 2026", True),
    ("'abc'.matches('^[a-c]+$') && math.greatest(1, 3) == 3 && cel.bind(x, 2, x * x) == 4", True),
]


@pytest.mark.parametrize(("text", "value"), LIBRARY)
def test_the_library_of_kubernetes(text: str, value: Any) -> None:
    assert compile_expression(text).evaluate() == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("quantity('x')", "quantities must match the regular expression"),
        ("[].max()", "max called on empty list"),
        ("'a'.find('(?=a)')", "error parsing regexp"),
        ("x[5]", "index out of bounds: 5"),
    ],
)
def test_errors_of_functions_are_told(text: str, why: str) -> None:
    with pytest.raises(EvaluationError, match=why):
        compile_expression(text, ["x"]).evaluate(x=[])


def test_expressions_take_named_variables() -> None:
    program = compile_expression("cluster.labels.env == 'prod' && size(taints) == 0", ["cluster", "taints"])
    assert program.evaluate(cluster={"labels": {"env": "prod"}}, taints=[]) is True
    assert program.evaluate(cluster={"labels": {"env": "dev"}}, taints=[]) is False
    with pytest.raises(CompileError):
        compile_expression("cluster.", ["cluster"])


def test_without_the_extra_rules_are_counted_and_not_enforced() -> None:
    code = (
        "import sys; sys.modules['cel_expr_python'] = None\n"
        "from echelon.hub.schema.cel import CEL_AVAILABLE, Rules\n"
        "rules = Rules.compile({'type': 'object', 'x-kubernetes-validations': [{'rule': 'false'}, {'rule': 'x('}]})\n"
        "print(CEL_AVAILABLE, rules.unenforced, rules.evaluate({}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False 2 []\n"


VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "l", "m", "x-y"]), inner),
    max_leaves=10,
)
ANYTHING = Rules.compile(
    spec(
        rule("self.a > self.b"),
        rule("self == oldSelf"),
        rule("self.l.all(x, x.a == 1)", messageExpression="string(self.a)"),
        rule("quantity(self.a).isLessThan(quantity(self.b))"),
        rule("self.x__dash__y.isSorted() && self.l.sum() > 1"),
        rule("oldSelf.orValue(1) == self", optionalOldSelf=True),
        properties={
            "a": {"type": "number", "x-kubernetes-validations": [rule("self > 1.0")]},
            "l": {"type": "array", "items": {"type": "object", "x-kubernetes-validations": [rule("has(self.a)")]}},
            "m": {"type": "object", "additionalProperties": {"x-kubernetes-validations": [rule("self == 'a'")]}},
            "x-y": {"type": "array"},
        },
    )
)


@given(VALUE, st.none() | VALUE)
def test_no_object_makes_evaluation_fail_in_another_way(value: Any, old: Any) -> None:
    for cause in ANYTHING.evaluate({"spec": value}, None if old is None else {"spec": old}):
        assert cause.field.startswith("spec")


@given(st.text(max_size=30))
def test_any_text_compiles_or_is_a_typed_error(text: str) -> None:
    try:
        compile_expression(text, ["self"]).evaluate(self={"a": 1})
    except (CompileError, EvaluationError):
        return
