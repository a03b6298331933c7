"""Our evaluator against the one of the runtime whose compiler it uses: same expressions, same values."""

from datetime import timedelta
from typing import Any

import pytest
from cel_expr_python import cel
from hypothesis import given
from hypothesis import strategies as st

from echelon.engine.cel import EvaluationError, compile_expression
from echelon.engine.cel.program import _environment
from echelon.engine.cel.times import Duration

VARIABLES: dict[str, Any] = {
    "n": 7,
    "d": 2.5,
    "s": "hällo, wörld",
    "t": True,
    "z": None,
    "l": [1, 2, 3, 2],
    "m": {"a": 1, "b": {"c": [True, None, "x"]}, "x": "1h"},
    "w": ["b", "a", "b"],
}
NAMES = frozenset(VARIABLES)

EXPRESSIONS = [
    "n + 1 == 8 && n - 9 == -2 && n * 2 == 14 && n / 2 == 3 && n % 4 == 3",
    "-7 / 2 == -3 && -7 % 2 == -1 && 7 / -2 == -3 && 7 % -2 == 1",
    "n / 0 == 1",
    "n % 0 == 1",
    "9223372036854775807 + 1 == 0",
    "-(-9223372036854775807 - 1)",
    "n * 9223372036854775807",
    "1u + 2u",
    "1u - 2u == 0u",
    "d * 2.0 + 1.5",
    "1.0 / 0.0 > d",
    "dyn(1) == dyn(1.0) && dyn(1u) == dyn(1)",
    "dyn(1) == dyn(true)",
    "dyn('1') == dyn(1)",
    "dyn([1, 2]) == dyn([1.0, 2.0])",
    "dyn({'a': 1}) == dyn({'a': 1.0})",
    "{1: 'a', true: 'b', 'x': 'c'}[true]",
    "dyn({1: 'a'})[dyn(true)]",
    "dyn({1: 'a'})[dyn(1u)] + dyn({2u: 'b'})[dyn(2)]",
    "true in {true: 1}",
    "dyn(1) in dyn({true: 1})",
    "n < 8 && n <= 7 && n > 6 && n >= 7 && n != 6",
    "d < 3 && dyn(n) < d == false",
    "'a' < 'b' && b'a' < b'b' && false < true",
    "dyn('a') < dyn(1)",
    "s + '!' == 'hällo, wörld!'",
    "size(s) == 12 && s.size() == 12 && size(l) == 4 && size(m) == 3 && size(b'abc') == 3",
    "l + [4] == [1, 2, 3, 2, 4]",
    "l[0] + l[3]",
    "l[4]",
    "l[-1]",
    "l['a']",
    "m.a + m['a']",
    "m.nope",
    "m['nope']",
    "m.a.b",
    "m.b.c[0] && m.b.c[1] == null && m.b.c[2] == 'x'",
    "has(m.a) && !has(m.nope) && has(m.b.c)",
    "has(m.nope.more)",
    "has(m.a.more)",
    "'a' in m && !('q' in m) && 2 in l && !(9 in l) && 2.0 in l",
    "n in m",
    "l in l",
    "true || 1 / 0 == 1",
    "1 / 0 == 1 || true",
    "1 / 0 == 1 || false",
    "false && 1 / 0 == 1",
    "1 / 0 == 1 && false",
    "1 / 0 == 1 && true",
    "z && false",
    "z || true",
    "z && true",
    "t ? n : s",
    "!t || t",
    "dyn(n) ? 1 : 2",
    "!z",
    "l.all(x, x > 0)",
    "l.all(x, x > 1)",
    "l.all(x, x / 0 == 1 || x > 0)",
    "l.all(x, x / (x - 2) > 5)",
    "l.exists(x, x / (x - 2) > 0)",
    "l.exists(x, x == 3)",
    "l.exists_one(x, x == 2)",
    "l.exists_one(x, x == 3)",
    "l.map(x, x * 2)",
    "l.map(x, x > 1, x * 2)",
    "l.filter(x, x != 2)",
    "l.filter(x, x)",
    "l.map(x, l.map(y, x * y))",
    "l.map(x, l.filter(x, x > 1))",
    "m.map(k, k).size() == 3 && m.all(k, k != 'q') && m.exists(k, k == 'a')",
    "s.map(c, c)",
    "n.all(x, x)",
    "w.map(x, x + x)",
    "cel.bind(x, n + 1, x * x)",
    "cel.bind(x, n, cel.bind(x, x + 1, x) + x)",
    "cel.bind(x, 1 / 0, true)",
    "cel.bind(x, l, x.map(x, x))",
    "int('42') + int(2.9) + int(3u)",
    "int('x')",
    "int(1e30)",
    "uint('42')",
    "uint(-1)",
    "double('1.5') + double(2)",
    "double('x')",
    "string(12) + string(true) + string(b'abc') + string(1u)",
    "string(b'\\xff')",
    "bytes('ä') == b'ä' && size(bytes('ä')) == 2",
    "bool('true')",
    "bool('maybe')",
    "type(n) == int && type(d) == double && type(s) == string && type(t) == bool && type(z) == null_type",
    "type(l) == list && type(m) == map && type(1u) == uint && type(b'') == bytes && type(int) == type",
    "s.startsWith('hä') && s.endsWith('ld') && s.contains('o, w') && !s.contains('q')",
    "s.matches('^h.*d$') && !s.matches('^o') && matches('abc', 'b')",
    "s.matches('(')",
    "duration('1h30m') == duration('90m') && duration('1.5s') == duration('1500ms')",
    "duration('-1s') < duration('0s')",
    "duration('x')",
    "duration('1h').getMinutes() == 60 && duration('90s').getSeconds() == 90 && duration('1h').getHours() == 1",
    "duration('1500ms').getMilliseconds()",
    "string(duration('90m'))",
    "timestamp('2026-02-03T04:05:06.789Z').getMilliseconds()",
    "timestamp('2026-02-03T04:05:06Z').getMonth() * 100 + timestamp('2026-02-03T04:05:06Z').getDate()",
    "timestamp('2026-02-03T04:05:06Z').getDayOfMonth() + timestamp('2026-02-03T04:05:06Z').getDayOfWeek()",
    "timestamp('2026-02-03T04:05:06Z').getDayOfYear() + timestamp('2026-02-03T04:05:06Z').getFullYear()",
    "timestamp('2026-02-03T04:05:06Z').getHours('+02:00')",
    "timestamp('2026-02-03T04:05:06Z').getHours('America/New_York')",
    "timestamp('2026-02-03T04:05:06Z').getHours('Nowhere/Land')",
    "timestamp('2026-02-03T04:05:06Z') - timestamp('2026-02-03T03:05:06Z') == duration('1h')",
    "timestamp('2026-02-03T04:05:06Z') + duration('1h') > timestamp('2026-02-03T04:05:06+00:30')",
    "string(timestamp('2026-02-03T04:05:06Z'))",
    "timestamp('2026-13-03T04:05:06Z')",
    "timestamp(0) == timestamp('1970-01-01T00:00:00Z') && int(timestamp('1970-01-01T00:01:00Z')) == 60",
    "timestamp('9999-12-31T23:59:59Z') + duration('1h')",
    "m.?a.orValue(5) + m.?nope.orValue(5)",
    "m.?b.c[0].orValue(false)",
    "m.?nope.c.d.orValue('none')",
    "m[?'a'].hasValue() && !m[?'q'].hasValue() && l[?0].value() == 1 && !l[?9].hasValue()",
    "m.?a.optMap(x, x + 1).orValue(0) + m.?q.optMap(x, x + 1).orValue(0)",
    "m.?b.optFlatMap(x, x.?c).value().size()",
    "optional.none().value()",
    "optional.of(1).or(optional.of(2)).value() + optional.none().or(optional.of(2)).value()",
    "optional.ofNonZeroValue('').hasValue() || optional.ofNonZeroValue(0).hasValue()",
    "optional.of(1) == optional.of(1) && optional.none() != optional.of(1)",
    "[1, ?m.?a, ?m.?q]",
    "{'k': 1, ?'a': m.?a, ?'q': m.?q}",
    "{'a': 1, 'a': 2}",
    "s.charAt(1) + s.substring(3) + s.substring(0, 2)",
    "s.charAt(99)",
    "s.substring(5, 2)",
    "s.indexOf('l') + s.lastIndexOf('l') + s.indexOf('l', 3) + s.indexOf('q')",
    "s.indexOf('') + s.lastIndexOf('')",
    "'a,b,c'.split(',').join('-') + 'a,b,c'.split(',', 2).join('|') + 'abc'.split('').join('.')",
    "'a,b,c'.split(',', 0).size() + 'a,b,c'.split(',', 1).size()",
    "'aXbXc'.replace('X', '__') + 'aXbXc'.replace('X', '', 1) + 'ab'.replace('', '-')",
    "'ABC'.lowerAscii() + 'abc'.upperAscii() + ' x '.trim() + 'abc'.reverse()",
    "'Ä'.lowerAscii()",
    "w.join() + w.join(',')",
    "l.join(',')",
    "strings.quote('a\"b\\n')",
    "'%s %d %.2f %x %b %o %%'.format(['a', 5, 2.5, 255, 5, 8])",
    "'%s'.format([[1, 'a', true, null]])",
    "'%d'.format(['a'])",
    "'%s'.format([])",
    "math.greatest(1, 5, 3) + math.least([4, 2]) + math.greatest(1, 2) + math.least(7)",
    "math.ceil(1.2) + math.floor(1.8) + math.round(2.5) + math.trunc(-1.7) + math.abs(-1.5)",
    "math.sign(-3) + math.sign(0) + math.abs(-4)",
    "math.isNaN(0.0 / 0.0) && math.isInf(1.0 / 0.0) && math.isFinite(1.0)",
    "math.bitAnd(6, 3) + math.bitOr(4, 1) + math.bitXor(5, 1) + math.bitNot(1)",
    "math.bitShiftLeft(1, 3) + math.bitShiftRight(16, 2) + math.bitShiftRight(-1, 60)",
    "base64.encode(b'hello') + string(base64.decode('aGVsbG8='))",
    "base64.decode('!')",
]


