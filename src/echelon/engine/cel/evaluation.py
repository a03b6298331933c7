"""Evaluates checked expressions, step by step, with a meter running.

An expression becomes a tree of closures. An error is an exception that the logical operators may swallow, as CEL wants
it: `false && 1 / 0 == 1` is false. Running out of what the meter has is none of these, and ends everything.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from echelon.engine.cel.checked import Call, Comprehension, Const, Ident, ListOf, MapOf, Node, Select
from echelon.engine.cel.metering import LIST_COST, MAP_COST, Meter
from echelon.engine.cel.operators import Table, fitting, kinds_of
from echelon.engine.cel.values import (
    MISSING,
    TYPES,
    Maybe,
    ValueProblem,
    has_value,
    key_of,
    no_key,
    no_overload,
    plain_key,
)

_RESULT = "@result"  # the variable of macros; nobody else can spell it
_ABSENT = object()
_CAUGHT = 4  # what an error costs that is swallowed


class Frame:
    """The variables of one evaluation, and its meter."""

    __slots__ = ("meter", "names")

    def __init__(self, names: dict[str, Any], meter: Meter) -> None:
        self.names = names
        self.meter = meter


class _Failed:
    """What a variable holds that has no value."""

    __slots__ = ("error",)

    def __init__(self, error: ValueError) -> None:
        self.error = error


Run: TypeAlias = Callable[[Frame], Any]


class Planner:
    """Makes closures of expressions, with functions from tables."""

    def __init__(self, functions: Mapping[str, Any], methods: Mapping[str, Any]) -> None:
        self._functions: Table = dict(functions)
        self._methods: Table = dict(methods)

    def plan(self, node: Node) -> Run:
        """Return what evaluates an expression."""
        if isinstance(node, Const):
            value = node.value
            return lambda _: value
        if isinstance(node, Ident):
            return _ident(node.name)
        if isinstance(node, Select):
            return self._select(node)
        if isinstance(node, Call):
            return self._call(node)
        if isinstance(node, ListOf):
            return self._list(node)
        if isinstance(node, MapOf):
            return self._map(node)
        return self._loop(node)

    def _select(self, node: Select) -> Run:
        operand, field = self.plan(node.operand), node.field
        if node.test:
            return lambda frame: _has(frame, operand(frame), field)

        def run(frame: Frame) -> Any:
            value = operand(frame)
            frame.meter.pay(1)
            if value.__class__ is dict:
                if field in value:
                    return value[field]
                raise no_key(field)
            return _selected(value, field)

        return run

    def _call(self, node: Call) -> Run:
        special = _SPECIAL.get(node.function)
        operands = (*((node.target,) if node.target is not None else ()), *node.args)
        planned = tuple(map(self.plan, operands))
        if special is not None:
            return special(*planned)
        if node.function == "_?._" and isinstance(node.args[1], Const):
            return _maybe_select(planned[0], str(node.args[1].value))
        if node.target is not None and node.function in ("or", "orValue"):
            return _or_else(planned[0], planned[1], whole=node.function == "or")
        table = self._methods if node.target is not None else self._functions
        overloads = table.get(node.function, {})
        chosen: dict[tuple[type, ...], Any] = {}

        def run(frame: Frame) -> Any:
            values = tuple([each(frame) for each in planned])
            frame.meter.pay(1)
            classes = tuple([value.__class__ for value in values])
            function = chosen.get(classes)
            if function is None:
                function = fitting(overloads, kinds_of(values))
                if function is None:
                    raise no_overload()
                chosen[classes] = function
            return function(frame.meter, *values)

        return run

    def _list(self, node: ListOf) -> Run:
        items, optional = tuple(map(self.plan, node.items)), node.optional
        cost = LIST_COST + len(items) // LIST_COST

        def run(frame: Frame) -> list[Any]:
            frame.meter.pay(cost)
            return [each(frame) for each in items]

        def run_optional(frame: Frame) -> list[Any]:
            frame.meter.pay(cost)
            made = [(each(frame), position in optional) for position, each in enumerate(items)]
            return [_present(value) if maybe else value for value, maybe in made if not maybe or _is_there(value)]

        return run_optional if optional else run

    def _map(self, node: MapOf) -> Run:
        entries = tuple((self.plan(key), self.plan(value), maybe) for key, value, maybe in node.entries)
        cost = MAP_COST + len(entries)

        def run(frame: Frame) -> dict[Any, Any]:
            frame.meter.pay(cost)
            made: dict[Any, Any] = {}
            for key_run, value_run, maybe in entries:
                key, value = key_of(key_run(frame)), value_run(frame)
                if maybe and not _is_there(value):
                    continue
                if key in made:
                    raise ValueProblem(f"duplicate key in map: {plain_key(key)!s:.200}")
                made[key] = _present(value) if maybe else value
            return made

        return run

    def _loop(self, node: Comprehension) -> Run:
        items, start, result = self.plan(node.items), self.plan(node.start), self.plan(node.result)
        if isinstance(node.items, ListOf) and not node.items.items:  # cel.bind: nothing to walk over
            return _bound(node.result_variable, start, result)
        condition = None if node.condition == Const(value=True) else self.plan(node.condition)
        variable, accumulated = node.variable, node.result_variable
        collected = _collected(node)
        if collected is not None:
            chosen, item = collected
            wanted = None if chosen is None else self.plan(chosen)
            return _collect(variable, items, wanted, self.plan(item), result)
        step = self.plan(node.step)

        def run(frame: Frame) -> Any:
            names, meter = frame.names, frame.meter
            walked = _walked(items(frame))
            before, outer = names.get(variable, _ABSENT), names.get(accumulated, _ABSENT)
            names[accumulated] = _attempt(start, frame)
            try:
                for each in walked:
                    meter.pay(1)
                    names[variable] = each
                    if condition is not None and condition(frame) is not True:
                        break
                    names[accumulated] = _attempt(step, frame)
                names.pop(variable, None)
                return result(frame)
            finally:
                _restore(names, variable, before)
                _restore(names, accumulated, outer)

        return run


def _ident(name: str) -> Run:
    def run(frame: Frame) -> Any:
        frame.meter.pay(1)
        names = frame.names
        if name in names:
            value = names[name]
            if value.__class__ is _Failed:
                raise value.error
            return value
        if name in TYPES:
            return TYPES[name]
        raise ValueProblem(f"no such attribute: {name}")

    return run


def _has(frame: Frame, value: Any, field: str) -> bool:
    frame.meter.pay(1)
    if value.__class__ is Maybe:
        if not has_value(value):
            return False
        value = value.value
    if value.__class__ is not dict:
        raise no_overload()
    return field in value


def _selected(value: Any, field: str) -> Any:
    if value.__class__ is not Maybe:
        raise no_overload()
    return _maybe_selected(value, field)


def _maybe_selected(value: Any, field: str) -> Maybe:
    if value.__class__ is Maybe:
        if not has_value(value):
            return MISSING
        value = value.value
    if value.__class__ is not dict:
        raise no_overload()
    return Maybe(value[field]) if field in value else MISSING


def _maybe_select(operand: Run, field: str) -> Run:
    def run(frame: Frame) -> Maybe:
        value = operand(frame)
        frame.meter.pay(1)
        return _maybe_selected(value, field)

    return run


def _or_else(first: Run, second: Run, *, whole: bool) -> Run:
    def run(frame: Frame) -> Any:
        value = first(frame)
        frame.meter.pay(1)
        if value.__class__ is not Maybe:
            raise no_overload()
        if has_value(value):
            return value if whole else value.value
        return second(frame)

    return run


def _logical(left: Run, right: Run, *, settles: bool) -> Run:
    """Return && or ||: `settles` is what decides it, whatever the other side says."""

    def run(frame: Frame) -> bool:
        trouble: ValueError | None = None
        for side in (left, right):
            try:
                value = side(frame)
            except ValueError as error:
                frame.meter.pay(_CAUGHT)
                trouble = trouble or error
                continue
            if value.__class__ is bool and value == settles:
                return settles
            if value.__class__ is not bool:
                trouble = trouble or no_overload()
        if trouble is not None:
            raise trouble
        return not settles

    return run


def _conditional(condition: Run, true: Run, false: Run) -> Run:
    def run(frame: Frame) -> Any:
        value = condition(frame)
        if value is True:
            return true(frame)
        if value is False:
            return false(frame)
        raise no_overload()

    return run


def _not_strictly_false(operand: Run) -> Run:
    def run(frame: Frame) -> bool:
        try:
            return operand(frame) is not False
        except ValueError:
            frame.meter.pay(_CAUGHT)
            return True

    return run


_SPECIAL: dict[str, Callable[..., Run]] = {
    "_&&_": lambda left, right: _logical(left, right, settles=False),
    "_||_": lambda left, right: _logical(left, right, settles=True),
    "_?_:_": _conditional,
    "@not_strictly_false": _not_strictly_false,
}


def _attempt(run: Run, frame: Frame) -> Any:
    """Evaluate what a variable is to be. An error is one only for those who look at it: another item may settle all."""
    try:
        return run(frame)
    except ValueError as error:
        frame.meter.pay(_CAUGHT)
        return _Failed(error)


def _bound(variable: str, start: Run, result: Run) -> Run:
    def run(frame: Frame) -> Any:
        names = frame.names
        value = _attempt(start, frame)
        before = names.get(variable, _ABSENT)
        names[variable] = value
        try:
            return result(frame)
        finally:
            _restore(names, variable, before)

    return run


def _collected(node: Comprehension) -> tuple[Node | None, Node] | None:
    """Recognise the loops of `map` and `filter`, which add to a list that nobody else sees: on what, and what."""
    result, step = Ident(_RESULT), node.step
    if node.result_variable != _RESULT or node.start != ListOf((), frozenset()) or node.condition != Const(value=True):
        return None
    condition = None
    if isinstance(step, Call) and step.function == "_?_:_" and step.args[2] == result:
        condition, step = step.args[0], step.args[1]
    if isinstance(step, Call) and step.function == "_+_" and step.args[0] == result:
        added = step.args[1]
        if isinstance(added, ListOf) and len(added.items) == 1 and not added.optional:
            return condition, added.items[0]
    return None


def _collect(variable: str, items: Run, condition: Run | None, item: Run, result: Run) -> Run:
    def run(frame: Frame) -> Any:
        names, meter = frame.names, frame.meter
        walked = _walked(items(frame))
        before, outer = names.get(variable, _ABSENT), names.get(_RESULT, _ABSENT)
        found: list[Any] = []
        meter.pay(LIST_COST)
        try:
            for each in walked:
                names[variable] = each
                if condition is not None:
                    chosen = condition(frame)
                    if chosen is False:
                        meter.pay(1)
                        continue
                    if chosen is not True:
                        raise no_overload()
                meter.pay(2 + LIST_COST)
                found.append(item(frame))
            names.pop(variable, None)
            names[_RESULT] = found
            return result(frame)
        finally:
            _restore(names, variable, before)
            _restore(names, _RESULT, outer)

    return run


def _restore(names: dict[str, Any], name: str, value: Any) -> None:
    if value is _ABSENT:
        names.pop(name, None)
    else:
        names[name] = value


def _walked(value: Any) -> Any:
    if value.__class__ is list:
        return value
    if value.__class__ is dict:
        return [plain_key(key) for key in value]
    raise no_overload()


def _is_there(value: Any) -> bool:
    if value.__class__ is not Maybe:
        raise no_overload()
    return has_value(value)


def _present(value: Any) -> Any:
    return value.value
