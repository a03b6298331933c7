"""The texts in these tests are what Kubernetes 1.36 answers."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api import labels
from echelon.api.label_terms import Requirement, Terms
from echelon.api.labels import FieldTerm, Selector, SelectorError
from echelon.api.meta import LabelSelector, LabelSelectorRequirement

NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
PREFIX_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


@pytest.mark.parametrize(
    ("text", "matching", "other"),
    [
        ("", [{}, {"a": "b"}], []),
        ("a=b", [{"a": "b"}], [{}, {"a": "c"}]),
        ("a==b", [{"a": "b"}], [{}, {"a": "c"}]),
        ("a=", [{"a": ""}], [{}, {"a": "b"}]),
        ("a!=b", [{}, {"a": "c"}], [{"a": "b"}]),
        ("a in (x,y)", [{"a": "x"}, {"a": "y"}], [{}, {"a": "z"}]),
        ("a in (x,)", [{"a": "x"}, {"a": ""}], [{}, {"a": "z"}]),
        ("a in ()", [{"a": ""}], [{}, {"a": "z"}]),
        ("a notin (x,y)", [{}, {"a": "z"}], [{"a": "x"}]),
        ("a", [{"a": ""}, {"a": "b"}], [{}, {"b": "a"}]),
        ("!a", [{}, {"b": "a"}], [{"a": ""}]),
        ("! a", [{}], [{"a": ""}]),
        ("a>1", [{"a": "2"}, {"a": "10"}], [{}, {"a": "1"}, {"a": "x"}, {"a": ""}]),
        ("a<1", [{"a": "0"}, {"a": "-5"}], [{}, {"a": "1"}, {"a": "99999999999999999999"}]),
        (" a = b , c ", [{"a": "b", "c": ""}], [{"a": "b"}, {"c": ""}]),
        ("in in (in,notin)", [{"in": "notin"}], [{"in": "x"}]),
        ("example.com/a=b", [{"example.com/a": "b"}], [{"a": "b"}]),
    ],
)
def test_a_label_selector_selects(text: str, matching: list[dict[str, str]], other: list[dict[str, str]]) -> None:
    selector = labels.parse(text)
    assert [found for found in matching + other if selector.matches(found)] == matching


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("a=b,", "found '', expected: identifier after ','"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("a==(", "unable to parse requirement: found '(', expected: identifier"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (b,", "unable to parse requirement: found '', expected: ',', or identifier"),
        ("-a=b", f'unable to parse requirement: <nil>: Invalid value: "-a": name part {NAME_RULE}'),
        ("a=-b", f'unable to parse requirement: values[0][a]: Invalid value: "-b": {VALUE_RULE}'),
        (
            "a>b",
            (
                "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value "
                "must be an integer"
            ),
        ),
    ],
)
def test_a_mistake_in_a_label_selector_is_named_as_kubernetes_names_it(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        labels.parse(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("key", "errors"),
    [
        ("app", []),
        ("app.kubernetes.io/name", []),
        ("a" * 63, []),
        ("a" * 64, ["name part must be no more than 63 bytes"]),
        ("", ["name part must be non-empty", f"name part {NAME_RULE}"]),
        ("/a", ["prefix part must be non-empty"]),
        ("A.com/a", [f"prefix part {PREFIX_RULE}"]),
        ("a" * 254 + "/a", ["prefix part must be no more than 253 bytes"]),
        ("a\n", [f"name part {NAME_RULE}"]),
        (
            "a/b/c",
            [
                (
                    f"a valid label key {NAME_RULE} with an optional DNS subdomain prefix and '/' "
                    "(e.g. 'example.com/MyName')"
                )
            ],
        ),
    ],
)
def test_keys_are_qualified_names(key: str, errors: list[str]) -> None:
    assert labels.qualified_name_errors(key) == errors


@pytest.mark.parametrize(
    ("value", "errors"),
    [
        ("", []),
        ("v1.2_3-x", []),
        ("a" * 63, []),
        ("a" * 64, ["must be no more than 63 bytes"]),
        ("-a", [VALUE_RULE]),
        ("é" * 32, ["must be no more than 63 bytes", VALUE_RULE]),
        ("a\n", [VALUE_RULE]),
    ],
)
def test_values_are_short_and_plain(value: str, errors: list[str]) -> None:
    assert labels.label_value_errors(value) == errors


def test_a_selector_of_an_object_selects() -> None:
    typed = LabelSelector(
        match_labels={"tier": "gold"},
        match_expressions=[
            LabelSelectorRequirement(key="zone", operator="In", values=["b", "a"]),
            LabelSelectorRequirement(key="drained", operator="DoesNotExist"),
        ],
    )
    wire = {
        "matchLabels": {"tier": "gold"},
        "matchExpressions": [
            {"key": "zone", "operator": "In", "values": ["b", "a"]},
            {"key": "drained", "operator": "DoesNotExist"},
        ],
    }
    selector = labels.from_label_selector(typed)
    assert selector == labels.from_label_selector(wire) == labels.parse("!drained,tier=gold,zone in (a,b)")
    assert selector.matches({"tier": "gold", "zone": "a"})
    assert not selector.matches({"tier": "gold", "zone": "a", "drained": ""})


def test_an_empty_selector_of_an_object_selects_everything() -> None:
    assert labels.from_label_selector({}).matches({"any": "thing"})


@pytest.mark.parametrize(
    ("term", "error"),
    [
        (
            {"key": "a", "operator": "In"},
            (
                "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' "
                "or 'NotIn'"
            ),
        ),
        (
            {"key": "a", "operator": "Exists", "values": ["x"]},
            (
                "spec.selector.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' "
                "or 'DoesNotExist'"
            ),
        ),
        (
            {"key": "a", "operator": "Gt", "values": ["1"]},
            'spec.selector.matchExpressions[0].operator: Invalid value: "Gt": not a valid selector operator',
        ),
        (
            {"key": "-a", "operator": "Exists"},
            f'spec.selector.matchExpressions[0].key: Invalid value: "-a": name part {NAME_RULE}',
        ),
        (
            {"key": "a", "operator": "In", "values": ["x", "-y"]},
            f'spec.selector.matchExpressions[0].values[1]: Invalid value: "-y": {VALUE_RULE}',
        ),
    ],
)
def test_a_mistake_in_a_selector_of_an_object_has_its_path(term: dict[str, object], error: str) -> None:
    with pytest.raises(SelectorError) as caught:
        labels.from_label_selector({"matchExpressions": [term]}, "spec.selector")
    assert caught.value.errors == (error,)


def test_all_mistakes_of_a_selector_are_reported_at_once() -> None:
    with pytest.raises(SelectorError) as caught:
        labels.from_label_selector({"matchLabels": {"-a": "-b"}})
    assert len(caught.value.errors) == 2
    assert str(caught.value) == f"[{', '.join(caught.value.errors)}]"


def test_a_selector_of_the_wrong_shape_is_a_selector_error() -> None:
    with pytest.raises(SelectorError, match="Expected `object`"):
        labels.from_label_selector({"matchLabels": "tier=gold"})


NAMES = st.sampled_from(["a", "in", "notin", "example.com/x", "B.c_d-e", "exists", "gt"])
VALUES = st.sampled_from(["", "1", "in", "notin", "v", "x.y"])
SETS = st.sets(VALUES, min_size=1).map(lambda values: tuple(sorted(values)))
REQUIREMENTS = st.one_of(
    st.builds(Requirement, NAMES, st.sampled_from(["in", "notin"]), SETS),
    st.builds(Requirement, NAMES, st.sampled_from(["=", "==", "!="]), st.tuples(st.sampled_from(["", "v", "in"]))),
    st.builds(Requirement, NAMES, st.sampled_from(["gt", "lt"]), st.tuples(st.sampled_from(["1", "07"]))),
    st.builds(Requirement, NAMES, st.sampled_from(["exists", "!"])),
)
SELECTORS = st.lists(REQUIREMENTS, max_size=4).map(lambda found: Selector(tuple(sorted(found, key=lambda r: r.key))))


@given(SELECTORS)
def test_a_selector_reads_back_what_it_writes(selector: Selector) -> None:
    assert labels.parse(str(selector)) == selector


@given(st.text(alphabet="ab=!(),<> in\\/-\x00é"))
def test_any_text_is_a_selector_or_a_selector_error(text: str) -> None:
    for parse in (labels.parse, labels.parse_fields):
        with contextlib.suppress(SelectorError):
            parse(text)


@given(SELECTORS, st.dictionaries(NAMES, VALUES))
def test_negation_is_the_opposite(selector: Selector, found: dict[str, str]) -> None:
    opposite = {"in": "notin", "notin": "in", "=": "!=", "!=": "=", "==": "!=", "exists": "!", "!": "exists"}
    for requirement in selector.requirements:
        if requirement.operator in opposite:
            negated = Requirement(requirement.key, opposite[requirement.operator], requirement.values)
            assert negated.matches(found) != requirement.matches(found)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", ()),
        (",,", ()),
        ("!=", ()),
        ("metadata.name=x", (FieldTerm("metadata.name", "x"),)),
        (
            "status.phase!=Running,metadata.name==x",
            (
                FieldTerm("metadata.name", "x"),
                FieldTerm("status.phase", "Running", negated=True),
            ),
        ),
        (r"a=x\,y\=z\\", (FieldTerm("a", "x,y=z\\"),)),
        ("a!=", (FieldTerm("a", "", negated=True),)),
    ],
)
def test_a_field_selector_has_terms(text: str, terms: tuple[FieldTerm, ...]) -> None:
    assert labels.parse_fields(text).terms == terms


def test_a_field_selector_selects_when_all_terms_hold() -> None:
    selector = labels.parse_fields("metadata.name=x,status.phase!=Running")
    objects: list[dict[str, str]] = [
        {"metadata.name": "x"},
        {"metadata.name": "x", "status.phase": "Running"},
        {"metadata.name": "y"},
    ]
    assert [selector.matches(lambda name, o=o: o.get(name, "")) for o in objects] == [True, False, False]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=b,spec", "invalid selector: 'a=b,spec'; can't understand 'spec'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        (r"a=b\c", r"invalid field selector: invalid escape sequence: \c"),
        ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
    ],
)
def test_a_mistake_in_a_field_selector_is_named_as_kubernetes_names_it(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        labels.parse_fields(text)
    assert str(caught.value) == message


TERM = st.tuples(
    st.sampled_from(["a", "b", "c", "d"]),
    st.sampled_from(["in", "notin", "=", "!=", "exists", "!", "gt", "lt"]),
    st.lists(st.sampled_from(["", "1", "5", "9", "x"]), min_size=1, max_size=3),
)


@given(
    st.lists(TERM, min_size=9, max_size=14),
    st.dictionaries(st.sampled_from("abcdz"), st.sampled_from(["1", "5", "9", "x"])),
)
def test_many_terms_together_mean_what_each_of_them_means(
    terms: list[tuple[str, str, list[str]]], has: dict[str, str]
) -> None:
    requirements = tuple(
        Requirement(
            key, operator, () if operator in ("exists", "!") else tuple(values if "in" in operator else values[:1])
        )
        for key, operator, values in terms
    )
    assert Selector(requirements).matches(has) == all(each.matches(has) for each in requirements)


TERMS = st.sampled_from(
    ["a=x", "a!=x", "a in (x,y)", "a notin (y,z)", "a", "!a", "a>1", "a<5", "a>3", "b=x", "b", "!b"]
)
LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["x", "y", "1", "4", "7", ""]))


@given(st.lists(TERMS, max_size=20), LABELS)
def test_many_terms_select_what_each_of_them_selects(terms: list[str], given_labels: dict[str, str]) -> None:
    requirements = labels.parse(",".join(terms)).requirements
    one_by_one = all(requirement.matches(given_labels) for requirement in requirements)
    assert Terms(requirements).match(given_labels) == one_by_one
    assert labels.Selector(requirements).matches(given_labels) == one_by_one


@given(st.lists(st.sampled_from(["f=x", "f!=x", "f=y", "g!=y", "g="]), max_size=5), LABELS)
def test_field_terms_select_together_what_they_select_one_by_one(terms: list[str], fields: dict[str, str]) -> None:
    selector = labels.parse_fields(",".join(terms))

    def lookup(path: str) -> str:
        return fields.get({"f": "a", "g": "b"}[path], "")

    assert selector.by_field()(lookup) == selector.matches(lookup)