def theirs(text: str, values: dict[str, Any]) -> tuple[str, Any]:
    env = _environment(NAMES, ())
    try:
        found = env.compile(text).eval(env.Activation(values))
    except RuntimeError:
        return "error", None
    return ("error", None) if found.type() == cel.Type.ERROR else ("value", plain(found.plain_value()))


def ours(text: str, values: dict[str, Any]) -> tuple[str, Any]:
    try:
        return "value", plain(compile_expression(text, NAMES).run(values))
    except EvaluationError:
        return "error", None


def plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {repr(key): plain(each) for key, each in value.items()}
    if isinstance(value, bool | str | bytes | type(None)):
        return value
    if isinstance(value, Duration):
        return value.nanoseconds / 1e9
    if isinstance(value, timedelta):
        return value.total_seconds()
    return float(value) if isinstance(value, int | float) else str(value)


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_both_agree(text: str) -> None:
    assert ours(text, VARIABLES) == theirs(text, VARIABLES)


NAMED = ["n", "d", "s", "t", "z", "l", "m", "w", "m.a", "m.b.c", "m.q", "l[1]", "w[0]", "l[9]", "duration(m.x)"]
LITERAL = [
    "1",
    "0",
    "-1",
    "2u",
    "1.5",
    "'a'",
    "''",
    "true",
    "null",
    "[]",
    "[1, 'a']",
    "{}",
    "{'a': 1}",
    "timestamp('')",
]
OPERAND = st.sampled_from([*NAMED, *LITERAL])
OPERATOR = st.sampled_from(["+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "in"])
UNARY = st.sampled_from(
    ["!{}", "-{}", "size({})", "string({})", "int(string({}))", "double(string({}))", "type({}) == int", "has(m.a)"]
)
MACRO = st.sampled_from(
    ["{}.all(x, {})", "{}.exists(x, {})", "{}.map(x, {})", "{}.filter(x, {})", "{}.exists_one(x, {})"]
)
TEXT = st.recursive(
    OPERAND.map("dyn({})".format),
    lambda inner: (
        st.tuples(inner, OPERATOR, inner).map("dyn({0[0]} {0[1]} {0[2]})".format)
        | st.tuples(UNARY, inner).map(lambda found: f"dyn({found[0].format(found[1])})")
        | st.tuples(MACRO, inner, inner).map(lambda found: f"dyn({found[0].format(found[1], found[2])})")
        | st.tuples(inner, inner, inner).map("dyn({0[0]} ? {0[1]} : {0[2]})".format)
    ),
    max_leaves=6,
)


@given(TEXT)
def test_both_agree_on_whatever_can_be_written(text: str) -> None:
    assert ours(text, VARIABLES) == theirs(text, VARIABLES)
