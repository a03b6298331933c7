"""Which reasons of conditions and events the program can write, as far as its source tells.

Wherever a condition or an event is made, the expression in the place of the reason is followed to the words that it can
be: literals, constants, either side of a choice, the values of a table, what is assigned in the same function, what a
function of the same module returns.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "echelon"
PACKAGES = ("engine", "controllers", "agent")
_WORD = re.compile(r"[A-Z][a-z]+[A-Za-z0-9]*")
# The place of the reason, by who makes the condition or event.
_PLACES = {"Emit": 1, "ConditionDraft": 2, "condition": 2, "BindingCondition": 2}
# Types of events, statuses, and whatever else stands beside reasons.
_OTHERS = frozenset(("True", "False", "Unknown", "Normal", "Warning"))


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def _constant(path: Path, name: str) -> ast.expr | None:
    """Return what a name of a module stands for, wherever it comes from."""
    for node in _tree(path).body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
            if isinstance(target, ast.Name) and target.id == name:
                return value
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                for each, part in zip(target.elts, value.elts, strict=False):
                    if isinstance(each, ast.Name) and each.id == name:
                        return part
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
            return node.value
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("echelon"):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    base = SOURCE.parent / (node.module or "").replace(".", "/")
                    module = base.with_suffix(".py") if base.with_suffix(".py").exists() else base / "__init__.py"
                    return _constant(module, alias.name) if module.exists() and module != path else None
    return None


class _Finder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.functions = {node.name: node for node in ast.walk(_tree(path)) if isinstance(node, ast.FunctionDef)}
        self.nodes = {name: list(ast.walk(node)) for name, node in self.functions.items()}

    def all(self) -> Iterator[str]:
        for name, function in self.functions.items():
            for node in self.nodes[name]:
                if isinstance(node, ast.Call):
                    for expression in _reason_of(node):
                        yield from self.words(expression, function, ())

    def words(self, node: ast.expr, function: ast.FunctionDef, inside: tuple[str, ...]) -> Iterator[str]:
        """Return the words that an expression can be."""
        match node:
            case ast.Constant(value=str(text)):
                if _WORD.fullmatch(text):
                    yield text
            case ast.Call(func=ast.Name(id=name)) if name in self.functions and name not in inside:
                for each in self.nodes[name]:
                    if isinstance(each, ast.Return) and each.value is not None:
                        yield from self.words(each.value, self.functions[name], (*inside, name))
            case ast.Name(id=name) if name not in inside:
                yield from self._named(name, function, (*inside, name))
            case _:
                for each in _parts(node):
                    yield from self.words(each, function, inside)

    def _named(self, name: str, function: ast.FunctionDef, inside: tuple[str, ...]) -> Iterator[str]:
        for node in self.nodes[function.name]:
            targets: list[ast.expr] = []
            if isinstance(node, ast.Assign):
                targets = node.targets
            elif isinstance(node, ast.NamedExpr | ast.For | ast.comprehension | ast.AugAssign):
                targets = [node.target]
            for target in targets:
                names = {each.id for each in ast.walk(target) if isinstance(each, ast.Name)}
                if name in names:
                    value = node.iter if isinstance(node, ast.For | ast.comprehension) else node.value  # type: ignore[attr-defined]  # one of those above
                    yield from self.words(value, function, inside)
        yield from self._given(name, function, inside)
        if (known := _constant(self.path, name)) is not None:
            yield from self.words(known, function, inside)

    def _given(self, name: str, function: ast.FunctionDef, inside: tuple[str, ...]) -> Iterator[str]:
        """Return what those who call a function give it for a parameter."""
        parameters = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
        method = parameters[:1] == ["self"]
        for caller in self.functions.values():
            for call in self.nodes[caller.name] if name in parameters and function.name not in inside else ():
                if isinstance(call, ast.Call) and _called(call) == function.name:
                    place = parameters.index(name) - method
                    given = call.args[place : place + 1] + [k.value for k in call.keywords if k.arg == name]
                    for each in given:
                        yield from self.words(each, caller, (*inside, function.name))


def _parts(node: ast.expr) -> list[ast.expr]:
    """Return what an expression is one of."""
    match node:
        case ast.IfExp():
            return [node.body, node.orelse]
        case ast.BoolOp() | ast.Dict():
            return node.values
        case ast.Tuple() | ast.List():
            return node.elts
        case ast.ListComp() | ast.GeneratorExp():
            return [node.elt]
        case ast.Subscript() | ast.Starred() | ast.Await():
            return [node.value]
        case ast.Call(func=ast.Attribute(attr="get" | "items" | "values", value=table)):
            return [table, *node.args[1:]]
    return []


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _reason_of(call: ast.Call) -> Iterator[ast.expr]:
    place = _PLACES.get(_called(call))
    if place is not None:
        yield from (each for each in call.args[:place] if isinstance(each, ast.Starred))
        yield from call.args[place : place + 1]
    for keyword in call.keywords:
        if keyword.arg == "reason":
            yield keyword.value


@cache
def reasons() -> dict[str, set[str]]:
    """Return the reasons that can be written, each with the modules that do."""
    found: dict[str, set[str]] = {}
    for package in PACKAGES:
        for path in sorted((SOURCE / package).rglob("*.py")):
            for word in _Finder(path).all():
                if word not in _OTHERS:
                    found.setdefault(word, set()).add(str(path.relative_to(SOURCE)))
    return found
