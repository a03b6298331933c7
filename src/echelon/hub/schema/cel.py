"""Validation rules of a schema (`x-kubernetes-validations`): compiled once, evaluated over each object."""

from collections.abc import Iterable, Iterator
from typing import Final

from echelon.api.base import JSON, JSONObject
from echelon.engine.cel import CEL_AVAILABLE, CompileError, EvaluationError, Program, compile_expression
from echelon.hub.schema import causes
from echelon.hub.schema.explaining import MISSING
from echelon.hub.schema.rule_tree import RuleError, RuleNode, all_rules, compile_node, escape
from echelon.hub.schema.rule_walk import RuleWalk
from echelon.kube.errors import Cause

__all__ = [
    "CEL_AVAILABLE",
    "CompileError",
    "EvaluationError",
    "Program",
    "RuleError",
    "Rules",
    "compile_expression",
    "escape",
]

MAX_RULES: Final = 1_000
MAX_CHARACTERS: Final = 100_000  # of all rules: compiling a character takes microseconds

_BLOCKING = frozenset(f"FieldValue{kind}" for kind in ("NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid"))
_NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


class Rules:
    """The compiled rules of a schema."""

    def __init__(self, root: RuleNode | None, unenforced: int = 0) -> None:
        self._root = root
        self.unenforced = unenforced  # rules that nobody checks, because CEL is not installed

    @classmethod
    def compile(cls, schema: JSONObject) -> "Rules":
        """Compile all rules of a schema; raise RuleError for the first that cannot be."""
        count = sum(1 for _ in all_rules(schema))
        if not count or not CEL_AVAILABLE:
            return cls(None, count)
        if count > MAX_RULES:
            raise RuleError("", {}, f"a schema may have at most {MAX_RULES} rules, this one has {count}")
        length = sum(len(str(rule.get("rule"))) + len(str(rule.get("messageExpression"))) for rule in all_rules(schema))
        if length > MAX_CHARACTERS:
            raise RuleError("", {}, f"the rules of a schema may have at most {MAX_CHARACTERS} characters together")
        return cls(compile_node(schema, schema, ""))

    def costs(self) -> Iterator[tuple[str, int]]:
        """Return what each rule could cost for one object, by its path within the schema."""
        return iter(()) if self._root is None else self._root.costs(1)

    @property
    def are_content(self) -> bool:
        """Whether they can find nothing in an object that they accepted, and that did not change."""
        return self._root is None or self._root.ratchets

    def evaluate(
        self,
        obj: JSON,
        old: JSON = None,
        *,
        after: Iterable[Cause] = (),
        accepted: bool = False,
        sound: frozenset[str] = frozenset(),
    ) -> list[Cause]:
        """Return which rules an object breaks, as an update of `old` if there is one.

        `after` is what the schema found: rules may rely on types and sizes, so some findings keep them from being run.
        `accepted` says that `old` was taken under these very rules. Else they may have come later, and then one that
        has no value for what did not change, as opposed to a bad one, is told all the same. `sound` are fields
        at the top of a new object about which nobody complained when another one had the same.
        """
        found: list[Cause] = []
        for _ in self.walk(found, obj, old, after=after, accepted=accepted, sound=sound):
            pass
        return found

    def walk(
        self,
        found: list[Cause],
        obj: JSON,
        old: JSON = None,
        *,
        after: Iterable[Cause] = (),
        accepted: bool = False,
        sound: frozenset[str] = frozenset(),
    ) -> Iterator[None]:
        """Evaluate as `evaluate` does, and add to `found` what is wrong; pause from time to time."""
        if self._root is None:
            return
        if any(cause.reason in _BLOCKING for cause in after):
            found.append(causes.invalid("<nil>", None, _NOT_CHECKED))
            return
        walk = RuleWalk(found, accepted=accepted, sound=sound)
        # An object as a whole is never excused: Kubernetes finds it changed even where nothing was.
        yield from walk.node(self._root, obj, MISSING if old is None else old, "", ratchet=MISSING)
